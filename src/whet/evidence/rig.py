"""Referee, judge and benches of one plan: the turns that the benches take, and the rounds they make up.

A bench is frozen unless it is its turn. In a round the referee draws inputs in private and the judge poisons every
output; then each arm in turn warms up on one of them, is frozen, gets the others, is thawed, says that it is done and
is frozen again. The call that warms up is judged like the others but does not count. What comes back per arm is a
`Reading` or a `Red`.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeVar

from whet.errors import DeviceGone, DeviceOutOfMemory, WhetError
from whet.evidence import messages, seeds
from whet.evidence.adapter import adapter_of
from whet.evidence.benches import Benches, Memory, Plan, Stand
from whet.evidence.buffers import poison_word
from whet.evidence.clock import quantum_ns
from whet.evidence.messages import Claim, Done
from whet.evidence.officials import OfficialLost, Officials
from whet.evidence.readings import Reading, Red
from whet.evidence.record import EMPTY, Isolation, Warning
from whet.evidence.system import NotStopped, Usage
from whet.evidence.worker import Faults, Worker
from whet.protocol import Case

__all__ = ["WARM_UP_LIMIT_NS", "Plan", "Rig", "Stand", "memory_room"]

# A call that takes longer needs no warming up.
WARM_UP_LIMIT_NS = 100_000_000
# The oracle may take so long over a round of several calls; beyond that it sees some of them.
ORACLE_ROUND_NS = 60_000_000
# Threads that run after a call has returned get this much processor time to come to rest.
SPIN_PATIENCE_NS = 400_000_000
STARVED_PATIENCE_S = 20.0
REST_STEP_S = 0.002

T = TypeVar("T")


@dataclass(frozen=True)
class Window:
    """What was seen from outside while a bench was thawed."""

    answer: messages.Answer
    thawed_ns: int
    heard_ns: int
    used: Usage
    own_used: Usage
    restless: bool

    @property
    def span_ns(self) -> int:
        """From the thaw to its answer, less waiting for others to leave a core."""
        return self.heard_ns - self.thawed_ns - self.used.waited_for_others_ns - self.own_used.waited_ns


class Rig(Benches):
    """Use as a context manager: `open` a case, `start` benches for it, play rounds.

    `near`: the variants compute on this machine, where cores are shared out and spans are seen from outside.
    """

    near: ClassVar[bool] = True

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self.officials = Officials(plan.ref, call_limit_s=plan.call_limit_s)
        self.slots = 0
        # What asking the oracle cost the last time: about a round, and about one call of it.
        self.oracle_ns = 0
        self.oracle_slot_ns = 0.0
        self.errors: dict[str, float] = {}
        # Calls so long that warming up would only cost time.
        self.long_calls = False
        # How far the trial is, from 0 to 1, for a rig that shows it somewhere.
        self.share = 0.0
        self._fds: list[int] = []

    def __enter__(self) -> Rig:
        self._identify()
        try:
            self.officials.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _identify(self) -> None:
        adapter_of(self.plan.engine, self.plan.variants, self.plan.device)

    @property
    def tick_ns(self) -> int:
        """How fine the clock is that a call is timed by."""
        return quantum_ns()

    def notes(self) -> dict[str, Any]:
        """What a run keeps about where its turns were taken, besides the environment."""
        return {}

    def warnings(self) -> list[Warning]:
        return []

    def close(self) -> None:
        self.stop()
        self.officials.close()
        self._forget_memory()

    def open(self, case: Case, slots: int = 1) -> None:
        """Makes the memory of `case` anew; `start` puts benches on it, or `move_on` those that are there."""
        while True:
            try:
                return self._open(case, slots)
            except OfficialLost as lost:
                self.officials.replace(lost)

    def _open(self, case: Case, slots: int) -> None:
        self._forget_memory()
        self.layout = self.officials.measure(
            case,
            fixed_seed=seeds.derive(self.plan.seed, "fixed"),
            probe_seed=seeds.derive(self.plan.seed, "probe"),
            slots=slots + self.untimed,
        )
        self.slots = slots
        self._provide()

    def renew(self) -> None:
        """Other memory for the open case, before its benches are started again.

        Which pages an arm got, and what they share a cache with, is luck like all else that a block has for itself.
        """
        self.stop()
        try:
            self._forget_memory()
            self._provide()
        except OfficialLost as lost:
            self.officials.replace(lost)
            self.open(self.layout.case, self.slots)

    def _provide(self) -> None:
        sizes = self.layout.fixed.size_bytes, self.layout.inputs.size_bytes, self.layout.outputs.size_bytes
        fixed, expected = self._make("fixed", sizes[0]), self._make("expected", sizes[2])
        arms = [(self._make("inputs", sizes[1]), self._make("outputs", sizes[2])) for _ in self.stands]
        self.officials.map(self.layout, fixed, expected, arms)
        self.memory = Memory(self.layout, fixed, arms)
        self._sealed = all([self.host.forbid_new_writers(fd) for fd in (fixed, *(inputs for inputs, _ in arms))])

    @property
    def untimed(self) -> int:
        """Calls before a turn that do not count: they find the caches as the arm before left them."""
        return int(self.plan.regime == "warm" and not self.long_calls)

    @property
    def slot_bytes(self) -> int:
        """What one more call in a turn costs in memory, all arms together."""
        inputs, outputs = self.layout.inputs.size_bytes, self.layout.outputs.size_bytes
        return (len(self.stands) * (inputs + outputs) + outputs) // len(self.layout.outputs.groups)

    @property
    def input_bytes(self) -> int:
        """What one call reads."""
        groups = [*self.layout.fixed.groups, self.layout.inputs.groups[0]]
        return sum(one.size_bytes for group in groups for one in group)

    def round(
        self,
        label: Sequence[str | int],
        order: Sequence[str],
        *,
        calls: int = 1,
        full: bool = True,
        timing: bool = False,
    ) -> dict[str, Reading | Red]:
        """A turn for every arm in `order`, on one set of fresh inputs; judged before anything is told.

        A round that loses the referee or the judge is repeated on other inputs, with new processes for everybody.
        """
        reds: dict[str, Reading | Red] = {}
        while True:
            playing = [name for name in order if name not in reds]
            again = ("again", self.officials.losses) if self.officials.losses else ()
            try:
                results = reds | self._play((*label, *again), playing, calls=calls, full=full, timing=timing)
                break
            except OfficialLost as lost:
                self.officials.replace(lost)
                reds |= self._reopen()
        for name, result in results.items():
            if isinstance(result, Red):
                self.retire(name)
        return results

    def _reopen(self) -> dict[str, Red]:
        """The case and the benches as they were before an official was lost; those that failed at it."""
        standing = {name for name in self._started["arms"] if self.stands[name].worker is not None}
        self.open(self.layout.case, self.slots)
        return self.start(**{**self._started, "arms": [name for name in self._started["arms"] if name in standing]})

    def _play(
        self, label: Sequence[str | int], order: Sequence[str], *, calls: int, full: bool, timing: bool
    ) -> dict[str, Reading | Red]:
        counts = {name: min(self.slots, calls * self.plan.more_calls.get(name, 1)) for name in order}
        most = self.untimed + max([calls, *counts.values()])
        drawn = [seeds.derive(self.plan.seed, *label, slot) for slot in range(most)]
        self.officials.draw(drawn)
        self.officials.poison({self.stands[name].arm: poison_word(self._random) for name in order})
        results: dict[str, Reading | Red] = {}
        for name in order:
            results[name] = self._turn(self.stands[name], counts[name], drawn[0], timing or self.plan.clock == "device")
        self._judge(results, full=full)
        return results

    def save_evidence(self, name: str, slot: int, path: str) -> None:
        try:
            self.officials.save(self.stands[name].arm, slot, path)
        except OfficialLost as lost:
            raise lost.fault from None

    def _turn(self, stand: Stand, calls: int, seed: int, timing: bool) -> Reading | Red:
        worker = stand.worker
        if worker is None:
            return Red("died", "the process is gone")
        # Revealing is outside of what a bench is blamed for: it is the officials' own doing.
        self.officials.reveal(stand.arm, range(self.untimed))
        warmed = self._heard(lambda: self._warm_up(stand, worker))
        if isinstance(warmed, Red):
            return warmed
        self.officials.reveal(stand.arm, range(self.untimed, self.untimed + calls))
        if self.plan.regime == "cold":
            self.officials.evict(self.cores)
        found = self._heard(lambda: self._timed(stand, worker, calls, seed, timing))
        if isinstance(found, Red):
            return found
        return replace(found, warm_up_ns=warmed.span_ns, warm_up_cpu_ns=warmed.used.cpu_ns, warm_up_calls=self.untimed)

    def _heard(self, step: Callable[[], T]) -> T | Red:
        """What a bench answered, or what it is refused for: its faults cost nobody else anything."""
        try:
            return step()
        except NotStopped as error:
            return Red("died", str(error))
        except Faults as error:
            return Red(error.reason, str(error))
        except WhetError as error:
            # Of a device elsewhere the rig itself says that it is gone; here it is but a bench's word for its own.
            if isinstance(error, DeviceGone) and not self.near:
                raise
            return Red("device failed", f"{type(error).__name__}: {error.cause}")

    def _window(self, worker: Worker, request: messages.Request, limit_s: float, *, rests: bool = False) -> Window:
        """Thawed until it has answered. With `rests` it is also seen whether its threads come to rest by themselves."""
        before, own = self.host.usage(worker.pid), self.host.usage(os.getpid())
        worker.post(request)
        thawed_ns = time.monotonic_ns()
        self.host.thaw(worker.pid)
        answer = worker.answer(limit_s)
        heard_ns = time.monotonic_ns()
        restless = rests and not self._comes_to_rest(worker.pid)
        self.host.freeze(worker.pid)
        return Window(
            answer,
            thawed_ns,
            heard_ns,
            used=self.host.usage(worker.pid) - before,
            own_used=self.host.usage(os.getpid()) - own,
            restless=restless,
        )

    def _timed(self, stand: Stand, worker: Worker, calls: int, seed: int, timing: bool) -> Reading | Red:
        asked = messages.Turn(first=self.untimed, calls=calls, with_timing=timing)
        window = self._window(worker, asked, self.plan.call_limit_s * calls)
        stand.calls += calls
        if isinstance(window.answer, messages.Raised):
            return Red("raised", window.answer.text)
        claim: Claim = worker.must_be(Claim, window.answer)
        if self.host.children(worker.pid):
            return Red("left a process", "a process that it started goes on after run() had returned")
        stamps = [window.thawed_ns, claim.start_ns, *claim.ends_ns, window.heard_ns]
        if len(claim.ends_ns) != calls or stamps != sorted(stamps):
            return Red("its clock and ours disagree", "its time stamps lie outside the span in which it ran")
        if not self._sealed and not self.officials.kept(stand.arm):
            return Red("inputs changed", "the inputs are not what they were before the turn")
        for region, spent_ns in claim.regions_ns.items():
            stand.regions_ns.setdefault(region, []).append(spent_ns)
        return Reading(
            calls=calls,
            wall_ns=claim.wall_ns,
            # Some of the waiting lies inside the claim, and some after the answer.
            outside_ns=max(claim.wall_ns, window.span_ns),
            cpu_ns=window.used.cpu_ns,
            waited_ns=window.used.waited_ns,
            device_ns=claim.device_ns,
            seed=seed,
            digest="",
            check="",
            longest=_longest([claim.start_ns, *claim.ends_ns]),
            busy_half=busy_half([claim.start_ns, *claim.ends_ns], window.used.waited_ns),
            regions_ns=claim.regions_ns,
            tags=claim.tags,
            waits=claim.waits,
            sheet=claim.sheet,
        )

    def _warm_up(self, stand: Stand, worker: Worker) -> Window | Red:
        stand.turns += 1
        # Once it has run: does it come to rest? Later it would only be asked again.
        asked = messages.WarmUp(calls=self.untimed)
        window = self._window(worker, asked, self.plan.call_limit_s, rests=stand.turns == 2)
        if isinstance(window.answer, messages.Raised):
            return Red("raised", window.answer.text)
        done: Done = worker.must_be(Done, window.answer)
        if done.patched:
            return Red("its clock and ours disagree", f"time.{done.patched[0]} was replaced in its process")
        if window.restless:
            return Red("worked outside its clock", "its threads go on after run() has returned")
        return window

    def _comes_to_rest(self, pid: int) -> bool:
        """Whether all its threads sleep soon. Pools may spin for a while; what counts is the time they really ran."""
        began_ns, deadline = self.host.usage(pid).cpu_ns, time.monotonic() + STARVED_PATIENCE_S
        while time.monotonic() < deadline:
            time.sleep(REST_STEP_S)
            if not self.host.wants_to_run(pid):
                return True
            if self.host.usage(pid).cpu_ns - began_ns > SPIN_PATIENCE_NS:
                return False
        return False

    def isolated(self) -> Isolation | None:
        """What keeps a variant apart here."""
        return self.isolation

    def _judge(self, results: dict[str, Reading | Red], *, full: bool) -> None:
        """Replaces the readings that the judge does not confirm, and signs the others.

        An oracle that is too dear for all calls of a turn is asked about some of them, drawn when the turns are over.
        """
        told = {n: r for n, r in results.items() if isinstance(r, Reading) and n != EMPTY}
        if not told:
            return
        calls = {self.stands[name].arm: self.untimed + reading.calls for name, reading in told.items()}
        every = list(range(max(calls.values())))
        slots = self._seen(every) if full else []
        reports = self._reports(calls, slots)
        if any(report.reason == "disputed" for report in reports.values()):
            full, reports = True, self._reports(calls, every)
        for name, reading in told.items():
            stand, report = self.stands[name], reports[self.stands[name].arm]
            stand.full_checks += full
            stand.agreements += not full
            if report.reason:
                results[name] = Red(report.reason, report.detail, report.slot, report.expected, report.got)
                continue
            results[name] = reading.signed(report.digest, "full" if full else "agreement", report.error)
            key = str(stand.variant) if stand.variant else name
            self.errors[key] = max(self.errors.get(key, 0.0), report.error)

    def _seen(self, every: Sequence[int]) -> list[int]:
        """The slots that the oracle is asked about: all it can afford, by lot, and always one that counts."""
        affordable = max(1, min(len(every), int(ORACLE_ROUND_NS / max(1.0, self.oracle_slot_ns))))
        sure = self._random.choice(every[self.untimed :])
        others = self._random.sample([slot for slot in every if slot != sure], affordable - 1)
        return sorted([sure, *others])

    def _reports(self, calls: dict[int, int], slots: list[int]) -> Mapping[int, messages.Judgement]:
        if slots:
            self.oracle_ns = self.officials.expect(slots)
            self.oracle_slot_ns = self.oracle_ns / len(slots)
        return self.officials.judge(calls, slots, self.plan.engine.tolerance)

    def _make(self, name: str, size_bytes: int) -> int:
        fd: int = self.host.make_memory(name, size_bytes)
        self._fds.append(fd)
        return fd

    def _forget_memory(self) -> None:
        for fd in self._fds:
            os.close(fd)
        self._fds.clear()


def _longest(stamps: Sequence[int]) -> float:
    """The share of a turn that its longest call took, if that call was the first; else 0."""
    spans = [end - start for start, end in itertools.pairwise(stamps)]
    whole_ns = stamps[-1] - stamps[0]
    if len(spans) < 4 or whole_ns <= 0:
        return 0.0
    return spans[0] / whole_ns if spans[0] == max(spans) else 0.0


def busy_half(stamps: Sequence[int], waited_ns: int) -> float:
    """The share of a turn that the longer half of its calls took; 0 for fewer than four.

    Waiting for a core makes calls long that are not: it is taken from the longest.
    """
    spans = sorted((end - start for start, end in itertools.pairwise(stamps)), reverse=True)
    if len(spans) < 4:
        return 0.0
    for place, span in enumerate(spans):
        taken = min(waited_ns, span)
        spans[place], waited_ns = span - taken, waited_ns - taken
    spans.sort(reverse=True)
    return sum(spans[: len(spans) // 2]) / max(1, sum(spans))


def memory_room(slot_bytes: int, limit_bytes: int) -> int:
    """How many slots fit; a case of which not one fits cannot run here."""
    import psutil

    available: int = psutil.virtual_memory().available
    room = min(limit_bytes, available // 2)
    if slot_bytes > available:
        raise DeviceOutOfMemory(f"one turn needs {slot_bytes / 1e9:.1f} GB of buffers", cure="choose a smaller case")
    return max(1, room // max(1, slot_bytes))
