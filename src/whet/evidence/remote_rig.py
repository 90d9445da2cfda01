"""A rig whose variants run on a device elsewhere. Gate, judge and rounds are those of any rig; a turn is not.

The bench describes its program, feeds it and makes the outputs of what came back, confined as ever; in between the
device runs it. The time of a turn is the wall time of its calls by the device's own page, which is whet's code: from
before the inputs are written until the outputs are read back. What the host does before and after is not in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from statistics import median
from time import sleep as rest
from typing import Any

from whet.errors import DeviceError, DeviceGone
from whet.evidence import messages, seeds
from whet.evidence.benches import Plan, Stand
from whet.evidence.elsewhere import Disturbed, Elsewhere, FirstRun, RemoteTurn, reached
from whet.evidence.live_rows import LiveRows, last_rows
from whet.evidence.messages import Described, Done, Fed
from whet.evidence.officials import OfficialLost
from whet.evidence.readings import Reading, Red
from whet.evidence.record import EMPTY, Isolation, Run, Warning
from whet.evidence.rig import Rig
from whet.evidence.warnings import Kind
from whet.evidence.worker import Worker

# Compiling a program and its first run may take longer than a call.
PREPARE_FACTOR = 4.0
# Rounds that were disturbed in a row before the device counts as gone.
MOST_DISTURBANCES = 20
# The reference kernel runs once in so many rounds.
REFERENCE_ROUNDS = 4
REFERENCE_FIRST = 5
DRIFT = 1.25
COOL_DOWN_S = 5.0
COOL_DOWNS = 4
# A quartz and the slewing of a time server, together and generously.
CLOCKS_APART = 0.001


class RemoteRig(Rig):
    """`plan.elsewhere` is open and stays open: who opened it closes it."""

    near = False

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        assert plan.elsewhere is not None
        self.place: Elsewhere = plan.elsewhere
        self.first: dict[str, FirstRun] = {}
        self.disturbances = 0
        self._sealed_arms: list[str] = []
        self._rounds = 0
        self._reference_ns: list[int] = []
        self._cooled = 0
        self._live = LiveRows([str(variant) for variant in plan.variants])

    @property
    def tick_ns(self) -> int:
        return self.place.tick_ns

    def _identify(self) -> None:
        self.place.begin(f"{self.plan.engine.name}", [str(variant) for variant in self.plan.variants])

    def _open(self, case: Any, slots: int) -> None:
        self._sealed_arms = []
        super()._open(case, slots)

    def start(
        self, arms: Sequence[str], *, cores: list[int] | None = None, baseline: str = "", sealed: bool = False
    ) -> dict[str, Red]:
        """A block has buffers of its own on the device. The benches stay: no part of a time depends on them."""
        self._live.begin_block()
        standing = self._sealed_arms == list(arms) and all(self.stands[name].worker for name in arms)
        reds: dict[str, Red] = {}
        if not (sealed and standing):
            reds = super().start(arms, cores=cores, baseline=baseline, sealed=sealed)
            self._sealed_arms = list(arms) if sealed and not reds else []
        return reds | self._send([name for name in arms if name not in reds])

    def move_on(self, arms: Sequence[str]) -> dict[str, Red]:
        if any(self.stands[name].worker is None for name in arms):
            return self.start(arms)
        reds = super().move_on(arms)
        return reds | self._send([name for name in arms if name not in reds])

    def round(
        self,
        label: Sequence[str | int],
        order: Sequence[str],
        *,
        calls: int = 1,
        full: bool = True,
        timing: bool = False,
    ) -> dict[str, Reading | Red]:
        """A round that is disturbed is played again as a whole, on other inputs."""
        self._keep_cool()
        for attempt in range(MOST_DISTURBANCES):
            again = ("disturbed", attempt) if attempt else ()
            try:
                found = super().round((*label, *again), order, calls=calls, full=full, timing=timing)
            except Disturbed:
                self.disturbances += 1
            else:
                self._show(label, found)
                return found
        raise DeviceGone(
            f"{self.place.name} was disturbed in every round", cure="leave its page in front, and run again"
        )

    def notes(self) -> dict[str, Any]:
        """What the run keeps about the device besides its adapter."""
        return {
            "name": self.place.name,
            "clock_step_ns": self.place.tick_ns,
            "disturbances": self.disturbances,
            "first": {n: {"compile_ns": f.compile_ns, "run_ns": f.run_ns} for n, f in self.first.items() if n != EMPTY},
            "reference_ns": list(self._reference_ns),
        }

    def warnings(self) -> list[Warning]:
        found = []
        if self._cooled and self._drifted():
            factor = median(self._reference_ns[-3:]) / median(self._reference_ns[:REFERENCE_FIRST])
            found.append(Kind.DEVICE_DRIFT(f"a kernel that never changes took {factor:.2f} times as long as at first"))
        if self.disturbances:
            found.append(Kind.DISTURBED(f"{self.disturbances} rounds were disturbed and played again"))
        return found

    def _show(self, label: Sequence[str | int], found: Mapping[str, Reading | Red]) -> None:
        """How far it is, for whoever looks at the device."""
        self._live.note(label, found)
        what = "gate" if label[0] == "check" else "round"
        number = label[-2] if what == "round" and len(label) > 2 else label[-1]
        self.place.show(f"{what} {number}", self._live.rows(), share=self.share)

    def _keep_cool(self) -> None:
        """Looks at the reference kernel every few rounds; waits a while where the device became slower."""
        self._rounds += 1
        if self._rounds % REFERENCE_ROUNDS != 1:
            return
        wanted = 1 if self._reference_ns else REFERENCE_FIRST
        self._reference_ns += [ns for _ in range(wanted) if (ns := self._reference())]
        while self._cooled < COOL_DOWNS and self._drifted():
            self._cooled += 1
            slower = "the device became slower; waiting for it to cool down"
            self.place.show(slower, [], share=self.share, at_once=True)
            rest(COOL_DOWN_S)
            self._reference_ns += [ns for _ in range(3) if (ns := self._reference())]

    def _reference(self) -> int:
        """0 where it came to nothing: the reference is for warnings, and no round is lost over it."""
        try:
            return self.place.reference_ns()
        except DeviceGone:
            raise
        except (Disturbed, DeviceError):
            return 0

    def _drifted(self) -> bool:
        taken = self._reference_ns
        return len(taken) >= REFERENCE_FIRST + 3 and median(taken[-3:]) > DRIFT * median(taken[:REFERENCE_FIRST])

    def _send(self, arms: Sequence[str]) -> dict[str, Red]:
        """The programs of these arms to the device; those that it does not take."""
        reds = {}
        try:
            # What a program is first run on; nothing in it is secret.
            self.officials.draw([seeds.derive(self.plan.seed, "first")])
            for name in arms:
                self.officials.reveal(self.stands[name].arm, [0])
        except OfficialLost as lost:
            raise lost.fault from None
        for name in arms:
            stand = self.stands[name]
            if red := self._prepared(stand):
                reds[name] = red
        return reds

    def _prepared(self, stand: Stand) -> Red | None:
        described: Described | Red | None = None
        if stand.name != EMPTY:
            worker = stand.worker
            assert worker is not None
            described = self._heard(lambda: self._asked(worker, messages.Describe(), Described))
        if isinstance(described, Red):
            return described
        limit_s = PREPARE_FACTOR * self.plan.call_limit_s
        for _ in range(MOST_DISTURBANCES):
            try:
                first = self._heard(lambda: self.place.prepare(stand.name, described, limit_s=limit_s))
            except Disturbed:
                self.disturbances += 1
                continue
            if isinstance(first, Red):
                return first
            self.first.setdefault(stand.name, first)
            return None
        raise DeviceGone(f"{self.place.name} was disturbed again and again", cure="leave its page in front")

    def _turn(self, stand: Stand, calls: int, seed: int, timing: bool) -> Reading | Red:
        worker = stand.worker
        if worker is None:
            return Red("died", "the process is gone")
        asked = self.untimed + calls
        self.officials.reveal(stand.arm, range(asked))
        fed: Sequence[Mapping[str, bytes]] | Red = [{}] * asked
        if stand.name != EMPTY:
            heard = self._heard(lambda: self._asked(worker, messages.Feed(calls=asked), Fed))
            fed = heard if isinstance(heard, Red) else heard.calls
        if isinstance(fed, Red):
            return fed
        limit_s = self.plan.call_limit_s * asked
        sent: Sequence[Mapping[str, bytes]] = fed
        ran = self._heard(lambda: self.place.turn(stand.name, sent, timing=timing, limit_s=limit_s))
        stand.calls += asked
        if isinstance(ran, Red):
            return ran
        if red := self._implausible(ran, asked):
            return red
        if stand.name != EMPTY:
            finish = messages.Finish(read=[dict(read) for read in ran.read])
            done = self._heard(lambda: self._asked(worker, finish, Done))
            if isinstance(done, Red):
                return done
        for region, spent_ns in ran.regions_ns.items():
            stand.regions_ns.setdefault(region, []).append(spent_ns)
        first_ns, timed = sum(ran.walls_ns[: self.untimed]), ran.walls_ns[self.untimed :]
        wall_ns = sum(timed)
        return Reading(
            calls=calls,
            wall_ns=wall_ns,
            outside_ns=max(wall_ns, ran.outside_ns - first_ns),
            cpu_ns=0,
            waited_ns=0,
            device_ns=ran.device_ns,
            seed=seed,
            digest="",
            check="",
            longest=timed[0] / wall_ns if calls >= 4 and timed[0] == max(timed) else 0.0,
            warm_up_ns=first_ns,
            warm_up_calls=self.untimed,
            regions_ns=dict(ran.regions_ns),
        )

    def _implausible(self, ran: RemoteTurn, calls: int) -> Red | None:
        """Whatever the way to the device costs, no call takes longer than the turn seen from here.

        Each call may be told a step of the device's clock too long, and the clocks of two machines run apart.
        """
        if len(ran.walls_ns) != calls or len(ran.read) != calls:
            return Red("garbled answer", f"the device told of {len(ran.walls_ns)} calls, not {calls}")
        wall_ns = sum(ran.walls_ns)
        most_ns = ran.outside_ns * (1 + CLOCKS_APART) + calls * self.place.tick_ns
        if min(ran.walls_ns) < 0 or wall_ns <= 0 or wall_ns > most_ns:
            said = f"the device says {wall_ns / 1e6:.3f} ms, from here it was {ran.outside_ns / 1e6:.3f} ms"
            return Red("its clock and ours disagree", said)
        return None

    def _asked(self, worker: Worker, request: messages.Request, kind: Any) -> Any:
        """One request to a bench that is frozen but for the time it takes to answer."""
        self.host.thaw(worker.pid)
        try:
            worker.post(request)
            answer = worker.answer(self.plan.call_limit_s)
        finally:
            self.host.freeze(worker.pid)
        if isinstance(answer, messages.Raised):
            return Red("raised", answer.text)
        return worker.must_be(kind, answer)

    def isolated(self) -> Isolation:
        """The benches' own, and what is different about a device that is elsewhere."""
        own = self.isolation or Isolation(name="")
        told = {"outside clock": "times are those of the device's page; the span seen from here has the way in it"}
        granted = ["a program without access to the page", *own.granted]
        return Isolation(name=f"{own.name}, device elsewhere", granted=granted, missing={**own.missing, **told})


def show_verdicts(place: Elsewhere, run: Run) -> None:
    """The last word on the device itself."""
    place.show(f"done: {run.stopped}", last_rows(run), share=1.0, at_once=True)


@contextmanager
def placed(plan: Plan) -> Iterator[Plan]:
    """The plan with its device, if that is elsewhere; one that is open already stays open."""
    if plan.elsewhere is not None:
        yield plan
        return
    with reached(plan.device) as place:
        yield replace(plan, elsewhere=place)


def rig_for(plan: Plan) -> Rig:
    """The rig that plays this plan: here, or on a device elsewhere."""
    return Rig(plan) if plan.elsewhere is None else RemoteRig(plan)
