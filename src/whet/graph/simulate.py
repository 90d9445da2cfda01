"""What a recorded graph would take on so many cores: list scheduling of its tasks by the times that they took."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

import msgspec

from whet.errors import BadInput


class Timed(msgspec.Struct, frozen=True):
    """A task that took `taken_ns`, and the places of earlier tasks that it waits for."""

    taken_ns: int
    after: tuple[int, ...] = ()


class Simulated(msgspec.Struct, frozen=True):
    """A graph on `cores` that do nothing else, with nothing lost between tasks."""

    cores: int
    tasks: int
    work_ns: int  # of all tasks together
    critical_ns: int  # the longest chain: what infinitely many cores would take
    span_ns: int

    @property
    def speed_up(self) -> float:
        return self.work_ns / self.span_ns if self.span_ns else 1.0

    @property
    def efficiency(self) -> float:
        return self.speed_up / self.cores


def simulate(tasks: Sequence[Timed], cores: int) -> Simulated:
    """Whenever a core is idle it takes the first task in order whose predecessors are done."""
    if cores < 1:
        raise BadInput(f"{cores} cores", cure="give 1 or more")
    _require_order(tasks)
    followers: list[list[int]] = [[] for _ in tasks]
    missing = [len(task.after) for task in tasks]
    chain_ns = [0] * len(tasks)
    for place, task in enumerate(tasks):
        chain_ns[place] = task.taken_ns + max((chain_ns[before] for before in task.after), default=0)
        for before in task.after:
            followers[before].append(place)
    ready = [place for place, count in enumerate(missing) if count == 0]
    heapify(ready)
    running: list[tuple[int, int]] = []  # when it ends, and which
    now_ns = 0
    while ready or running:
        while ready and len(running) < cores:
            place = heappop(ready)
            heappush(running, (now_ns + tasks[place].taken_ns, place))
        now_ns, done = heappop(running)
        for place in followers[done]:
            missing[place] -= 1
            if missing[place] == 0:
                heappush(ready, place)
    work_ns = sum(task.taken_ns for task in tasks)
    return Simulated(cores, len(tasks), work_ns, max(chain_ns, default=0), now_ns)


def _require_order(tasks: Sequence[Timed]) -> None:
    for place, task in enumerate(tasks):
        if any(not 0 <= before < place for before in task.after):
            raise BadInput(f"task {place} waits for {task.after}", cure="put tasks behind those that they wait for")
