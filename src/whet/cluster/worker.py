"""What runs inside a Ray actor: shards of points, each in its engines, and requests about them.

A request names its shard completely, so any worker can answer any request: points that are not there are loaded first.
That is all there is to a restart, to a shard taken over and to a check by a second worker. Calls run one at a time;
`loaded` and `status` have threads of their own.
"""

from __future__ import annotations

import os
import socket
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from whet.cluster.check import weighted
from whet.cluster.connection import versions
from whet.cluster.messages import LIMBS, Fault, Hello, Partial, Request, digest_of
from whet.cluster.sources import PointsFile, Shard, count_points, read_points_of
from whet.errors import BadInput, WhetError
from whet.msm import Engine, Point
from whet.msm.inputs import generator, points_from_logs, uniform
from whet.msm.validate import Limbs

RESIDENT = 2  # shards: its own, and one of another worker
ANSWERS_KEPT = 64
MEASURED_POINTS = 1 << 11


class Resident:
    """One shard's points, prepared."""

    def __init__(self, shard: Shard, options: Mapping[str, Any], told: Any) -> None:
        self.parts: list[tuple[Engine, int, int]] = []  # engine, its first point, how many
        if isinstance(shard.source, PointsFile) and len(shard) and shard.source.is_prepared:
            chosen = {name: options[name] for name in ("backend", "threads") if name in options}
            check: Literal["none", "on-curve"] = "none" if shard.source.check == "none" else "on-curve"
            # Read, not mapped: a file that is cut short later must not end the worker.
            engine = Engine.open(shard.source.path, check=check, **chosen)
            self.parts.append((engine, shard.source.offset + shard.start, len(shard)))
            told(len(shard))
            return
        for limbs in read_points_of(shard, told):
            self.parts.append((Engine(limbs, montgomery=True, check=False, **options), 0, len(limbs)))

    def sum(self, limbs: Limbs) -> Point:
        total, begin = Point.infinity(), 0
        for engine, first, size in self.parts:
            total = total + engine.compute(limbs[begin : begin + size], offset=first, size=size)
            begin += size
        return total

    def close(self) -> None:
        for engine, _, _ in self.parts:
            engine.close()


class Worker:
    """The state of one actor. `options` are those of its engines."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = dict(options)
        self._resident: OrderedDict[str, tuple[Shard, Resident]] = OrderedDict()
        self._answers: OrderedDict[tuple[Any, ...], Partial] = OrderedDict()
        self._loading = 0
        self._requests = 0

    def hello(self) -> Hello:
        return Hello(socket.gethostname(), _node(), os.getpid(), versions(), self._speed())

    def _speed(self) -> float:
        """Points a second over a few points: enough to tell machines apart before a shard is cut."""
        rng = generator(1, "a worker's speed")
        scalars = uniform(rng, MEASURED_POINTS)
        with Engine(
            points_from_logs(uniform(rng, MEASURED_POINTS)), montgomery=True, check=False, **self._options
        ) as engine:
            engine.compute(scalars)
            began = time.perf_counter()
            engine.compute(scalars)
            return MEASURED_POINTS / (time.perf_counter() - began)

    def count(self, source: PointsFile) -> int | Fault:
        try:
            return count_points(source)
        except WhetError as error:
            return _fault("points", error)

    def loaded(self) -> int:
        """Points read since the worker began; asked while it loads."""
        return self._loading

    def compute(self, request: Request, limbs: Limbs | None = None) -> Partial | Fault:
        """The answer to a request, or the one that it got before."""
        self._requests += 1
        if (kept := self._answers.get(request.key)) is not None:
            return replace(kept, again=True)
        answer = self._answer(request, limbs)
        if isinstance(answer, Partial):
            self._answers[request.key] = answer
            while len(self._answers) > ANSWERS_KEPT:
                self._answers.popitem(last=False)
        return answer

    def _answer(self, request: Request, limbs: Limbs | None) -> Partial | Fault:
        began = time.perf_counter()
        doing = "points"
        try:
            resident = self._points_of(request.shard)
            loaded = time.perf_counter()
            doing = "scalars"
            vectors = self._vectors(request, limbs)
            ready = time.perf_counter()
            doing = "input"
            answers = [resident.sum(one) for vector in vectors for one in _asked(request, vector)]
        except (WhetError, MemoryError) as error:
            return _fault(doing, error)
        points = b"".join(answer.to_bytes() for answer in answers)
        return Partial(points, seconds=time.perf_counter() - ready, load_seconds=loaded - began, pid=os.getpid())

    def status(self) -> dict[str, Any]:
        return {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "shards": [(shard.start, shard.stop) for shard, _ in list(self._resident.values())],
            "requests": self._requests,
            "threads": self._options.get("threads"),
        }

    def _vectors(self, request: Request, limbs: Limbs | None) -> list[Limbs]:
        if limbs is None:
            return [part.limbs(request.shard) for part in request.parts]
        if digest_of(limbs) != request.digest:
            raise BadInput("the scalars that arrived are not those that were sent", cure="try again; check the memory")
        return list(limbs)

    def _points_of(self, shard: Shard) -> Resident:
        if shard.key in self._resident:
            self._resident.move_to_end(shard.key)
            return self._resident[shard.key][1]
        while len(self._resident) >= RESIDENT:
            self._resident.popitem(last=False)[1][1].close()
        made = Resident(shard, self._options, self._tell)
        self._resident[shard.key] = (shard, made)
        return made

    def _tell(self, points: int) -> None:
        self._loading += points


def _asked(request: Request, vector: Limbs) -> list[Limbs]:
    """The scalars whose sums a request asks for."""
    if request.way == "limbs":
        return [_alone(vector, limb) for limb in range(LIMBS)]
    return [weighted(vector, request.weights)] if request.way == "check" else [vector]


def _alone(vector: Limbs, limb: int) -> Limbs:
    short = np.zeros_like(vector)
    short[:, 0] = vector[:, limb]
    return short


def _fault(kind: str, error: BaseException) -> Fault:
    if isinstance(error, WhetError):
        return Fault(kind, error.cause, error.cure, getattr(error, "index", None))
    return Fault("memory", "a worker has no memory left for its shard", "use more workers, or smaller shards")


def _node() -> str:
    import ray

    return str(ray.get_runtime_context().get_node_id())
