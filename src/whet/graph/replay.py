"""A graph given as arrays, built once and replayed many times."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from whet._native import graph as _native
from whet.graph.bodies import NativeBody, kernel, name_of, resolve
from whet.graph.errors import BadInput, GraphCycle, GraphError, GraphForked, GraphStalled, GraphTimeout, TaskFailed
from whet.graph.options import seconds
from whet.graph.status import how_raised
from whet.graph.worker_choice import WorkerChoice
from whet.graph.workloads.workload import Workload


@lru_cache(maxsize=8)
def pool(workers: int) -> Any:
    """The shared threads for replays with that many workers, the caller counted."""
    try:
        return _native.Pool(workers)
    except RuntimeError as error:
        raise BadInput(
            f"workers: the system starts no {workers - 1} threads: {error}", cure="ask for fewer workers"
        ) from None


def hardware_workers() -> int:
    return int(_native.Pool.hardware_workers())


def check_workers(workers: int | None) -> int:
    if workers is None:
        return hardware_workers()
    if isinstance(workers, bool) or not isinstance(workers, int) or not 1 <= workers <= 256:
        raise BadInput(f"workers={workers!r} is not a number from 1 to 256", cure="leave it out for one per core")
    return workers


@dataclass(frozen=True)
class Replay:
    """What one replay did. `spans` (start ns, end ns, worker per task) only when asked for."""

    executed: int
    spans: npt.NDArray[np.int64] | None = None


def flat(values: Any, dtype: Any, what: str) -> npt.NDArray[Any]:
    """A contiguous 1-D array of whole numbers; values that do not fit are refused, never wrapped."""
    array = np.asarray(values)
    if array.ndim != 1:
        raise BadInput(f"{what} must have one dimension, not {array.ndim}", cure="flatten it")
    if array.size and array.dtype.kind not in "iu":
        raise BadInput(f"{what} has type {array.dtype}", cure=f"give whole numbers ({np.dtype(dtype).name})")
    if array.size:
        limits = np.iinfo(dtype)
        low, high = int(array.min()), int(array.max())
        if low < limits.min or high > limits.max:
            raise BadInput(
                f"{what} holds {low if low < limits.min else high}, outside {np.dtype(dtype).name}", cure="check it"
            )
    return np.ascontiguousarray(array, dtype=dtype)


class Turns:
    """One caller at a time. Whoever has it claims inside a `try` and gives it back in its `finally`, in plain sight:

        if turns.held is turn:
            turns.held = None

    An interrupt comes at calls, so it can come between a lock that was taken and the `try` after it, but not here.
    """

    def __init__(self) -> None:
        self.held: list[int] | None = None
        self._lock = threading.Lock()

    def claim(self, turn: list[int], what: str, cure: str) -> None:
        """`turn` is a new list with the number of this process."""
        with self._lock:
            held = self.held
            if held is None:
                self.held = turn
        if held is None:
            return
        if held[0] != turn[0]:
            raise GraphForked(f"this {what} was being replayed when the process was forked", cure="make it again here")
        raise BadInput(f"this {what} is being replayed already", cure=cure)


class Graph:
    """Tasks 0 to n-1, each run after its predecessors, as often as `replay` is called.

    `start` and `predecessors` are the CSR form: task t waits for predecessors[start[t]:start[t + 1]]. `bodies` is a
    table and `kind` says which row each task runs (row 0 when left out). A Python body is called with the task number.
    A native body gets the task's tensor addresses and scalar words when they are given (CSR as well), and otherwise the
    task number as its only scalar. All arrays are checked here; a cycle is refused with its path.
    """

    def __init__(
        self,
        start: npt.ArrayLike,
        predecessors: npt.ArrayLike,
        bodies: Sequence[Any] = (None,),
        *,
        kind: npt.ArrayLike | None = None,
        tensors: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
        scalars: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        self._start = flat(start, np.int64, "start")
        if not len(self._start):
            raise BadInput("start is empty", cure="a graph of n tasks has n + 1 offsets")
        self._predecessors = flat(predecessors, np.int64, "predecessors")
        tasks = len(self._start) - 1
        if len(self._predecessors) != self._start[-1]:
            raise BadInput(
                f"start ends at {self._start[-1]}, but there are {len(self._predecessors)} predecessors",
                cure="make them agree",
                index=tasks,
            )
        self._kind = None if kind is None else flat(kind, np.uint16, "kind")
        if self._kind is not None and len(self._kind) != tasks:
            raise BadInput(f"kind has {len(self._kind)} entries for {tasks} tasks", cure="one per task")
        self._tensors = _csr_words(tensors, tasks, "tensors")
        self._scalars = _csr_words(scalars, tasks, "scalars")
        if isinstance(bodies, (str, bytes)) or not isinstance(bodies, Sequence):
            raise BadInput("bodies must be a sequence of task bodies", cure="[body, body, ...]")
        self.bodies = [resolve(body) for body in bodies]
        if names is not None and len(names) != len(self.bodies):
            raise BadInput(f"{len(names)} names for {len(self.bodies)} bodies", cure="one name per body")
        self.names = list(names) if names is not None else [name_of(body) for body in self.bodies]
        self._native = _native.ReplayGraph()
        self._turns = Turns()
        self._choice = WorkerChoice(hardware_workers(), python=any(callable(body) for body in self.bodies))
        table = [(b.address, b.user) if isinstance(b, NativeBody) else b for b in self.bodies]
        report = self._native.build(
            self._start,
            self._predecessors,
            self._kind,
            table,
            *(self._tensors or (None, None)),
            *(self._scalars or (None, None)),
        )
        if not report["ok"]:
            if report["cycle"]:
                raise GraphCycle(report["cycle"])
            index = report["index"]
            where = f" (index {index})" if index >= 0 else ""
            raise BadInput(f"{report['message']}{where}", cure="check the arrays", index=index if index >= 0 else None)

    @classmethod
    def from_edges(cls, tasks: int, edges: npt.ArrayLike, bodies: Sequence[Any] = (None,), **options: Any) -> Self:
        """From (producer, consumer) rows instead of CSR."""
        pairs = np.asarray(edges)
        if pairs.size == 0:
            pairs = np.zeros((0, 2), np.int64)
        if pairs.ndim != 2 or pairs.shape[1] != 2:
            raise BadInput(f"edges have shape {pairs.shape}", cure="rows of (producer, consumer)")
        if isinstance(tasks, bool) or not isinstance(tasks, int) or tasks < 0:
            raise BadInput(f"tasks={tasks!r} is not a number of tasks", cure="0 or more")
        producer, consumer = flat(pairs[:, 0], np.int64, "producers"), flat(pairs[:, 1], np.int64, "consumers")
        outside = np.flatnonzero((consumer < 0) | (consumer >= tasks) | (producer < 0) | (producer >= tasks))
        if len(outside):
            raise BadInput(
                f"edge {outside[0]} names a task that is not there", cure=f"0 to {tasks - 1}", index=int(outside[0])
            )
        order = np.argsort(consumer, kind="stable")
        start = np.concatenate([[0], np.cumsum(np.bincount(consumer, minlength=tasks))])
        return cls(start, producer[order], bodies, **options)

    @classmethod
    def from_workload(cls, work: Workload, bodies: Sequence[Any] | None = None, **options: Any) -> Graph:
        """The edges of a named workload; every task is an empty native body unless `bodies` has one row per kind."""
        if bodies is None:
            return cls(work.dep_start, work.dep_task, [kernel("empty")], **options)
        return cls(work.dep_start, work.dep_task, bodies, kind=work.kind.astype(np.uint16), names=work.kinds, **options)

    @property
    def tasks(self) -> int:
        return len(self._start) - 1

    @property
    def edges(self) -> int:
        return len(self._predecessors)

    @property
    def tensor_addresses(self) -> npt.NDArray[np.uint64]:
        """What native bodies are given, in the order of the tasks. It is read at every replay and may be changed
        between two, as long as no body of an earlier one is running."""
        return self._tensors[0] if self._tensors is not None else np.zeros(0, np.uint64)

    @property
    def components(self) -> int:
        return int(self._native.components)

    def name_of(self, task: int) -> str:
        row = 0 if self._kind is None else int(self._kind[task])
        return f"{self.names[row]}[{task}]"

    def replay(
        self,
        *,
        workers: int | None = None,
        coarsen: bool = True,
        spans: bool = False,
        timeout_s: float | None = None,
    ) -> Replay:
        """Runs every task once. `coarsen=False` counts every edge where one worker could run a whole component.

        Without `workers` the first replays find out whether one worker alone is faster, as it can be with tiny bodies.
        With `timeout_s` the calling thread runs no bodies, it only waits: a body may then block, never return or end
        its thread, and the replay still comes back, with an error that names it.
        """
        limit_ns = 0 if timeout_s is None else max(1, int(seconds("timeout_s", timeout_s) * 1e9))
        measured = workers is None and not limit_ns
        chosen = self._choice.next() if measured else check_workers(workers)
        threads = pool(chosen + 1 if limit_ns else chosen)
        times = np.zeros((self.tasks, 3), np.int64) if spans else None
        turn = [os.getpid()]
        try:
            self._turns.claim(turn, "graph", "wait for that replay, or build a second graph")
            began = time.perf_counter_ns()
            report = self._native.replay(threads, bool(coarsen), times, limit_ns, self)
            if measured and self.tasks:
                self._choice.took(chosen, (time.perf_counter_ns() - began) / self.tasks)
        finally:
            if self._turns.held is turn:
                self._turns.held = None
        if report["interrupt"] is not None:
            raise report["interrupt"]
        if report["refused"]:
            raise GraphError(
                "bodies of an earlier replay of this graph have not returned", cure="let them return, or build it again"
            )
        if report["timed_out"]:
            raise self._timeout(report, timeout_s)
        if report["stalled"]:
            raise self._stalled(report)
        if report["failed"] >= 0:
            raise self._failure(report)
        return Replay(report["executed"], times)

    def _stalled(self, report: dict[str, Any]) -> GraphStalled:
        text = f"no thread is left and no other can be started; {report['cancelled']} tasks did not run"
        if report["failed"] >= 0:
            text += f"; {self.name_of(report['failed'])} was the first to end its thread"
        return GraphStalled(
            text, cure="let bodies return instead of ending their thread, or raise the limit on threads or memory"
        )

    def _timeout(self, report: dict[str, Any], timeout_s: float | None) -> GraphTimeout:
        """Names the bodies that were running and what waits for them."""
        seen = report["running"]
        running = [f"{self.name_of(task)} has been running for {ns / 1e9:.1f} s" for task, _, ns in seen[:4]]
        consumers = self._consumers([task for task, _, _ in seen])
        if consumers:
            running.append("waiting for it: " + ", ".join(self.name_of(task) for task in consumers[:4]))
        cure = "give it longer, or see why it does not return"
        if report["left"]:
            cure += "; the graph can be replayed again once it has"
        return GraphTimeout(
            f"the replay ended after {timeout_s} s: {'; '.join(running) or 'no body was running'}", cure=cure
        )

    def _consumers(self, producers: list[int]) -> list[int]:
        edges = np.flatnonzero(np.isin(self._predecessors, producers))
        return [int(task) for task in np.unique(np.searchsorted(self._start, edges, side="right") - 1)]

    def _failure(self, report: dict[str, Any]) -> BaseException:
        error, task = report["error"], report["failed"]
        if isinstance(error, KeyboardInterrupt):
            return error
        name = self.name_of(task)
        if error is not None:
            how = how_raised(error)
        else:
            how = f"failed: {report['message']}" if report["message"] else f"returned status {report['status']}"
        failed = TaskFailed(
            f"task {name} {how}; {report['cancelled']} dependents were cancelled, the rest has finished",
            cure="see the cause; the graph can be replayed again",
            task=task,
            name=name,
            status=report["status"],
        )
        failed.__cause__ = error
        return failed


def _csr_words(
    given: tuple[npt.ArrayLike, npt.ArrayLike] | None, tasks: int, what: str
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]] | None:
    """(values, start) checked: as many offsets as tasks plus one, ascending, ending at the number of values."""
    if given is None:
        return None
    if not isinstance(given, tuple) or len(given) != 2:
        raise BadInput(
            f"{what} must be (values, start)", cure="values as 64-bit words, start with one offset per task plus one"
        )
    values, start = flat(given[0], np.uint64, what), flat(given[1], np.int64, f"offsets of {what}")
    if len(start) != tasks + 1 or start[0] != 0 or start[-1] != len(values) or (np.diff(start) < 0).any():
        raise BadInput(
            f"offsets of {what} do not fit {tasks} tasks and {len(values)} values", cure="ascend from 0 to the end"
        )
    return values, start
