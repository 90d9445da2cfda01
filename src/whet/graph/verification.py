"""Whether a way of running a graph runs every task once and after its predecessors, before any time of it is told."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from whet.errors import OracleMismatch
from whet.graph.batch import Dependencies
from whet.graph.bodies import kernel
from whet.graph.computations import mixing
from whet.graph.engine import mixed_in_order
from whet.graph.replay import Graph
from whet.graph.runtime import Runtime
from whet.graph.workloads import Workload


class Verifier:
    """Runs contenders with mixing bodies and compares every number with those of one task after the other."""

    def __init__(self, work: Workload) -> None:
        self._work = work
        self._seed = int(np.random.default_rng().integers(1, 2**62))
        self._expected = mixed_in_order(work, self._seed)

    def runtime(self, runtime: Runtime, dependencies: Dependencies, contender: str) -> None:
        mixed = mixing(self._work, seed=self._seed, dependencies=dependencies)
        mixed.batch.submit(runtime)
        runtime.wait()
        self._compare(mixed.answer, contender)

    def replay(self, workers: int | None, contender: str, *, coarsen: bool = True) -> None:
        """A graph built from the same arrays, replayed twice: what the first leaves behind must not help."""
        work, cells = self._work, np.zeros(self._work.tasks, np.uint64)
        words = np.array([cells.ctypes.data, work.dep_start.ctypes.data, work.dep_task.ctypes.data, self._seed], "u8")
        built = Graph.from_workload(work, [kernel("mix").with_user(words)] * len(work.kinds))
        for _ in range(2):
            cells[:] = 0
            built.replay(workers=workers, coarsen=coarsen)
            self._compare(cells, contender)

    def _compare(self, answer: npt.NDArray[np.uint64], contender: str) -> None:
        wrong = np.flatnonzero(answer != self._expected)
        if len(wrong):
            raise OracleMismatch(
                f"{contender} left {len(wrong)} of {self._work.tasks} wrong numbers on {self._work.name}, "
                f"the first at task {wrong[0]}; what is wrong has no times",
                cure="please report it with this command line",
            )
