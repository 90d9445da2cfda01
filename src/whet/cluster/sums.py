"""`MsmCluster`: the sum over points that no single machine has to hold."""

from __future__ import annotations

import itertools
import os
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self

import numpy as np

from whet.cluster.check import agree, by_vector, draw_weights, joined
from whet.cluster.connection import DEADLINE_S, OBJECT_STORE_BYTES, Node, connect
from whet.cluster.crew import STORE_CURE, Crew, Member
from whet.cluster.description import Description, Row
from whet.cluster.errors import ObjectStoreFull, UnreadableShard, WorkerLies
from whet.cluster.flight import Flight, Patience, Task
from whet.cluster.messages import Fault, Request, digest_of
from whet.cluster.shards import borders_by_size, borders_by_speed
from whet.cluster.sources import PointsFile, PointsObject, ScalarsFile, ScalarsObject, Shard
from whet.cluster.status import TALK
from whet.errors import BadInput
from whet.msm import Point, Scalars
from whet.msm.point import Endian
from whet.msm.points.files import Check
from whet.msm.validate import Limbs, PointsLike, ScalarsLike, is_file, read_points, read_scalars, require_same_length

SUM_DEADLINE_S = 600.0
PROGRESS_S = 0.2
CLOSE_S = 10.0  # a call looks every half second whether it is closed
INLINE_BYTES = 100_000  # of scalars; Ray puts larger arguments into its store, so that is done once, by name
# `map`: what one request carries, and how many requests are under way.
GROUP_BYTES = 1 << 20
GROUP_VECTORS = 256
GROUP_WAIT_S = 0.005
FLIGHTS = 4

Named = ScalarsFile | list[ScalarsObject]  # scalars that workers read
Vector = ScalarsLike | ScalarsFile | str | os.PathLike[str]


@dataclass(frozen=True)
class Sent:
    """A group of vectors under way."""

    flight: Flight
    vectors: int
    weights: tuple[int, ...]
    deadline_s: float


