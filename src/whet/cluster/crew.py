"""The workers of one cluster: started, greeted, asked, replaced and ended by the process that made them."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from whet.cluster.connection import Connection, require_same_versions
from whet.cluster.errors import ClusterError, DeadlinePassed, ObjectStoreFull, VersionMismatch, WorkerLost
from whet.cluster.messages import Hello, Partial
from whet.cluster.status import NAMESPACE, TALK
from whet.cluster.worker import Worker
from whet.errors import BadInput

LOOK_S = 0.5  # between two looks at the head while nothing answers
EVENTS_KEPT = 100
SPEED_WEIGHT = 0.3  # of the latest sum in a worker's speed


@dataclass
class Member:
    """One worker, as the head knows it. Fields are written under the crew's lock."""

    index: int
    name: str
    actor: Any
    hello: Hello
    points_per_second: float
    sums: int = 0
    losses: int = 0

    def __str__(self) -> str:
        return f"worker {self.index} on {self.hello.host} (pid {self.hello.pid})"


class Crew:
    """Workers 0 to n - 1. `replace` puts another in a place; nothing is ever moved to another index."""

    def __init__(
        self,
        connection: Connection,
        *,
        label: str,
        size: int,
        threads: int,
        options: Mapping[str, Any],
        deadline_s: float,
    ) -> None:
        self.connection = connection
        self.events: deque[str] = deque(maxlen=EVENTS_KEPT)
        self._label = label
        self._threads = threads
        self._options = {**options, "threads": threads}
        self._deadline_s = deadline_s
        self._lock = threading.RLock()
        self._closed = False
        self._made = 0
        self._members: list[Member] = []
        actors = []
        try:
            actors = [self._make() for _ in range(size)]
            hellos = self.ask_all([actor.hello.remote() for _, actor in actors], deadline_s, "started")
            for (name, actor), hello in zip(actors, hellos, strict=True):
                require_same_versions(hello.versions, f"the worker on {hello.host}")
                self._members.append(Member(len(self._members), name, actor, hello, hello.points_per_second))
        except BaseException:
            for _, actor in actors:
                self._kill(actor)
            raise

    def __len__(self) -> int:
        return len(self._members)

    def __getitem__(self, index: int) -> Member:
        return self._members[index]

    def members(self) -> list[Member]:
        with self._lock:
            return list(self._members)

    def _make(self) -> tuple[str, Any]:
        """A named actor. Ray restarts its process when that ends; the points come back with the next request."""
        with self._lock:
            self._made += 1
            name = f"{self._label}-{self._made}"
        remote = self.connection.ray.remote(concurrency_groups={TALK: 2})(Worker).options(
            name=name,
            namespace=NAMESPACE,
            num_cpus=self._threads,
            max_restarts=-1,
            max_task_retries=0,
            max_concurrency=1,
            scheduling_strategy="SPREAD",
        )
        return name, remote.remote(self._options)

    def replace(self, member: Member, why: str) -> Member:
        """A fresh worker in the member's place; whoever finds it replaced already gets the new one."""
        with self._lock:
            self.require_open()
            current = self._members[member.index]
            if current is not member:
                return current
            self._kill(member.actor)
            name, actor = self._make()
            try:
                hello = self.ask_all([actor.hello.remote()], self._deadline_s, "started")[0]
                require_same_versions(hello.versions, f"the worker on {hello.host}")
            except BaseException:
                self._kill(actor)
                raise
            fresh = Member(member.index, name, actor, hello, hello.points_per_second, losses=member.losses)
            self._members[member.index] = fresh
            self.events.append(f"{member} was replaced: {why}")
            return fresh

    def extra(self) -> Member:
        """A worker outside the crew, for one question. Ended with `dismiss`."""
        name, actor = self._make()
        try:
            return Member(-1, name, actor, self.ask_all([actor.hello.remote()], self._deadline_s, "started")[0], 0.0)
        except BaseException:
            self._kill(actor)
            raise

    def dismiss(self, member: Member) -> None:
        self._kill(member.actor)

    def count_loss(self, member: Member, why: str) -> None:
        with self._lock:
            member.losses += 1
            self.events.append(f"{member} was lost: {why}")

    def count_answer(self, member: Member, points: int, answer: Partial) -> None:
        with self._lock:
            if answer.pid and answer.pid != member.hello.pid:
                member.hello = replace(member.hello, pid=answer.pid)
            if not points:
                return
            member.sums += 1
            if answer.seconds > 0:
                latest = points / answer.seconds
                before = member.points_per_second if member.sums > 1 else latest
                member.points_per_second = (1 - SPEED_WEIGHT) * before + SPEED_WEIGHT * latest

    def ask_all(
        self, refs: Sequence[Any], deadline_s: float, what: str, meanwhile: Callable[[], None] = lambda: None
    ) -> list[Any]:
        """All answers in order, or a typed error. For questions that need no second attempt."""
        end = time.monotonic() + deadline_s
        waiting = list(refs)
        while waiting:
            self.require_open()
            _, waiting = self.connection.ray.wait(
                waiting, num_returns=len(waiting), timeout=min(LOOK_S, max(0.0, end - time.monotonic()))
            )
            meanwhile()
            if waiting:
                self.connection.require_head()
                if time.monotonic() >= end:
                    raise DeadlinePassed(
                        f"{len(waiting)} of {len(refs)} workers have not {what} within {deadline_s:g} s",
                        cure="see that the cluster has free processors (whet cluster status), or give more time",
                    )
        return [self.fetch(ref) for ref in refs]

    def fetch(self, ref: Any) -> Any:
        """An answer that has come; errors of Ray as ours."""
        try:
            return self.connection.ray.get(ref, timeout=self._deadline_s)
        except self.connection.ray.exceptions.RayError as error:
            raise self.translated(error) from None

    def translated(self, error: BaseException) -> ClusterError:
        """What an error of Ray means here."""
        kinds = self.connection.ray.exceptions
        text = str(error).strip()
        line = text.splitlines()[-1] if text else type(error).__name__
        if "No module named 'whet" in text:
            return VersionMismatch("a machine of the cluster has no whet", cure="install the same whet everywhere")
        if isinstance(error, kinds.ObjectStoreFullError | kinds.OutOfDiskError):
            return ObjectStoreFull(f"Ray's object store is full: {line}", cure=STORE_CURE)
        if isinstance(error, kinds.GetTimeoutError):
            return DeadlinePassed("a worker's answer cannot be fetched in time", cure="check the network, try again")
        if isinstance(error, kinds.RayActorError | kinds.WorkerCrashedError | kinds.ObjectLostError):
            return WorkerLost(f"a worker was lost: {line[:200]}", cure="see that its machine has memory, try again")
        return ClusterError(f"a worker failed: {line[:200]}", cure="see the logs of Ray on its machine")

    def is_loss(self, error: BaseException) -> bool:
        """Whether asking again may help."""
        kinds = self.connection.ray.exceptions
        return isinstance(error, kinds.RayActorError | kinds.WorkerCrashedError | kinds.ObjectLostError)

    def put(self, value: Any) -> Any:
        """An object of Ray's store that this process owns."""
        try:
            return self.connection.ray.put(value)
        except self.connection.ray.exceptions.RayError as error:
            raise self.translated(error) from None

    def require_open(self) -> None:
        if self._closed:
            raise BadInput("the cluster is closed", cure="make a new one")
        self.connection.require_own_process()

    @property
    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """In the process that made them, at any time, also twice."""
        self._closed = True
        if not self.connection.is_own_process:
            return
        for member in self._members:
            self._kill(member.actor)

    def _kill(self, actor: Any) -> None:
        try:
            self.connection.ray.kill(actor, no_restart=True)
        except Exception:  # gone already, or Ray is
            return


STORE_CURE = "name a file that the workers read, use fewer vectors at once, or a larger object_store_bytes"
