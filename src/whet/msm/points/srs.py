"""`Srs`: a reference string that stays in its file until it is used, and commitments to it."""

from __future__ import annotations

import operator
import threading
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, overload

from whet._native import curve
from whet._native import msm as native
from whet.errors import BadInput
from whet.msm.api import Engine
from whet.msm.options import read_part, shown
from whet.msm.point import Endian, Point
from whet.msm.points.files import RecordFile
from whet.msm.validate import Limbs, ScalarsLike, read_scalars, scalar_count

MOST_PREPARED = int(native.max_points)
POINTS_AT_ONCE = 1 << 10


class Srs(RecordFile):
    """A file of points: rows of 64 bytes, x and y little-endian and canonical, infinity as zeros.

    A commitment reads and prepares the points that it needs, and the next one finds them prepared. `prepare` prepares
    all points of the view at a time of your choosing. For a file that does not fit into memory use `msm_from_files`,
    which keeps nothing.
    """

    kind = "points"
    columns = 8

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._preparing = threading.RLock()  # a signal handler may close while points are prepared
        self._engine: Engine | None = None
        self._part: Engine | None = None  # of the points from _part_first on
        self._part_first = 0

    @staticmethod
    def _to_canonical(limbs: Limbs) -> Limbs:
        return curve.write_points(limbs)  # type: ignore[no-any-return]

    def prepare(
        self,
        *,
        variant: str = "auto",
        threads: int | None = None,
        memory_budget: int | None = None,
        precompute: int | None = None,
    ) -> Engine:
        """The engine of these points, made once; later calls return the same one. Closed with the file.

        Within a memory budget that the prepared points would break, each commitment reads the file again, in pieces; so
        does an engine of more than 2^22 points. `precompute` is that of `Engine`.
        """
        with self._preparing:
            if self._engine is None:
                self._engine = Engine(
                    self, variant=variant, threads=threads, memory_budget=memory_budget, precompute=precompute
                )
                self._part = None
            return self._engine

    def commit(
        self, scalars: ScalarsLike, *, offset: int = 0, endian: Endian = "little", montgomery: bool = False
    ) -> Point:
        """sum scalars[i] * point[offset + i]. There may be fewer scalars than points, and they may be a `Scalars`."""
        return self.commit_many([scalars], offset=offset, endian=endian, montgomery=montgomery)[0]

    def commit_many(
        self, vectors: Iterable[ScalarsLike], *, offset: int = 0, endian: Endian = "little", montgomery: bool = False
    ) -> list[Point]:
        """One commitment per vector. Vectors of one length that follow each other are summed together."""
        if not isinstance(vectors, Iterable):
            raise BadInput(f"vectors of scalars are {shown(vectors)}", cure="give a sequence of them")
        offset, most = read_part(offset, None, len(self))
        limbs = []
        for scalars in vectors:
            if (count := scalar_count(scalars)) <= most:
                limbs.append(read_scalars(scalars, endian=endian, montgomery=montgomery))
                count = len(limbs[-1])
            if count > most:
                raise BadInput(f"{count} scalars from point {offset} on, but {len(self)} points", cure="ask for less")
        longest = max(map(len, limbs), default=0)
        if longest == 0:
            return [Point.infinity()] * len(limbs)
        engine, first = self._engine_of(offset, offset + longest)
        together = (list(group) for _, group in groupby(limbs, key=len))
        return [
            point
            for group in together
            for point in engine.compute_batch(group, offset=offset - first, size=len(group[0]))
        ]

    def _engine_of(self, first: int, last: int) -> tuple[Engine, int]:
        """An engine that has points `first` to `last`, and the point that it begins with."""
        with self._preparing:
            wanted = last - first
            if self._engine is not None or 2 * wanted >= len(self) or wanted > MOST_PREPARED:
                return self.prepare(), 0
            part = self._part
            if part is not None and self._part_first <= first and last <= self._part_first + len(part):
                return part, self._part_first
            begin, end = self._range_with(first, last)
            self._part = Engine(self.limbs(begin, end), montgomery=True, check=False)
            self._part_first = begin
            return self._part, begin

    def _range_with(self, first: int, last: int) -> tuple[int, int]:
        """What to prepare for a commitment to points `first` to `last`: with those that are prepared already, if they
        are near, and then twice as many, so that commitments that grow do not read all of it again each time.
        """
        if self._part is None:
            return first, last
        begin, end = min(first, self._part_first), max(last, self._part_first + len(self._part))
        near = end - begin <= 2 * (last - first + len(self._part))
        if not near or end - begin > MOST_PREPARED:
            return first, last
        return begin, min(max(end, begin + 2 * len(self._part)), begin + MOST_PREPARED, len(self))

    @overload
    def __getitem__(self, index: int) -> Point: ...
    @overload
    def __getitem__(self, index: slice) -> list[Point]: ...
    def __getitem__(self, index: int | slice) -> Point | list[Point]:
        """Points as two Python integers, read when asked for. For many, `read` gives an array."""
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step != 1:
                raise BadInput(f"points in steps of {step}", cure="ask for neighbours, and take every so many of them")
            return [Point.from_bytes(row.tobytes()) for row in self.read(start, max(start, stop))]
        try:
            place = operator.index(index)
        except TypeError:
            raise BadInput(f"point {shown(index)}", cure="give an integer or a slice") from None
        if not -len(self) <= place < len(self):
            raise BadInput(f"point {shown(place)} of {len(self)}", cure="ask for one that is there", index=place)
        place %= len(self)
        return Point.from_bytes(self.read(place, place + 1).tobytes())

    def __iter__(self) -> Iterator[Point]:
        for rows in self.chunks(POINTS_AT_ONCE):
            yield from (Point.from_bytes(row.tobytes()) for row in rows)

    def close(self) -> None:
        """Calls that have begun answer, unless they still have to read."""
        with self._preparing:
            for engine in (self._engine, self._part):
                if engine is not None:
                    engine.close()
        super().close()
