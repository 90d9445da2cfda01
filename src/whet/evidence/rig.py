"""Referee, judge and benches of one plan, and the turns that the benches take.

A bench is frozen unless it is its turn. In a round the referee draws inputs in private and the judge poisons every
output; then each arm in turn warms up on data that is no secret, is frozen, gets the round's inputs, is thawed, says
that it is done and is frozen again. What comes back per arm is a `Reading` or a `Red`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import SystemRandom
from typing import Any

from whet.errors import DeviceOutOfMemory, WhetError
from whet.evidence import messages, seeds, system
from whet.evidence.adapter import adapter_of
from whet.evidence.buffers import poison_word
from whet.evidence.messages import Claim, Done, Layout, Load
from whet.evidence.officials import Officials
from whet.evidence.readings import Reading, Red
from whet.evidence.record import CONTROL, EMPTY, Isolation
from whet.evidence.system import NotStopped
from whet.evidence.worker import START_LIMIT_S, Faults, ProcessEnded, ProcessGarbled, ProcessSilent, Worker
from whet.protocol import Case, Clock, Engine, Variant

# A call that takes longer needs no warming up.
WARM_UP_LIMIT_NS = 100_000_000
# Threads that run after a call has returned get this much processor time to come to rest.
SPIN_PATIENCE_NS = 400_000_000
STARVED_PATIENCE_S = 20.0
REST_STEP_S = 0.002
REST_SHARE = 0.05


@dataclass(frozen=True)
class Plan:
    """What is put on trial: enough to start every process and to draw every random number."""

    engine: Engine
    ref: str
    variants: tuple[Variant, ...]
    device: str
    seed: int
    clock: Clock = "wall"
    call_limit_s: float = 60.0
    regime: str = "warm"
    # Only tests give variants unequal numbers of calls; by name, a factor on the trial's own number.
    more_calls: Mapping[str, int] = field(default_factory=dict)


@dataclass
class Stand:
    """One arm's place: its memory, its process while it has one, and what was counted there."""

    name: str
    arm: int
    variant: Variant | None
    worker: Worker | None = None
    threads: int = 1
    regions_ns: dict[str, list[int]] = field(default_factory=dict)
    calls: int = 0
    # Turns of the present process.
    turns: int = 0
    full_checks: int = 0
    agreements: int = 0


