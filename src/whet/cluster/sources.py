"""Where a shard's points and a request's scalars come from: descriptions that are sent, and read where they are used.

A file is named, not opened: every worker opens it under the same path. Points that the caller has in memory are one
object of Ray's store per shard.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from whet.errors import BadInput
from whet.msm.points import Scalars, Srs
from whet.msm.points.files import RECORDS_PER_CHUNK, Check
from whet.msm.points.prepared import is_prepared
from whet.msm.points.srs import MOST_PREPARED
from whet.msm.validate import Limbs, read_scalars


@dataclass(frozen=True)
class PointsFile:
    """A file of points, as `Srs.open` takes it, or one that `Engine.save` wrote."""

    path: str
    format: str = "auto"
    section: str | None = None
    offset: int = 0
    n: int | None = None
    check: Check = "on-curve"

    @classmethod
    def of(cls, file: Any, **options: Any) -> PointsFile:
        if isinstance(file, Srs):
            return cls(_absolute(file.path), file.format, file.section, file.offset, len(file), file.check)
        return cls(_absolute(file), **options)

    @property
    def is_prepared(self) -> bool:
        return is_prepared(self.path, self.format)

    def open(self) -> Srs:
        return Srs.open(self.path, self.format, section=self.section, offset=self.offset, n=self.n, check=self.check)


@dataclass(frozen=True)
class PointsObject:
    """Limbs in Montgomery form, checked by the head, as objects of Ray's store that follow each other.

    `refs` are kept in a tuple: there Ray sends the name of an object, not the points. `firsts` says where each begins.
    """

    refs: tuple[Any, ...]
    firsts: tuple[int, ...]

    def limbs(self, start: int, stop: int) -> Limbs:
        import ray

        ends = (*self.firsts[1:], stop)
        parts = [
            ray.get(ref)[max(start, first) - first : min(stop, end) - first]
            for ref, first, end in zip(self.refs, self.firsts, ends, strict=True)
            if first < stop and start < end
        ]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)


@dataclass(frozen=True)
class Shard:
    """Points `start` to `stop` of all. `key` names it in every request."""

    key: str
    start: int
    stop: int
    source: PointsFile | PointsObject

    def __len__(self) -> int:
        return self.stop - self.start

    def __str__(self) -> str:
        return f"points {self.start} to {self.stop}"


@dataclass(frozen=True)
class ScalarsFile:
    """A file of scalars that every worker reads for itself, as `Scalars.open` takes it."""

    path: str
    format: str
    section: str | None = None
    offset: int = 0

    @classmethod
    def of(cls, file: Any, *, format: str = "auto") -> ScalarsFile:
        if isinstance(file, Scalars):
            return cls(_absolute(file.path), file.format, file.section, file.offset)
        return cls(_absolute(file), format)

    def limbs(self, shard: Shard) -> Limbs:
        with Scalars.open(
            self.path, self.format, section=self.section, offset=self.offset + shard.start, n=len(shard)
        ) as opened:
            return opened.limbs()

    @property
    def identity(self) -> str:
        return f"{self.path} {self.format} {self.section} {self.offset}"


@dataclass(frozen=True)
class ScalarsObject:
    """An array in Ray's store that the workers fetch: all scalars, or those of one shard alone."""

    refs: tuple[Any, ...]
    whole: bool

    def limbs(self, shard: Shard) -> Limbs:
        import ray

        limbs = read_scalars(ray.get(self.refs[0]))
        if self.whole and len(limbs) < shard.stop:
            raise BadInput(f"{len(limbs)} scalars, but {shard}", cure="give as many scalars as points")
        limbs = limbs[shard.start : shard.stop] if self.whole else limbs
        if len(limbs) != len(shard):
            raise BadInput(f"{len(limbs)} scalars for {shard}", cure="give one object per shard, each as long as it")
        return limbs

    @property
    def identity(self) -> str:
        return " ".join(ref.hex() for ref in self.refs)


def read_points_of(shard: Shard, told: Callable[[int], None]) -> Iterator[Limbs]:
    """The shard's points, an engine's worth at a time; `told` hears how many more were read."""
    for begin in range(shard.start, shard.stop, MOST_PREPARED):
        end = min(begin + MOST_PREPARED, shard.stop)
        if isinstance(shard.source, PointsFile):
            with shard.source.open() as opened:
                room = np.empty((end - begin, 8), np.uint64)
                for first in range(begin, end, RECORDS_PER_CHUNK):
                    last = min(first + RECORDS_PER_CHUNK, end)
                    room[first - begin : last - begin] = opened.limbs(first, last)
                    told(last - first)
            yield room
        else:
            limbs = shard.source.limbs(begin, end)
            told(end - begin)
            yield limbs


def count_points(source: PointsFile) -> int:
    """How many points a file holds, from its header."""
    if source.is_prepared:
        from whet.msm import Engine

        with Engine.open(source.path, verify=False, copy=False, threads=1) as engine:
            available = len(engine)
        if source.section is not None or source.offset > available or (source.n or 0) > available - source.offset:
            raise BadInput(f"{source.path} holds {available} points, not those asked for", cure="lower offset or n")
        return available - source.offset if source.n is None else source.n
    with source.open() as opened:
        return len(opened)


def _absolute(path: str | bytes | os.PathLike[str]) -> str:
    return str(Path(os.fsdecode(path)).absolute())
