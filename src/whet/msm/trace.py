"""The tasks of one call, with the processor time of each: which stage, window and slice, and what waits for what."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from whet.graph.simulate import Timed


@dataclass(frozen=True)
class Task:
    """`window` and `slice` are -1 where a task belongs to none."""

    stage: str
    step: str
    window: int
    slice: int
    taken_ns: int


@dataclass(frozen=True)
class Step:
    """Tasks that are independent of each other. A step begins when the one before it has ended.

    `name` is empty for what the calling thread does by itself between two steps. Where `per_window` is not zero, so
    many tasks in turn belong to a window, the first ones to `first_window`.
    """

    stage: str
    name: str
    first_window: int
    per_window: int
    task_ns: tuple[int, ...]

    def tasks(self) -> Iterator[Task]:
        for place, taken_ns in enumerate(self.task_ns):
            window, part = divmod(place, self.per_window) if self.per_window else (-1 - self.first_window, -1)
            yield Task(self.stage, self.name, self.first_window + window, part, taken_ns)


def as_graph(steps: Sequence[Step]) -> list[Timed]:
    """For `whet.graph.simulate`: between two steps stands a task of no length that waits for all of the first."""
    from whet.graph.simulate import Timed  # here, so that a sum does not load the graph

    tasks: list[Timed] = []
    barrier: tuple[int, ...] = ()
    for step in steps:
        first = len(tasks)
        tasks += [Timed(taken_ns, barrier) for taken_ns in step.task_ns]
        if len(step.task_ns) > 1:
            tasks.append(Timed(0, tuple(range(first, len(tasks)))))
        if step.task_ns:
            barrier = (len(tasks) - 1,)
    return tasks