class Rig:
    """Use as a context manager: `open` a case, `start` benches for it, play rounds."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.host = system.host()
        self.stands = {str(variant): Stand(str(variant), arm, variant) for arm, variant in enumerate(plan.variants)}
        for name in (CONTROL, EMPTY):
            self.stands[name] = Stand(name, len(self.stands), None)
        self.officials = Officials(plan.ref, call_limit_s=plan.call_limit_s)
        self.isolation: Isolation | None = None
        self.cores: list[int] = self.host.usable_cores()
        self.slots = 0
        self.oracle_ns = 0
        self.errors: dict[str, float] = {}
        # Calls so long that warming up would only cost time.
        self.long_calls = False
        self._random = SystemRandom()
        self._memory: list[int] = []
        self.refused: set[str] = set()

    def __enter__(self) -> Rig:
        adapter_of(self.plan.engine, self.plan.variants, self.plan.device)
        try:
            self.officials.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.stop()
        self.officials.close()
        self._forget_memory()

    @property
    def alive(self) -> list[str]:
        """Variants that no gate has refused."""
        return [str(variant) for variant in self.plan.variants if str(variant) not in self.refused]

    def open(self, case: Case, slots: int = 1) -> None:
        """Makes the memory of `case` anew. Benches of another case are ended."""
        self.stop()
        self._forget_memory()
        self.layout = self.officials.measure(
            case,
            fixed_seed=seeds.derive(self.plan.seed, "fixed"),
            probe_seed=seeds.derive(self.plan.seed, "probe"),
            warm_seed=seeds.derive(self.plan.seed, "warm-up"),
            slots=slots,
        )
        self.slots = slots
        sizes = self.layout.fixed.size_bytes, self.layout.inputs.size_bytes, self.layout.outputs.size_bytes
        fixed, expected = self._make("fixed", sizes[0]), self._make("expected", sizes[2])
        self._arms = [(self._make("inputs", sizes[1]), self._make("outputs", sizes[2])) for _ in self.stands]
        self.officials.map(self.layout, fixed, expected, self._arms)
        self._fixed = fixed
        self._sealed = all([self.host.forbid_new_writers(fd) for fd in (fixed, *(inputs for inputs, _ in self._arms))])

    @property
    def slot_bytes(self) -> int:
        """What one more call in a turn costs in memory, all arms together."""
        inputs, outputs = self.layout.inputs.size_bytes, self.layout.outputs.size_bytes
        return (len(self.stands) * (inputs + outputs) + outputs) // (self.slots + 1)

    @property
    def input_bytes(self) -> int:
        """What one call reads."""
        groups = [*self.layout.fixed.groups, self.layout.inputs.groups[0]]
        return sum(one.size_bytes for group in groups for one in group)

    def start(
        self, arms: Sequence[str], *, cores: list[int] | None = None, baseline: str = "", sealed: bool = False
    ) -> dict[str, Red]:
        """Fresh processes for these arms on the open case, frozen; returns the arms that failed at it."""
        self.stop()
        self.cores = cores or self.host.usable_cores()
        reds: dict[str, Red] = {}
        started = []
        for name in arms:
            stand = self.stands[name]
            stand.worker, stand.turns = Worker("bench"), 0
            started.append(stand)
        steps = (self._greet, self._load, self._set_up, *([self._seal] if sealed else []), self._rest)
        for step in steps:
            posted = [stand for stand in started if stand.name not in reds]
            for stand in posted:
                if red := self._guarded(stand, step, baseline, ask=True):
                    reds[stand.name] = red
            for stand in posted:
                if stand.name not in reds and (red := self._guarded(stand, step, baseline, ask=False)):
                    reds[stand.name] = red
        return reds

    def stop(self) -> None:
        """Ends all benches."""
        for stand in self.stands.values():
            if stand.worker is not None:
                stand.worker.close()
                stand.worker = None

    def retire(self, name: str) -> None:
        """Refused: it takes no further part."""
        self.refused.add(name)
        stand = self.stands[name]
        if stand.worker is not None:
            stand.worker.close()
            stand.worker = None

    def round(
        self,
        label: Sequence[str | int],
        order: Sequence[str],
        *,
        calls: int = 1,
        full: bool = True,
        timing: bool = False,
    ) -> dict[str, Reading | Red]:
        """A turn for every arm in `order`, on one set of fresh inputs; judged before anything is told."""
        counts = {name: min(self.slots, calls * self.plan.more_calls.get(name, 1)) for name in order}
        most = max([calls, *counts.values()])
        drawn = [seeds.derive(self.plan.seed, *label, slot) for slot in range(most)]
        self.officials.draw(drawn)
        self.officials.poison({self.stands[name].arm: poison_word(self._random) for name in order})
        results: dict[str, Reading | Red] = {}
        for name in order:
            results[name] = self._turn(self.stands[name], counts[name], drawn[0], timing or self.plan.clock == "device")
        self._judge(results, full=full)
        for name, result in results.items():
            if isinstance(result, Red):
                self.retire(name)
        return results

    def now_s(self) -> float:
        return time.monotonic()

    def save_evidence(self, name: str, slot: int, path: str) -> None:
        self.officials.save(self.stands[name].arm, slot, path)

    def _turn(self, stand: Stand, calls: int, seed: int, timing: bool) -> Reading | Red:
        worker = stand.worker
        if worker is None:
            return Red("died", "the process is gone")
        try:
            if red := self._warm_up(stand, worker):
                return red
            self.officials.reveal(stand.arm)
            if self.plan.regime == "cold":
                self.officials.evict(self.cores)
            return self._timed(stand, worker, calls, seed, timing)
        except NotStopped as error:
            return Red("died", str(error))
        except Faults as error:
            return Red(error.reason, str(error))
        except WhetError as error:
            return Red("device failed", f"{type(error).__name__}: {error.cause}")

    def _timed(self, stand: Stand, worker: Worker, calls: int, seed: int, timing: bool) -> Reading | Red:
        limit_s = self.plan.call_limit_s * calls
        before, own = self.host.usage(worker.pid), self.host.usage(os.getpid())
        worker.post(messages.Turn(calls=calls, with_timing=timing))
        thawed_ns = time.monotonic_ns()
        self.host.thaw(worker.pid)
        answer = worker.answer(limit_s)
        heard_ns = time.monotonic_ns()
        self.host.freeze(worker.pid)
        after, own_after = self.host.usage(worker.pid), self.host.usage(os.getpid())
        stand.calls += calls
        if isinstance(answer, messages.Raised):
            return Red("raised", answer.text)
        claim: Claim = worker.must_be(Claim, answer)
        if self.host.children(worker.pid):
            return Red("left a process", "a process that it started goes on after run() had returned")
        stamps = [thawed_ns, claim.start_ns, *claim.ends_ns, heard_ns]
        if len(claim.ends_ns) != calls or stamps != sorted(stamps):
            return Red("its clock and ours disagree", "its time stamps lie outside the span in which it ran")
        if not self._sealed and not self.officials.kept(stand.arm):
            return Red("inputs changed", "the inputs are not what they were before the turn")
        for region, spent_ns in claim.regions_ns.items():
            stand.regions_ns.setdefault(region, []).append(spent_ns)
        waited_ns = after.waited_ns - before.waited_ns + own_after.waited_ns - own.waited_ns
        return Reading(
            calls=calls,
            wall_ns=claim.wall_ns,
            outside_ns=max(heard_ns - thawed_ns - waited_ns, claim.wall_ns),
            cpu_ns=after.cpu_ns - before.cpu_ns,
            waited_ns=waited_ns,
            device_ns=claim.device_ns,
            seed=seed,
            digest="",
            check="",
            longest=_longest(claim),
            regions_ns=claim.regions_ns,
            tags=claim.tags,
            waits=claim.waits,
        )

    def _warm_up(self, stand: Stand, worker: Worker) -> Red | None:
        worker.post(messages.WarmUp(call=self.plan.regime == "warm" and not self.long_calls))
        self.host.thaw(worker.pid)
        answer = worker.answer(self.plan.call_limit_s)
        stand.turns += 1
        # Once it has run: does it come to rest? Later it would only be asked again.
        restless = stand.turns == 2 and not self._comes_to_rest(worker.pid)
        self.host.freeze(worker.pid)
        if isinstance(answer, messages.Raised):
            return Red("raised", answer.text)
        done: Done = worker.must_be(Done, answer)
        if done.patched:
            return Red("its clock and ours disagree", f"time.{done.patched[0]} was replaced in its process")
        if restless:
            return Red("worked outside its clock", "its threads go on after run() has returned")
        return None

    def _comes_to_rest(self, pid: int) -> bool:
        """Whether all its threads sleep soon. Pools may spin for a while; what counts is the time they really ran."""
        began, deadline = self.host.usage(pid).cpu_ns, time.monotonic() + STARVED_PATIENCE_S
        last_ns = began
        while time.monotonic() < deadline:
            time.sleep(REST_STEP_S)
            ran_ns = self.host.usage(pid).cpu_ns
            if ran_ns - last_ns < REST_SHARE * REST_STEP_S * 1e9:
                return True
            if ran_ns - began > SPIN_PATIENCE_NS:
                return False
            last_ns = ran_ns
        return False

    def _judge(self, results: dict[str, Reading | Red], *, full: bool) -> None:
        """Replaces the readings that the judge does not confirm, and signs the others."""
        told = {n: r for n, r in results.items() if isinstance(r, Reading) and n != EMPTY}
        if not told:
            return
        calls = {self.stands[name].arm: reading.calls for name, reading in told.items()}
        most = max(calls.values())
        if full:
            self.oracle_ns = self.officials.expect(most)
        reports = self.officials.judge(calls, most if full else 0, self.plan.engine.tolerance)
        if any(report.reason == "disputed" for report in reports.values()):
            self.oracle_ns = self.officials.expect(most)
            full, reports = True, self.officials.judge(calls, most, self.plan.engine.tolerance)
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

    def _greet(self, stand: Stand, _: str, ask: bool) -> Red | None:
        if ask:
            return None
        assert stand.worker is not None
        hello = stand.worker.greet()
        self.host.pin(stand.worker.pid, self.cores)
        if self.isolation is None:
            self.isolation = _isolation(hello)
        return None

    def _load(self, stand: Stand, baseline: str, ask: bool) -> Red | None:
        assert stand.worker is not None
        if ask:
            variant = self.stands[baseline].variant if stand.name == CONTROL else stand.variant
            ref = "" if variant is None or variant.file else self.plan.ref
            stand.worker.post(Load(ref=ref, variant=variant, device=self.plan.device))
            return None
        answer = stand.worker.answer(START_LIMIT_S)
        return Red("raised", answer.text) if isinstance(answer, messages.Raised) else None

    def _set_up(self, stand: Stand, _: str, ask: bool) -> Red | None:
        assert stand.worker is not None
        if ask:
            inputs, outputs = self._arms[stand.arm]
            stand.worker.post(_with_fds(self.layout, 3), [self._fixed, inputs, outputs])
            return None
        answer = stand.worker.answer(START_LIMIT_S)
        if isinstance(answer, messages.Raised):
            return Red("raised", answer.text)
        stand.worker.must_be(Done, answer)
        return None

    def _seal(self, stand: Stand, _: str, ask: bool) -> Red | None:
        assert stand.worker is not None
        if ask:
            stand.worker.post(messages.Seal())
            return None
        answer = stand.worker.answer(START_LIMIT_S)
        stand.worker.must_be(Done, answer)
        return None

    def _rest(self, stand: Stand, _: str, ask: bool) -> Red | None:
        """Frozen from here on, and looked at: what it left running or shares with others."""
        worker = stand.worker
        assert worker is not None
        if ask:
            return None
        self.host.freeze(worker.pid)
        stand.threads = self.host.threads(worker.pid)
        if self.host.children(worker.pid):
            return Red("left a process", "a process that it started in setup() goes on")
        if shared := self.host.shared_with_others(worker.pid):
            return Red("shares memory", f"it holds {shared} for writing, through which it could talk to its rivals")
        return None

    def _guarded(self, stand: Stand, step: Any, baseline: str, *, ask: bool) -> Red | None:
        try:
            red: Red | None = step(stand, baseline, ask)
        except (ProcessEnded, ProcessSilent, ProcessGarbled) as error:
            red = Red(error.reason, f"{step.__name__.strip('_').replace('_', ' ')}: {error}")
        except NotStopped as error:
            red = Red("died", str(error))
        except WhetError as error:
            red = Red("device failed", f"{type(error).__name__}: {error.cause}", cause=error)
        return red

    def _make(self, name: str, size_bytes: int) -> int:
        fd: int = self.host.make_memory(name, size_bytes)
        self._memory.append(fd)
        return fd

    def _forget_memory(self) -> None:
        for fd in self._memory:
            os.close(fd)
        self._memory.clear()


def _with_fds(layout: Layout, count: int) -> Layout:
    import msgspec

    return msgspec.structs.replace(layout, fds=count)


def _longest(claim: Claim) -> float:
    """The share of a turn that its longest call took, if that call was the first; else 0."""
    if len(claim.ends_ns) < 4 or claim.wall_ns <= 0:
        return 0.0
    starts = [claim.start_ns, *claim.ends_ns[:-1]]
    spans = [end - start for start, end in zip(starts, claim.ends_ns, strict=True)]
    return spans[0] / claim.wall_ns if spans[0] == max(spans) else 0.0


def _isolation(hello: messages.Hello) -> Isolation:
    asked = system.level()
    weaker = "" if not hello.missing else " (weaker than usual)"
    granted = ["frozen between turns", "a process of its own", *hello.granted]
    return Isolation(name=f"{asked}{weaker}", granted=granted, missing=hello.missing)


def memory_room(slot_bytes: int, limit_bytes: int) -> int:
    """How many slots fit; a case of which not one fits cannot run here."""
    import psutil

    available: int = psutil.virtual_memory().available
    room = min(limit_bytes, available // 2)
    if slot_bytes > available:
        raise DeviceOutOfMemory(f"one turn needs {slot_bytes / 1e9:.1f} GB of buffers", cure="choose a smaller case")
    return max(1, room // max(1, slot_bytes))
