"""Requests under way: sent, sent again after a loss, given to a second worker when slow, until each has one answer."""

from __future__ import annotations

import statistics
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from whet.cluster.crew import LOOK_S, Crew, Member
from whet.cluster.errors import ClusterError, DeadlinePassed, UnreadableShard, WorkerLies, WorkerLost
from whet.cluster.messages import Fault, Partial, Request
from whet.errors import BadInput, DeviceOutOfMemory
from whet.msm import Point
from whet.msm.point import POINT_BYTES

# A request is given up when its workers were lost so often and for so long: a busy machine restarts one slowly.
MOST_LOSSES = 8
LOSSES_S = 60.0
MOST_LIES = 2
BACK_OFF_S = 0.05


@dataclass(frozen=True)
class Patience:
    """When a request counts as slow: later than both."""

    slow_after_s: float = 2.0
    slow_factor: float = 3.0  # times the others of its kind


@dataclass
class Task:
    """One request and who has it. `limbs` are the scalars from the head, or their object in Ray's store."""

    request: Request
    index: int  # of the worker that has the shard
    limbs: Any = None
    avoid: Collection[int] = ()  # workers that must not answer it
    outside: Member | None = None  # one outside the crew that has it, and nobody else
    answer: Partial | None = None
    points: list[Point] = field(default_factory=list)
    answered_by: Member | None = None
    sent: list[tuple[Any, Member, float]] = field(default_factory=list)
    took: float = 0.0
    losses: int = 0
    first_loss: float = 0.0
    lies: int = 0
    again_at: float = 0.0
    overtaken: bool = False


