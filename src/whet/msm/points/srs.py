"""`Srs`: a reference string that stays in its file until it is used, and commitments to it."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from itertools import groupby
from typing import Any

from whet._native import curve
from whet.errors import BadInput
from whet.msm.api import Engine
from whet.msm.point import Endian, Point
from whet.msm.points.files import RecordFile
from whet.msm.validate import Limbs, ScalarsLike, read_scalars


class Srs(RecordFile):
    """A file of points: rows of 64 bytes, x and y little-endian and canonical, infinity as zeros.

    The first commitment prepares all points of the view (`prepare` does it at a time of your choosing). For a file that
    does not fit into memory use `msm_from_files`, which keeps nothing.
    """

    kind = "points"
    columns = 8

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._preparing = threading.Lock()
        self._engine: Engine | None = None

    @staticmethod
    def _to_canonical(limbs: Limbs) -> Limbs:
        return curve.write_points(limbs)  # type: ignore[no-any-return]

    def prepare(self, *, variant: str = "auto", threads: int | None = None, memory_budget: int | None = None) -> Engine:
        """The engine of these points, made once; later calls return the same one. Closed with the file.

        Within a memory budget that the prepared points would break, each commitment reads the file again, in pieces.
        """
        with self._preparing:
            if self._engine is None and memory_budget is not None:
                self._engine = Engine.streaming(self, memory_budget=memory_budget, variant=variant, threads=threads)
            elif self._engine is None:
                # The reader has checked the points as far as was asked for.
                self._engine = Engine(self.limbs(), montgomery=True, check=False, variant=variant, threads=threads)
            return self._engine

    def commit(
        self, scalars: ScalarsLike, *, offset: int = 0, endian: Endian = "little", montgomery: bool = False
    ) -> Point:
        """sum scalars[i] * point[offset + i]. There may be fewer scalars than points."""
        return self.commit_many([scalars], offset=offset, endian=endian, montgomery=montgomery)[0]

    def commit_many(
        self, vectors: Iterable[ScalarsLike], *, offset: int = 0, endian: Endian = "little", montgomery: bool = False
    ) -> list[Point]:
        """One commitment per vector. Vectors of one length that follow each other are summed together."""
        limbs = [read_scalars(scalars, endian=endian, montgomery=montgomery) for scalars in vectors]
        for one in limbs:
            if offset < 0 or offset + len(one) > len(self):
                raise BadInput(
                    f"{len(one)} scalars from point {offset} on, but {len(self)} points", cure="ask for less"
                )
        engine = self.prepare()
        together = (list(group) for _, group in groupby(limbs, key=len))
        return [point for group in together for point in engine.compute_batch(group, offset=offset, size=len(group[0]))]

    def close(self) -> None:
        with self._preparing:
            if self._engine is not None:
                self._engine.close()
        super().close()
