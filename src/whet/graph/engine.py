"""whet.graph as the gate and the trial see it: policies compared on graphs whose every misstep shows in the output.

Each task leaves a 64-bit number that mixes its own with those of its predecessors, in order. A task that is lost, run
twice, or run before one of its predecessors changes the number of everything behind it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from whet.errors import BadInput
from whet.graph import workloads
from whet.graph.batch import Batch
from whet.graph.bodies import kernel
from whet.graph.replay import Graph
from whet.graph.runtime import POLICIES, WAKE_TARGETS, Runtime, WakeTarget
from whet.graph.workloads import Workload
from whet.protocol import Array, Arrays, Case, Engine, Knob, Output, Tolerance, Variant, VariantSpec

MOST_TASKS = 1 << 20
WORD = 2**64 - 1
WORKERS = Knob("workers", 2, minimum=1, maximum=64, help="threads, the submitting one counted")
EDGES = Knob("edges", "inferred", choices=("inferred", "given"), help="from the tensors, or passed along")
WAKE_TARGET = Knob("wake_target", "last", choices=WAKE_TARGETS, help="the producer that wakes a waiting task")
WINDOW = Knob("window", 16384, minimum=4, maximum=1 << 20, help="tasks in flight, a power of two")


class Prepared:
    """A runtime with its batch, or a built graph; and the four words that tell the bodies where to write."""

    def __init__(self, variant: Variant, work: Workload) -> None:
        self.words = np.array([0, work.dep_start.ctypes.data, work.dep_task.ctypes.data, 0], np.uint64)
        self.work = work
        self.workers = int(variant.knobs.get("workers", WORKERS.default))
        bodies = [kernel("mix").with_user(self.words)] * len(work.kinds)
        self.runtime: Runtime | None = None
        if variant.name == "replay":
            self.graph = Graph.from_workload(work, bodies)
            self.coarsen = bool(variant.knobs.get("coarsen", True))
        else:
            given = variant.knobs.get("edges") == "given"
            self.batch = Batch(work, bodies, dependencies="given" if given else "inferred")
            window = int(variant.knobs.get("window", WINDOW.default))
            (policy,) = (p for p in POLICIES if p == variant.name)
            target = wake_target_of(variant)
            self.runtime = Runtime(policy=policy, wake_target=target, workers=self.workers, window=window)

    def run(self, seed: int, cells: Array) -> None:
        self.words[0], self.words[3] = cells.ctypes.data, seed
        if self.runtime is None:
            self.graph.replay(workers=self.workers, coarsen=self.coarsen)
        else:
            self.batch.submit(self.runtime)
            self.runtime.wait()


class GraphEngine(Engine):
    """Policies of the runtime, and the replay of a built graph, on graphs of about `tasks` tasks."""

    name = "graph"
    tolerance = Tolerance()

    def cases(self) -> Sequence[Case]:
        small = [Case(sizes={"tasks": n}, profile="random") for n in (1, 2, 17, 1000)]
        others = [name for name in workloads.families() if name != "random"]
        return [*small, *(Case(sizes={"tasks": 1500}, profile=family) for family in others)]

    def profiles(self) -> Sequence[str]:
        return workloads.families()

    def variants(self) -> Sequence[VariantSpec]:
        knobs = (WORKERS, EDGES, WINDOW)
        hybrid = (*knobs, WAKE_TARGET)
        return [
            VariantSpec("wired", "fan-out lists, fan-in counters, reference counts", knobs, _power_of_two),
            VariantSpec("polling", "completion bytes read from a pending list", knobs, _power_of_two),
            VariantSpec("hybrid", "polling, with a wake list at one unmet producer", hybrid, _power_of_two),
            VariantSpec("replay", "built once, run again", (WORKERS, Knob("coarsen", True, help="components alone"))),
        ]

    def outputs(self, case: Case) -> Mapping[str, Output]:
        return {"cells": Output((_work(case, 0).tasks,), np.uint64)}

    def fixed(self, case: Case, seed: int) -> dict[str, Array]:
        return {"graph_seed": np.array([seed & 0x7FFFFFFF], np.int64)}

    def prepare(self, case: Case, seed: int) -> dict[str, Array]:
        return {"start": np.random.default_rng(seed).integers(0, WORD, 1, np.uint64)}

    def setup(self, variant: Variant, case: Case, fixed: Arrays, device: str) -> Prepared:
        return Prepared(variant, _work(case, int(fixed["graph_seed"][0])))

    def run(self, variant: Variant, state: Prepared, inputs: Arrays, outputs: Arrays) -> None:
        state.run(int(inputs["start"][0]), outputs["cells"])

    def oracle(self, case: Case, fixed_seed: int, seed: int, inputs: Arrays) -> dict[str, Array]:
        work = _work(case, int(inputs["graph_seed"][0]))
        return {"cells": mixed_in_order(work, int(inputs["start"][0]))}

    def close(self, state: Prepared) -> None:
        if state.runtime is not None:
            state.runtime.close(10.0)


def wake_target_of(variant: Variant) -> WakeTarget:
    wanted = variant.knobs.get(WAKE_TARGET.name, WAKE_TARGET.default)
    (target,) = (name for name in WAKE_TARGETS if name == wanted)
    return target


def mixed_in_order(work: Workload, base: int) -> Array:
    """What the mixing bodies must leave: one task after the other, in Python integers."""
    start, preds = work.dep_start.tolist(), work.dep_task.tolist()
    cells: list[int] = []
    for task in range(work.tasks):
        value = _scramble((base + task) & WORD)
        for edge in range(start[task], start[task + 1]):
            value = _scramble(value ^ cells[preds[edge]])
        cells.append(value)
    return np.array(cells, np.uint64)


def _scramble(x: int) -> int:
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & WORD
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & WORD
    return x ^ (x >> 31)


def _power_of_two(knobs: Mapping[str, int | bool | str]) -> str | None:
    window = int(knobs["window"])
    return f"window={window} is not a power of two" if window & (window - 1) else None


def _work(case: Case, graph_seed: int) -> Workload:
    tasks = case.sizes.get("tasks", 0)
    if set(case.sizes) != {"tasks"} or not 1 <= tasks <= MOST_TASKS:
        raise BadInput(f"graph has no case with {case}", cure=f"give one size: tasks from 1 to {MOST_TASKS}")
    return workloads.of_size(case.profile, tasks, seed=graph_seed)