class Flight:
    """A group of tasks, for one thread. `result` waits for all of them; `done` looks."""

    def __init__(self, crew: Crew, deadline_s: float, patience: Patience) -> None:
        self.tasks: list[Task] = []
        self._crew = crew
        self._ray = crew.connection.ray
        self._patience = patience
        self._deadline_s = deadline_s
        self._end = time.monotonic() + deadline_s

    def add(self, task: Task) -> None:
        """Sends it now: its worker begins while the next is made ready."""
        self._crew.require_open()
        self.tasks.append(task)
        self._send(task, task.outside or self._crew[task.index])

    def done(self, wait_s: float = 0.0) -> bool:
        self._step(wait_s)
        return all(task.answer is not None for task in self.tasks)

    def result(self) -> list[Task]:
        """The tasks, each with its answer."""
        looked = time.monotonic()
        while any(task.answer is None for task in self.tasks):
            self.require_time()
            if self._step(min(LOOK_S, max(0.0, self._end - time.monotonic()))):
                looked = time.monotonic()
            elif time.monotonic() - looked >= LOOK_S:
                self._crew.connection.require_head()
                looked = time.monotonic()
        return self.tasks

    def require_time(self) -> None:
        if time.monotonic() >= self._end:
            raise self._late()

    def _step(self, timeout_s: float) -> bool:
        """Takes what has come, sends what is due; whether anything came."""
        self._crew.require_open()
        waiting = {ref: (task, member) for task in self._open() for ref, member, _ in task.sent}
        now = time.monotonic()
        pauses = [task.again_at - now for task in self._open() if not task.sent]
        if pauses:
            timeout_s = max(0.0, min(timeout_s, *pauses))
        ready = []
        if waiting:
            ready, _ = self._ray.wait(list(waiting), num_returns=1, timeout=timeout_s)
            if ready:  # and whatever else is there by now
                ready, _ = self._ray.wait(list(waiting), num_returns=len(waiting), timeout=0)
        elif timeout_s:
            time.sleep(timeout_s)
        for ref in ready:
            task, member = waiting[ref]
            if task.answer is None:
                self._receive(task, ref, member)
        for task in self._open():
            if not task.sent and time.monotonic() >= task.again_at:
                self._send(task, task.outside or self._crew[task.index])
        self._overtake()
        return bool(ready)

    def _open(self) -> list[Task]:
        return [task for task in self.tasks if task.answer is None]

    def _send(self, task: Task, member: Member) -> None:
        try:
            ref = member.actor.compute.remote(task.request, task.limbs)
        except self._ray.exceptions.RayError as error:
            raise self._crew.translated(error) from None
        task.sent.append((ref, member, time.monotonic()))

    def _receive(self, task: Task, ref: Any, member: Member) -> None:
        sent_at = next(at for one, _, at in task.sent if one == ref)
        task.sent = [row for row in task.sent if row[0] != ref]
        try:
            answer = self._ray.get(ref, timeout=max(0.1, self._end - time.monotonic()))
        except self._ray.exceptions.RayError as error:
            self._lost(task, member, error)
            return
        if isinstance(answer, Fault):
            raise refused(answer, task.request, member)
        points = read_answer(answer, task.request)
        if points is None:
            self._lied(task, member, "its answer is no point of the curve")
            return
        task.took = time.monotonic() - sent_at
        task.answer, task.points, task.answered_by = answer, points, member
        task.sent = []
        self._crew.count_answer(member, len(task.request.shard) * task.request.vectors, answer)

    def _lost(self, task: Task, member: Member, error: BaseException) -> None:
        self._crew.require_open()
        if not self._crew.is_loss(error):
            raise self._crew.translated(error) from None
        self._crew.connection.require_head()
        self._crew.count_loss(member, type(error).__name__)
        task.losses += 1
        task.first_loss = task.first_loss or time.monotonic()
        if task.losses > MOST_LOSSES and time.monotonic() - task.first_loss >= LOSSES_S:
            raise WorkerLost(
                f"{member} was lost {task.losses} times while it had {task.request.shard}",
                cure="see that its machine has memory for the shard, or use more workers",
            )
        if task.outside is None and isinstance(error, self._ray.exceptions.ActorDiedError):  # Ray does not restart it
            self._crew.replace(member, type(error).__name__)
        task.again_at = time.monotonic() + BACK_OFF_S * 2 ** min(task.losses, 5)

    def _lied(self, task: Task, member: Member, why: str) -> None:
        task.lies += 1
        if task.lies > MOST_LIES:
            raise WorkerLies(f"{member}: {why}, and so it is from those in its place", cure="check the file of points")
        if task.outside is None:
            self._crew.replace(member, why)

    def _overtake(self) -> None:
        """A task that is much later than the others goes to a worker that has nothing left to do here."""
        if not (late := [task for task in self._open() if task.sent and not task.overtaken and not task.outside]):
            return
        finished = [task.took for task in self.tasks if task.answer is not None]
        busy = {member.index for task in self._open() for _, member, _ in task.sent}
        now = time.monotonic()
        for task in late:
            if finished:
                usual = statistics.median(finished)
            else:
                speed = max(member.points_per_second for member in self._crew.members())
                usual = len(task.request.shard) * task.request.vectors / speed if speed else self._deadline_s
            if now - task.sent[0][2] <= max(self._patience.slow_after_s, self._patience.slow_factor * usual):
                continue
            free = [
                member
                for member in self._crew.members()
                if member.index not in busy and member.index not in task.avoid and member.index != task.index
            ]
            if free:
                fastest = max(free, key=lambda member: member.points_per_second)
                task.overtaken = True
                busy.add(fastest.index)
                self._crew.events.append(
                    f"{self._crew[task.index]} was slow: {fastest} got {task.request.shard} as well"
                )
                self._send(task, fastest)

    def _late(self) -> ClusterError:
        self._crew.connection.require_head()
        names = ", ".join(sorted({str(member) for task in self._open() for _, member, _ in task.sent})) or "workers"
        return DeadlinePassed(
            f"no answer from {names} within {self._deadline_s:g} s",
            cure="give a longer deadline_s, or use more workers",
        )


def read_answer(answer: Any, request: Request) -> list[Point] | None:
    """The points of an answer; None unless they are as many as asked for and all on the curve."""
    if not isinstance(answer, Partial) or len(answer.points) != POINT_BYTES * request.answers:
        return None
    rows = range(0, len(answer.points), POINT_BYTES)
    points = [Point.from_bytes(answer.points[at : at + POINT_BYTES]) for at in rows]
    return points if all(point.is_on_curve for point in points) else None


def refused(fault: Fault, request: Request, member: Member) -> Exception:
    """A worker's fault as the error that the caller sees."""
    where = f"{member}, {request.shard}"
    if fault.kind == "points":
        return UnreadableShard(f"{where}: {fault.cause}", cure=f"{fault.cure}; every machine needs the file, the same")
    if fault.kind == "memory":
        return DeviceOutOfMemory(f"{where}: {fault.cause}", cure=fault.cure)
    return BadInput(f"{where}: {fault.cause}", cure=fault.cure, index=fault.index)
