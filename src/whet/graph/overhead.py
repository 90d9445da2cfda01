"""The contenders of `whet graph bench` as variants of an engine, so that they run as any variant does: in a bench.

A turn runs the graph twice. With bodies that mix the numbers of their predecessors it leaves what the judge compares:
one task lost, run twice or run too early, and there is no figure. With bodies that do nothing, or spin, it is timed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from whet.errors import BadInput
from whet.graph import workloads
from whet.graph.batch import Batch
from whet.graph.bodies import kernel
from whet.graph.built import Graph
from whet.graph.choice import TRIES
from whet.graph.engine import EDGES, mixed_in_order
from whet.graph.runtime import POLICIES, Runtime
from whet.graph.workloads import Workload
from whet.protocol import Array, Arrays, Case, Engine, Knob, Output, Timing, Tolerance, Variant, VariantSpec

WALL, PROCESSOR = "wall", "processor"
WORKERS = Knob("workers", 1, minimum=0, maximum=64, help="threads; 0 leaves it to the graph")


def case_of(name: str, tasks: int = 0, body_ns: int = 0) -> Case:
    """A named workload, or a family in a size of about `tasks`; bodies do nothing unless they take `body_ns`."""
    return Case(sizes={"tasks": tasks, "body_ns": body_ns}, profile=name)


def workload_of(case: Case) -> Workload:
    if set(case.sizes) != {"tasks", "body_ns"}:
        raise BadInput(f"no graph is meant by {case}", cure="give the sizes tasks and body_ns")
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


class Contender:
    """One way to run a graph: `check` leaves mixed numbers, `timed` is what the figure is of."""

    def __init__(self, variant: Variant, work: Workload, body_ns: int) -> None:
        self.runtime: Runtime | None = None
        self._work = work
        self._words = np.array([0, work.dep_start.ctypes.data, work.dep_task.ctypes.data, 0], np.uint64)
        self._spins = np.array([body_ns], np.uint64)
        mixing = [kernel("mix").with_user(self._words)] * len(work.kinds)
        idle = [kernel("spin").with_user(self._spins)] * len(work.kinds) if body_ns else None
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
        runtime = self.runtime = self.runtime or Runtime(policy=policy, workers=workers, window=window_for(work))
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
        processor, wall = time.process_time_ns(), time.perf_counter_ns()
        self._timed()
        spent = time.perf_counter_ns() - wall
        return {WALL: spent, PROCESSOR: time.process_time_ns() - processor}


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
            *(VariantSpec(policy, "submitted anew", (WORKERS, EDGES)) for policy in POLICIES),
            VariantSpec("replay", "built once, run again", (WORKERS, Knob("coarsen", True, help="components alone"))),
            VariantSpec("build-and-replay", "built and run once", (WORKERS,)),
            VariantSpec("build", "from arrays to a graph, in Python", (WORKERS,)),
        ]

    def outputs(self, case: Case) -> Mapping[str, Output]:
        return {"cells": Output((workload_of(case).tasks,), np.uint64)}

    def prepare(self, case: Case, seed: int) -> dict[str, Array]:
        return {"start": np.random.default_rng(seed).integers(0, 2**64 - 1, 1, np.uint64)}

    def setup(self, variant: Variant, case: Case, fixed: Arrays, device: str) -> Contender:
        return Contender(variant, workload_of(case), case.sizes["body_ns"])

    def run(self, variant: Variant, state: Contender, inputs: Arrays, outputs: Arrays) -> None:
        state.check(int(inputs["start"][0]), outputs["cells"])

    def timing(self, state: Contender) -> Timing | None:
        return Timing(regions_ns=state.timed())

    def oracle(self, case: Case, fixed_seed: int, seed: int, inputs: Arrays) -> dict[str, Array]:
        return {"cells": mixed_in_order(workload_of(case), int(inputs["start"][0]))}

    def close(self, state: Contender) -> None:
        if state.runtime is not None:
            state.runtime.close(10.0)
