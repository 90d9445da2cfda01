"""The gate: one round of some variants on fresh inputs, each judged by the referee before its time counts.

A round refills the inputs, lets every variant run in the given order, then has all outputs judged. What comes back
per variant is a `Reading` or a `Red`. A red variant's process is ended at once; it never runs again in this rig.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from whet.errors import DeviceOutOfMemory
from whet.evidence import seeds
from whet.evidence.adapter import adapter_of
from whet.evidence.claims import Claim, ClockTrack, Reading, Red
from whet.evidence.processes import (
    START_LIMIT_S,
    ProcessEnded,
    ProcessSilent,
    Worker,
    read_only,
    referee_fault,
    shared_memory,
    waited_for_a_core_ns,
)
from whet.protocol import Case, Clock, Engine, Variant


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


@dataclass
class Stand:
    """One variant's process, and what it has claimed so far."""

    variant: Variant
    index: int
    outputs_fd: int
    worker: Worker | None = None
    clock: ClockTrack = field(default_factory=ClockTrack)
    regions_ns: dict[str, list[int]] = field(default_factory=dict)
    calls: int = 0
    full_checks: int = 0
    digest_checks: int = 0


class Rig:
    """Referee and benches for one plan. Use as a context manager; `open` chooses the case."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.fixed_seed = seeds.derive(plan.seed, "fixed")
        self._inputs_fd = shared_memory("inputs")
        self._inputs_read_fd = read_only(self._inputs_fd)
        self.stands = {
            str(variant): Stand(variant, index, shared_memory(f"outputs-{index}"))
            for index, variant in enumerate(plan.variants)
        }
        self._referee: Worker | None = None
        self.slots = 0
        self.prepare_ns = 0
        self.slot_bytes = 0
        self.output_bytes = 0
        self.oracle_ns = 0

    def __enter__(self) -> Rig:
        try:
            adapter_of(self.plan.engine, self.plan.variants, self.plan.device)
            fds = [self._inputs_fd, *(stand.outputs_fd for stand in self.stands.values())]
            self._referee = Worker("whet.evidence.referee", fds)
            self._referee.post("load", ref=self.plan.ref)
            for stand in self.stands.values():
                stand.worker = Worker("whet.evidence.bench", [self._inputs_read_fd, stand.outputs_fd])
                variant = msgspec.to_builtins(stand.variant)
                stand.worker.post("load", ref=self.plan.ref, variant=variant, device=self.plan.device)
            self._referee.loaded()
            for stand in self.stands.values():
                assert stand.worker is not None
                stand.worker.loaded()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for worker in (self._referee, *(stand.worker for stand in self.stands.values())):
            if worker is not None:
                worker.close()
        for stand in self.stands.values():
            if stand.outputs_fd >= 0:
                os.close(stand.outputs_fd)
                stand.outputs_fd = -1
        for fd in (self._inputs_fd, self._inputs_read_fd):
            if fd >= 0:
                os.close(fd)
        self._inputs_fd = self._inputs_read_fd = -1

    @property
    def alive(self) -> list[str]:
        return [name for name, stand in self.stands.items() if stand.worker is not None]

    def open(self, case: Case, slots: int = 1) -> dict[str, Red]:
        """Makes the buffers for `case` and sets every variant up on them; returns the variants that failed at it."""
        plan_case = msgspec.to_builtins(case)
        probe_seed = seeds.derive(self.plan.seed, "probe")
        arena = self._judge_ask("open", case=plan_case, fixed_seed=self.fixed_seed, probe_seed=probe_seed, slots=slots)
        self.slots, self.prepare_ns = slots, arena["prepare_ns"]
        self.slot_bytes, self.output_bytes = arena["slot_bytes"], arena["output_bytes"]
        failed = {}
        for name in self.alive:
            stand = self.stands[name]
            request = {"case": plan_case, "inputs": arena["inputs"], "outputs": arena["outputs"]}
            found = self._bench_ask(stand, "open", limit_s=START_LIMIT_S, **request)
            if not isinstance(found, Red) and "raised" in found:
                found = Red("raised", f"setup: {found['raised']}")
            if isinstance(found, Red):
                failed[name] = found
                self.retire(name)
                continue
            pings = [self._ping(stand) for _ in range(5)]
            stand.clock = ClockTrack(ping_ns=int(statistics.median(pings)), copy_bytes=self.output_bytes * slots)
            stand.regions_ns = {}
        return failed

    def round(
        self, label: Sequence[str | int], order: Sequence[str], calls: Mapping[str, int], *, full: bool = True
    ) -> dict[str, Reading | Red]:
        """One repeat of every variant in `order`, on one set of fresh inputs."""
        slots = max(calls[name] for name in order)
        drawn = [seeds.derive(self.plan.seed, *label, slot) for slot in range(slots)]
        self._judge_ask("refill", seeds=drawn)
        results: dict[str, Reading | Red] = {}
        told: dict[str, Claim] = {}
        for name in order:
            for other, red in self._restless().items():
                results[other] = red
            stand = self.stands[name]
            if stand.worker is None:
                continue
            found: Claim | Red = self._timed(stand, calls[name])
            if not self._judge_ask("inputs_kept")["kept"]:
                found = Red("inputs changed", "the inputs are not what they were before the repeat")
            if isinstance(found, Red):
                results[name] = found
            else:
                told[name] = found
        results |= self._restless()
        told = {name: claim for name, claim in told.items() if name not in results}
        results |= self._judged(told, calls, drawn[0], full=full)
        for name in [name for name, result in results.items() if isinstance(result, Red)]:
            self.retire(name)
        return results

    def now_s(self) -> float:
        return time.monotonic()

    def save_evidence(self, name: str, slot: int, path: str) -> None:
        self._judge_ask("save", index=self.stands[name].index, slot=slot, path=path)

    def retire(self, name: str) -> None:
        """Ends a variant's process; it takes no further part."""
        stand = self.stands[name]
        if stand.worker is not None:
            stand.worker.close()
            stand.worker = None

    def _judged(
        self, told: Mapping[str, Claim], calls: Mapping[str, int], seed: int, *, full: bool
    ) -> dict[str, Reading | Red]:
        if not told:
            return {}
        by_index = {str(self.stands[name].index): calls[name] for name in told}
        judged = self._judge_ask("judge", calls=by_index, full=full)
        self.oracle_ns = judged["oracle_ns"] if full else self.oracle_ns
        results: dict[str, Reading | Red] = {}
        for name, claim in told.items():
            stand = self.stands[name]
            report = judged["reports"][str(stand.index)]
            stand.full_checks += full
            stand.digest_checks += 1
            if report["reason"]:
                results[name] = Red(
                    report["reason"],
                    report["detail"],
                    report["slot"],
                    report.get("expected", {}),
                    report.get("got", {}),
                )
            elif complaint := stand.clock.complaint(claim, self.plan.clock):
                results[name] = complaint
            else:
                results[name] = Reading(
                    calls=calls[name],
                    wall_ns=claim.wall_ns,
                    cpu_ns=claim.cpu_ns,
                    device_ns=claim.device_ns,
                    seed=seed,
                    digest=report["digest"],
                    check="full" if full else "digest",
                )
        return results

    def _timed(self, stand: Stand, calls: int) -> Claim | Red:
        pid = stand.worker.pid if stand.worker else 0
        waited_ns = waited_for_a_core_ns(pid) + waited_for_a_core_ns(os.getpid())
        sent_ns = time.monotonic_ns()
        answer = self._bench_ask(stand, "run", limit_s=self.plan.call_limit_s * calls, calls=calls)
        heard_ns = time.monotonic_ns()
        waited_ns = waited_for_a_core_ns(pid) + waited_for_a_core_ns(os.getpid()) - waited_ns
        if isinstance(answer, Red):
            return answer
        stand.calls += calls
        if "raised" in answer:
            return Red("raised", answer["raised"])
        try:
            claim = msgspec.convert(answer, Claim)
        except msgspec.ValidationError as error:
            return Red("garbled answer", f"the variant's process answered with nonsense: {error}")
        stand.clock.heard(claim, sent_ns, heard_ns, waited_ns)
        for region, spent_ns in claim.regions_ns.items():
            stand.regions_ns.setdefault(region, []).append(spent_ns)
        return claim

    def _restless(self) -> dict[str, Red]:
        """Variants whose threads run while they should wait. They would slow the others down."""
        found = {}
        for name in self.alive:
            worker = self.stands[name].worker
            if worker is not None and (running := worker.goes_on()):
                found[name] = Red(
                    "goes on after return", f"{running} of its threads still ran after run() had returned"
                )
                self.retire(name)
        return found

    def _ping(self, stand: Stand) -> int:
        start = time.monotonic_ns()
        self._bench_ask(stand, "ping", limit_s=START_LIMIT_S)
        return time.monotonic_ns() - start

    def _bench_ask(self, stand: Stand, op: str, *, limit_s: float, **parameters: Any) -> dict[str, Any] | Red:
        if stand.worker is None:
            return Red("died", "the process is gone")
        try:
            return stand.worker.ask(op, limit_s, **parameters)
        except (ProcessEnded, ProcessSilent) as error:
            self.retire(str(stand.variant))
            return Red(error.reason, f"{op}: {error}")

    def _judge_ask(self, op: str, **parameters: Any) -> dict[str, Any]:
        assert self._referee is not None
        try:
            return self._referee.ask(op, max(START_LIMIT_S, 10 * self.plan.call_limit_s), **parameters)
        except (ProcessEnded, ProcessSilent) as error:
            raise referee_fault(error) from None


def memory_room(slot_bytes: int, limit_bytes: int) -> int:
    """How many slots fit; a case of which not one fits cannot run here."""
    import psutil

    available: int = psutil.virtual_memory().available
    room = min(limit_bytes, available // 2)
    if slot_bytes > available:
        raise DeviceOutOfMemory(f"one repeat needs {slot_bytes / 1e9:.1f} GB of buffers", cure="choose a smaller case")
    return max(1, room // max(1, slot_bytes))
