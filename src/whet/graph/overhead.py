"""The contenders of `whet graph bench` as variants of an engine, so that they run as any variant does: in a bench.

A turn runs the graph twice. With bodies that mix the numbers of their predecessors it leaves what the judge compares:
one task lost, run twice or run too early, and there is no figure. With bodies that do nothing, or spin, it is timed.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from whet.errors import BadInput
from whet.graph import workloads
from whet.graph.batch import Batch
from whet.graph.bodies import NativeBody, kernel
from whet.graph.engine import EDGES, WAKE_TARGET, mixed_in_order, wake_target_of
from whet.graph.replay import Graph
from whet.graph.runtime import POLICIES, Runtime
from whet.graph.worker_choice import TRIES
from whet.graph.workloads import Workload
from whet.protocol import Array, Arrays, Case, Engine, Knob, Output, Timing, Tolerance, Variant, VariantSpec

WALL, PROCESSOR = "wall", "processor"
WORKERS = Knob("workers", 1, minimum=0, maximum=64, help="threads; 0 leaves it to the graph")


PHASES = Knob("phases", False, help="time every phase, which costs time itself")
# How long a body takes: always the same, mostly less and at times very much more, or as long as a device needs that
# works off the commands of all its tasks in order.
BODIES = ("fixed", "tail", "device")
DEVICES = 2


def case_of(name: str, tasks: int = 0, body_ns: int = 0, bodies: str = "fixed") -> Case:
    """A named workload, or a family in a size of about `tasks`; bodies do nothing unless they take `body_ns`."""
    return Case(sizes={"tasks": tasks, "body_ns": body_ns, "bodies": BODIES.index(bodies)}, profile=name)


def workload_of(case: Case) -> Workload:
    if set(case.sizes) != {"tasks", "body_ns", "bodies"} or not 0 <= case.sizes["bodies"] < len(BODIES):
        raise BadInput(f"no graph is meant by {case}", cure="give the sizes tasks, body_ns and bodies (0, 1 or 2)")
    tasks = case.sizes["tasks"]
    return workloads.of_size(case.profile, tasks) if tasks else workloads.make(case.profile)


def window_for(work: Workload) -> int:
    """4,096 tasks, which a core's own cache holds, or more where twice the largest outermost scope needs it."""
    if len(work.scope_open) == 0:
        return 1 << 12
    outside = np.cumsum(work.scope_open - work.scope_close) == work.scope_open
    begins = np.flatnonzero(outside & (work.scope_open > 0))
    largest = int(np.diff(np.append(begins, work.tasks)).max(initial=1))
    return 1 << max(12, (2 * largest - 1).bit_length())


def body_of(kind: str, body_ns: int) -> NativeBody:
    """A body that takes about that long."""
    match kind:
        case "tail":
            return kernel("spin_tail").with_user(np.array([body_ns], np.uint64))
        case "device":
            return kernel("device").with_user(np.array([body_ns, DEVICES, *[0] * DEVICES], np.uint64))
    return kernel("spin").with_user(np.array([body_ns], np.uint64))