class MsmCluster:
    """Points cut into shards that stay in the memory of workers; call it with scalars. Safe to share between threads.

    `points` are whatever `whet.msm.msm` takes, or a file: a path, an open `Srs`, a `PointsFile`. A file is read by the
    workers, each its own shard, under the same path. Without `address` a Ray is started on this machine and ended by
    `close`; with one the Ray there is joined.

    `workers` (one per processor here, one per machine of a Ray that is joined) have `threads` each. `shards` are their
    sizes; by default they follow the speed that each worker shows when it starts.

    With `verify` a second worker checks every shard's partial sums, and one that lies is named in `events`, replaced,
    and its part computed again. A sum takes about twice as long then, and each worker holds a second shard.

    A request that is later than `slow_after_s` and `slow_factor` times the others goes to another worker as well.
    `progress` is called with the points loaded so far and all points.
    """

    def __init__(
        self,
        points: PointsLike | PointsFile | str | os.PathLike[str],
        address: str | None = None,
        *,
        workers: int | None = None,
        threads: int | None = None,
        shards: Sequence[int] | None = None,
        verify: bool = False,
        endian: Endian = "little",
        montgomery: bool = False,
        format: str = "auto",
        section: str | None = None,
        check: Check = "on-curve",
        variant: str = "auto",
        device: str = "cpu",
        start_deadline_s: float = DEADLINE_S,
        load_deadline_s: float = SUM_DEADLINE_S,
        slow_after_s: float = 2.0,
        slow_factor: float = 3.0,
        object_store_bytes: int = OBJECT_STORE_BYTES,
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> None:
        self.verify = verify
        self._patience = Patience(slow_after_s, slow_factor)
        self._label = f"msm-{uuid.uuid4().hex[:12]}"
        self._jobs = itertools.count()
        self._stack = ExitStack()
        self._gate = threading.Condition()  # of the two below
        self._active = 0
        self._mine = threading.local()
        given: Any = _file_of(points, format=format, section=section, check=check)
        limbs = None
        if given is None:
            rows: Any = points
            limbs = read_points(rows, endian=endian, montgomery=montgomery, check=check != "none")
        if shards is not None:
            workers = len(shards) if workers is None else workers
            borders_by_size(len(limbs) if limbs is not None else sum(shards), shards, workers)  # refused before a start
        try:
            connection = self._stack.enter_context(
                connect(address, workers=workers, deadline_s=start_deadline_s, object_store_bytes=object_store_bytes)
            )
            size, each = _places(connection.nodes(), workers, threads, started=connection.started)
            self._crew = Crew(
                connection,
                label=self._label,
                size=max(size, 2) if verify else size,
                threads=each,
                options={"variant": variant, "device": device},
                deadline_s=start_deadline_s,
            )
            self._stack.callback(self._crew.close)
            if limbs is None:
                self._size = self._count(given, start_deadline_s)
            else:
                self._size, given = len(limbs), self._kept(limbs)
            self._workers = size
            self._shards = self._cut(given, shards, size)
            self._load(load_deadline_s, progress)
        except BaseException:
            self._stack.close()
            raise

    def _count(self, source: PointsFile, deadline_s: float) -> int:
        """How many points the file has, as every worker sees it."""
        members = self._crew.members()
        told = self._crew.ask_all([one.actor.count.remote(source) for one in members], deadline_s, "opened the file")
        for member, count in zip(members, told, strict=True):
            if isinstance(count, Fault):
                raise UnreadableShard(f"{member}: {count.cause}", cure=f"{count.cure}; every machine needs the file")
            if count != told[0]:
                raise UnreadableShard(
                    f"{source.path} has {told[0]} points for {members[0]} and {count} for {member}",
                    cure="copy the same file to every machine",
                )
        return int(told[0])

    def _cut(self, source: PointsFile | PointsObject, sizes: Sequence[int] | None, workers: int) -> list[Shard]:
        members = self._crew.members()
        if sizes is not None:
            borders = borders_by_size(self._size, sizes, workers)
        else:
            borders = borders_by_speed(self._size, [one.points_per_second for one in members[:workers]])
        borders += [(self._size, self._size)] * (len(members) - len(borders))
        return [Shard(f"{start}:{stop}", start, stop, source) for start, stop in borders]

    def _kept(self, limbs: Limbs) -> PointsObject:
        """The points in Ray's store, in as many objects as there are workers."""
        self._require_room(limbs.nbytes)
        firsts = sorted({start for start, _ in borders_by_speed(len(limbs), [1.0] * len(self._crew))})
        ends = [*firsts[1:], len(limbs)]
        refs = [self._crew.put(limbs[first:end]) for first, end in zip(firsts, ends, strict=True)]
        return PointsObject(tuple(refs), tuple(firsts))

    def _require_room(self, size_bytes: int) -> None:
        """Ray would move what does not fit to its disk, without a word."""
        room = self._crew.connection.ray.cluster_resources().get("object_store_memory", 0)
        if size_bytes > room:
            raise ObjectStoreFull(f"{size_bytes} bytes, but Ray's object store has {int(room)}", cure=STORE_CURE)

    def _load(self, deadline_s: float, progress: Callable[[int, int], None]) -> None:
        """All shards at once. A worker that is lost meanwhile is asked again, as in any sum: an empty one."""
        nothing = digest_of(np.empty(0, np.uint64))
        flight = Flight(self._crew, deadline_s, Patience(deadline_s))
        for at, shard in enumerate(self._shards):
            flight.add(Task(Request(f"{self._label}:load", shard, 0, nothing), at))
        while not flight.done(PROGRESS_S):
            progress(min(self._size, self._loaded()), self._size)
            flight.require_time()
        progress(self._size, self._size)

    def _loaded(self) -> int:
        """Points read so far by those that answer now."""
        ray = self._crew.connection.ray
        refs = [one.actor.loaded.options(concurrency_group=TALK).remote() for one in self._crew.members()]
        ready, _ = ray.wait(refs, num_returns=len(refs), timeout=PROGRESS_S)
        told = 0
        for ref in ready:
            with suppress(ray.exceptions.RayError):
                told += int(ray.get(ref))
        return told

    def __len__(self) -> int:
        return self._size

    @property
    def address(self) -> str:
        return self._crew.connection.address

    @property
    def shards(self) -> list[int]:
        """How many points each worker has."""
        return [len(shard) for shard in self._shards]

    @property
    def events(self) -> list[str]:
        """What went wrong and was mended, the latest last."""
        return list(self._crew.events)

    def __call__(
        self,
        scalars: Vector | Any,
        *,
        endian: Endian = "little",
        montgomery: bool = False,
        deadline_s: float = SUM_DEADLINE_S,
    ) -> Point:
        """The sum over all points. Scalars from here, or named: a path or an open `Scalars` that every worker can read,
        a `ScalarsFile`, an object of Ray's store, or a list of objects, one per shard.
        """
        with self._using():
            return self._finish(self._fly([self._read(scalars, endian, montgomery)], deadline_s))[0]

    def batch(
        self,
        vectors: Iterable[Vector | Any],
        *,
        endian: Endian = "little",
        montgomery: bool = False,
        deadline_s: float = SUM_DEADLINE_S,
    ) -> list[Point]:
        """One sum per vector, as `map` computes them."""
        return list(self.map(vectors, endian=endian, montgomery=montgomery, deadline_s=deadline_s))

    def map(
        self,
        vectors: Iterable[Vector | Any],
        *,
        endian: Endian = "little",
        montgomery: bool = False,
        deadline_s: float = SUM_DEADLINE_S,
    ) -> Iterator[Point]:
        """One sum per vector, in order, while they come. Small ones share requests; a few requests are under way at a
        time, and no more vectors are taken than those carry.
        """
        self._crew.require_open()
        return self._mapped(iter(vectors), endian, montgomery, deadline_s)

    def _mapped(self, vectors: Iterator[Any], endian: Endian, montgomery: bool, deadline_s: float) -> Iterator[Point]:
        under_way: deque[Sent] = deque()
        for group in _groups(self._all_read(vectors, endian, montgomery), 32 * max(1, self._size)):
            with self._using():
                under_way.append(self._fly(group, deadline_s))
                answers = self._oldest(under_way, FLIGHTS)
            yield from answers
        while under_way:
            with self._using():
                answers = self._oldest(under_way, 1)
            yield from answers

    def _all_read(self, vectors: Iterator[Any], endian: Endian, montgomery: bool) -> Iterator[Limbs | Named]:
        for one in vectors:
            with self._using():
                read = self._read(one, endian, montgomery)
            yield read

    def _oldest(self, under_way: deque[Sent], most: int) -> list[Point]:
        """What is finished from the front on, and more until fewer than `most` are under way."""
        answers: list[Point] = []
        while under_way and (len(under_way) >= most or under_way[0].flight.done()):
            answers += self._finish(under_way.popleft())
        return answers

    def _read(self, scalars: Any, endian: Endian, montgomery: bool) -> Limbs | Named:
        """Limbs that are sent, or the description of what workers read."""
        reference = self._crew.connection.ray.ObjectRef
        if isinstance(scalars, ScalarsFile):
            return scalars
        if isinstance(scalars, Scalars):
            require_same_length(self._size, len(scalars))
            return ScalarsFile.of(scalars)
        if isinstance(scalars, str | os.PathLike):
            return ScalarsFile.of(scalars)
        if isinstance(scalars, reference):
            return [ScalarsObject((scalars,), whole=True)] * len(self._shards)
        if isinstance(scalars, list | tuple) and scalars and isinstance(scalars[0], reference):
            if len(scalars) != len(self._shards):
                raise BadInput(f"{len(scalars)} objects for {len(self._shards)} shards", cure="give one per shard")
            return [ScalarsObject((one,), whole=False) for one in scalars]
        limbs = read_scalars(scalars, endian=endian, montgomery=montgomery)
        require_same_length(self._size, len(limbs))
        return limbs

    def _fly(self, group: Sequence[Any], deadline_s: float) -> Sent:
        """Sends one group: per shard a request, and with `verify` another about it to the next worker."""
        job = f"{self._label}:{next(self._jobs)}"
        weights = draw_weights() if self.verify else ()
        flight = Flight(self._crew, deadline_s, self._patience)
        for at, shard in enumerate(self._shards):
            if not len(shard):
                continue
            request, limbs = self._request(job, shard, at, group)
            if not self.verify:
                flight.add(Task(request, at, limbs))
                continue
            other = (at + 1) % len(self._crew)
            flight.add(Task(replace(request, way="limbs"), at, limbs, avoid={other}))
            flight.add(Task(replace(request, way="check", weights=weights), other, limbs, avoid={at}))
        return Sent(flight, len(group), weights, deadline_s)

    def _request(self, job: str, shard: Shard, at: int, group: Sequence[Any]) -> tuple[Request, Any]:
        if isinstance(group[0], np.ndarray):
            parts = [one[shard.start : shard.stop] for one in group]
            limbs: Any = parts[0][None] if len(parts) == 1 else np.stack(parts)
            request = Request(job, shard, len(group), digest_of(limbs))
            return request, self._crew.put(limbs) if limbs.nbytes > INLINE_BYTES else limbs
        named = tuple(one if isinstance(one, ScalarsFile) else one[at] for one in group)
        return Request(job, shard, len(group), " ".join(one.identity for one in named), parts=named), None

    def _finish(self, sent: Sent) -> list[Point]:
        tasks = sent.flight.result()
        if not self.verify:
            shares = [task.points for task in tasks]
        else:
            shares = [self._verified(*pair, sent) for pair in zip(tasks[::2], tasks[1::2], strict=True)]
        return [sum((share[at] for share in shares), Point.infinity()) for at in range(sent.vectors)]

    def _verified(self, main: Task, check: Task, sent: Sent) -> list[Point]:
        """A shard's sums, from limb sums that pass the second worker's check; a third decides if they do not."""
        points = main.points
        if not agree(points, check.points, sent.weights):
            third = self._crew.extra()
            try:
                again = Flight(self._crew, sent.deadline_s, self._patience)
                again.add(Task(main.request, -1, main.limbs, outside=third))
                points = again.result()[0].points
            finally:
                self._crew.dismiss(third)
            liar = self._liar(main, check, points == main.points, agree(points, check.points, sent.weights))
            self._crew.replace(liar, f"it lied about {main.request.shard}")
        return [joined(limbs) for limbs in by_vector(points)]

    def _liar(self, main: Task, check: Task, as_main: bool, as_check: bool) -> Member:
        """Who the third worker contradicts."""
        assert main.answered_by is not None and check.answered_by is not None
        if as_main == as_check:
            raise WorkerLies(
                f"{main.answered_by}, {check.answered_by} and a third all disagree about {main.request.shard}",
                cure="see that they read the same file, and check their memory",
            )
        return check.answered_by if as_main else main.answered_by

    def rebalance(self, shards: Sequence[int] | None = None) -> list[int]:
        """Cuts the points anew, to these sizes or by the speeds that the workers have shown, and says the sizes. What
        moved is loaded by the next sum.
        """
        self._crew.require_open()
        self._shards = self._cut(self._shards[0].source, shards, self._workers)
        return self.shards

    def describe(self) -> Description:
        """Who holds what."""
        members = self._crew.members()
        rows = [
            Row(
                worker=member.index,
                host=member.hello.host,
                pid=member.hello.pid,
                start=shard.start,
                stop=shard.stop,
                points_per_second=member.points_per_second,
                sums=member.sums,
                losses=member.losses,
            )
            for member, shard in zip(members, self._shards, strict=True)
        ]
        return Description(self.address, self._size, self.verify, tuple(rows), tuple(self.events))

    @contextmanager
    def _using(self) -> Iterator[None]:
        """A call under way: Ray is not taken from under it."""
        self._crew.require_open()
        with self._gate:
            self._active += 1
        self._mine.calls = getattr(self._mine, "calls", 0) + 1
        try:
            yield
        finally:
            self._mine.calls -= 1
            with self._gate:
                self._active -= 1
                self._gate.notify_all()
                last = self._crew.is_closed and self._active == 0
            if last:
                self._stack.close()

    def close(self) -> None:
        """Ends the workers, and the Ray if this started it. Calls under way in other threads are BadInput.

        It waits for those a little, never for calls of its own thread, as in a signal handler: the last of them ends
        what is left.
        """
        self._crew.close()
        if not self._crew.connection.is_own_process:
            return
        own = getattr(self._mine, "calls", 0)
        with self._gate:
            self._gate.wait_for(lambda: self._active <= own, timeout=CLOSE_S)
            idle = self._active == 0
        if idle:
            self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _file_of(points: Any, **options: Any) -> PointsFile | None:
    """The description of a file; None of points in memory."""
    if isinstance(points, PointsFile):
        return points
    if isinstance(points, str | os.PathLike):
        return PointsFile.of(points, **options)
    return PointsFile.of(points) if is_file(points, "points") else None


def _places(nodes: Sequence[Node], workers: int | None, threads: int | None, *, started: bool) -> tuple[int, int]:
    """How many workers, and threads of each."""
    cpus = int(sum(node.cpus for node in nodes))
    if workers is None:
        workers = cpus if started else len(nodes)
    if threads is None:
        threads = max(1, (os.cpu_count() or 1 if started else cpus) // workers)
    if threads < 1:
        raise BadInput(f"{threads} threads", cure="ask for at least one")
    return max(1, workers), threads


def _groups(read: Iterator[Limbs | Named], vector_bytes: int) -> Iterator[list[Limbs | Named]]:
    """What one request carries: more and more small vectors, never what comes slowly."""
    most, limit = max(1, min(GROUP_VECTORS, GROUP_BYTES // vector_bytes)), 1
    group: list[Limbs | Named] = []
    began = time.monotonic()
    for one in read:
        if group and isinstance(one, np.ndarray) != isinstance(group[0], np.ndarray):
            yield group
            group = []
        group.append(one)
        if len(group) >= limit or time.monotonic() - began > GROUP_WAIT_S:
            yield group
            group, limit, began = [], min(most, 2 * limit), time.monotonic()
    if group:
        yield group
