"""Graphs that press on one thing each: no parallelism, a moving front, wide fan-out, irregular fan-in."""

from __future__ import annotations

import numpy as np

from whet.graph.workloads.workload import EXTERNAL, Direction, Ints, Workload, contiguous, csr, in_task_order

CELL = 64  # bytes per task result: one cache line, so that neighbours do not share


def _cells(count: int) -> tuple[Ints, Ints]:
    return np.full(count, CELL, np.int64), np.full(count, EXTERNAL, np.int64)


def chain(name: str, tasks: int = 65_536) -> Workload:
    """Every task updates the same cell: the latency of one hand-over, and nothing to share."""
    task = np.arange(tasks)
    start, deps = csr(tasks, task[1:], task[:-1])
    return Workload(
        name,
        ("step",),
        np.zeros(tasks, np.int8),
        contiguous(task, 0, CELL, Direction.INOUT),
        *_cells(1),
        start,
        deps,
        parameters={"tasks": tasks},
    )


def wavefront(name: str, side: int = 256) -> Workload:
    """Cell (r, c) needs (r-1, c) and (r, c-1): the front widens to `side` and narrows again."""
    task = np.arange(side * side)
    row, column = np.divmod(task, side)
    up, left = task[row > 0], task[column > 0]
    start, deps = csr(side * side, np.concatenate([up, left]), np.concatenate([up - side, left - 1]))
    return Workload(
        name,
        ("cell",),
        np.zeros(side * side, np.int8),
        in_task_order(
            contiguous(up, up - side, CELL, Direction.IN),
            contiguous(left, left - 1, CELL, Direction.IN),
            contiguous(task, task, CELL, Direction.OUT_EXISTING),
        ),
        *_cells(side * side),
        start,
        deps,
        parameters={"side": side},
    )


def fan(name: str, width: int = 1000, rounds: int = 64) -> Workload:
    """1 -> width -> 1, again and again: one completion frees `width` tasks, `width` completions free one."""
    per_round = width + 2
    tasks = rounds * per_round
    source = np.arange(rounds) * per_round
    sink = source + width + 1
    leaves = source[:, None] + 1 + np.arange(width)
    consumer = np.concatenate([leaves.ravel(), np.repeat(sink, width), source[1:]])
    producer = np.concatenate([np.repeat(source, width), leaves.ravel(), sink[:-1]])
    start, deps = csr(tasks, consumer, producer)
    kind = np.ones(tasks, np.int8)
    kind[source], kind[sink] = 0, 2
    task = np.arange(tasks)
    return Workload(
        name,
        ("source", "leaf", "sink"),
        kind,
        in_task_order(
            contiguous(consumer, producer, CELL, Direction.IN), contiguous(task, task, CELL, Direction.OUT_EXISTING)
        ),
        *_cells(tasks),
        start,
        deps,
        parameters={"width": width, "rounds": rounds},
    )


def random_dag(name: str, tasks: int = 65_536, fan_in: int = 16, reach: int = 4096, seed: int = 0) -> Workload:
    """Each task reads 0 to `fan_in` results, drawn from the `reach` tasks before it."""
    rng = np.random.default_rng(seed)
    task = np.arange(tasks)
    wanted = np.minimum(rng.integers(0, fan_in + 1, tasks), task)
    consumer = np.repeat(task, wanted)
    producer = consumer - 1 - (rng.random(len(consumer)) * np.minimum(consumer, reach)).astype(np.int64)
    start, deps = csr(tasks, consumer, producer)
    consumer = np.repeat(task, np.diff(start))
    return Workload(
        name,
        ("node",),
        np.zeros(tasks, np.int8),
        in_task_order(
            contiguous(consumer, deps, CELL, Direction.IN), contiguous(task, task, CELL, Direction.OUT_EXISTING)
        ),
        *_cells(tasks),
        start,
        deps,
        parameters={"tasks": tasks, "fan_in": fan_in, "reach": reach, "seed": seed},
    )