class Contender:
    """One way to run a graph: `check` leaves mixed numbers, `timed` is what the figure is of."""

    def __init__(self, variant: Variant, case: Case) -> None:
        work = workload_of(case)
        self.runtime: Runtime | None = None
        self._work = work
        self._words = np.array([0, work.dep_start.ctypes.data, work.dep_task.ctypes.data, 0], np.uint64)
        mixing = [kernel("mix").with_user(self._words)] * len(work.kinds)
        body_ns = case.sizes["body_ns"]
        idle = [body_of(BODIES[case.sizes["bodies"]], body_ns)] * len(work.kinds) if body_ns else None
        self._checked = self._way(variant, mixing)
        self._timed = self._way(variant, idle)
        if variant.knobs.get("workers") == 0:
            for _ in range(2 * TRIES):
                self._timed()

    def _way(self, variant: Variant, bodies: Sequence[Any] | None) -> Callable[[], object]:
        work, workers = self._work, int(variant.knobs.get("workers", WORKERS.default)) or None
        build = partial(Graph.from_workload, work, bodies)
        match variant.name:
            case "replay":
                graph, coarsen = build(), bool(variant.knobs.get("coarsen", True))
                return lambda: graph.replay(workers=workers, coarsen=coarsen)
            case "build":
                return build if bodies is None else lambda: build().replay(workers=workers)
            case "build-and-replay":
                return lambda: build().replay(workers=workers)
        (policy,) = (p for p in POLICIES if p == variant.name)
        runtime = self.runtime = self.runtime or Runtime(
            policy=policy,
            wake_target=wake_target_of(variant),
            workers=workers,
            window=window_for(work),
            trace="phases" if variant.knobs.get(PHASES.name) else "off",
        )
        given = variant.knobs.get("edges") == "given"
        batch = Batch(work, bodies, dependencies="given" if given else "inferred")

        def submit_and_wait() -> None:
            batch.submit(runtime)
            runtime.wait()

        return submit_and_wait

    def check(self, seed: int, cells: Array) -> None:
        self._words[0], self._words[3] = cells.ctypes.data, seed
        self._checked()

    def timed(self) -> dict[str, int]:
        before = self._phases()
        processor, wall = time.process_time_ns(), time.perf_counter_ns()
        self._timed()
        spent = time.perf_counter_ns() - wall
        return {WALL: spent, PROCESSOR: time.process_time_ns() - processor} | self._since(before)

    def _phases(self) -> Counter[str]:
        """Of all workers together: nanoseconds by phase, and how often, as `wake count`."""
        sums: Counter[str] = Counter()
        for worker in self.runtime.phases() if self.runtime is not None else ():
            for phase, (ns, count) in worker.items():
                sums[phase] += ns
                sums[f"{phase} count"] += count
        return sums

    def _since(self, before: Counter[str]) -> dict[str, int]:
        return {key: value - before[key] for key, value in self._phases().items()}


class OverheadEngine(Engine):
    """What a task costs around its body, from nothing to done: submission, resolution, dispatch, completion."""

    name = "graph-overhead"
    tolerance = Tolerance()

    def cases(self) -> Sequence[Case]:
        return [case_of(name) for name in workloads.names()]

    def profiles(self) -> Sequence[str]:
        return (*workloads.names(), *workloads.families())

    def variants(self) -> Sequence[VariantSpec]:
        return [
            VariantSpec("wired", "submitted anew", (WORKERS, EDGES, PHASES)),
            VariantSpec("polling", "submitted anew", (WORKERS, EDGES, PHASES)),
            VariantSpec("hybrid", "submitted anew", (WORKERS, EDGES, PHASES, WAKE_TARGET)),
            VariantSpec("replay", "built once, run again", (WORKERS, Knob("coarsen", True, help="components alone"))),
            VariantSpec("build-and-replay", "built and run once", (WORKERS,)),
            VariantSpec("build", "from arrays to a graph, in Python", (WORKERS,)),
        ]

    def outputs(self, case: Case) -> Mapping[str, Output]:
        return {"cells": Output((workload_of(case).tasks,), np.uint64)}

    def prepare(self, case: Case, seed: int) -> dict[str, Array]:
        return {"start": np.random.default_rng(seed).integers(0, 2**64 - 1, 1, np.uint64)}

    def setup(self, variant: Variant, case: Case, fixed: Arrays, device: str) -> Contender:
        return Contender(variant, case)

    def run(self, variant: Variant, state: Contender, inputs: Arrays, outputs: Arrays) -> None:
        state.check(int(inputs["start"][0]), outputs["cells"])

    def timing(self, state: Contender) -> Timing | None:
        return Timing(regions_ns=state.timed())

    def oracle(self, case: Case, fixed_seed: int, seed: int, inputs: Arrays) -> dict[str, Array]:
        return {"cells": mixed_in_order(workload_of(case), int(inputs["start"][0]))}

    def close(self, state: Contender) -> None:
        if state.runtime is not None:
            state.runtime.close(10.0)
