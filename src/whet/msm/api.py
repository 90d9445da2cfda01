"""S = sum s_i P_i for callers: `msm` for one sum, `Engine` for fixed points and many.

Variable time: the duration depends on the scalars. Do not use it on secrets that an attacker can time.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from whet.errors import BadInput, Unsupported
from whet.msm.point import Endian, Point
from whet.msm.validate import Limbs, PointsLike, ScalarsLike, read_points, read_scalars, require_same_length
from whet.msm.variants import Prepared, choose, prepare


def msm(
    points: PointsLike,
    scalars: ScalarsLike,
    *,
    endian: Endian = "little",
    points_montgomery: bool = False,
    scalars_montgomery: bool = False,
    check: bool = True,
    variant: str = "auto",
    threads: int | None = None,
) -> Point:
    """The sum of scalars[i] * points[i]; infinity for none.

    Scalars are any integers below 2^256 and count modulo r. Points may be infinity, repeated or opposite.
    `check=False` skips the curve equation for points that are known to be good; the answer for others is undefined.
    """
    plain = read_scalars(scalars, endian=endian, montgomery=scalars_montgomery)
    with Engine(
        points, endian=endian, montgomery=points_montgomery, check=check, variant=variant, threads=threads
    ) as engine:
        return engine.compute(plain)


class Engine:
    """Points prepared once, such as an SRS; call it with scalars. Safe to share between threads."""

    def __init__(
        self,
        points: PointsLike,
        *,
        endian: Endian = "little",
        montgomery: bool = False,
        check: bool = True,
        variant: str = "auto",
        threads: int | None = None,
        device: str = "auto",
    ) -> None:
        if device not in ("auto", "cpu"):
            raise Unsupported(f"msm has no device {device!r}", cure="devices: auto, cpu")
        if threads is not None and threads < 1:
            raise BadInput(f"threads={threads} is not a number of threads", cure="give 1 or more, or leave it out")
        self.variant = choose(variant)
        limbs = read_points(points, endian=endian, montgomery=montgomery, check=check)
        self._size = len(limbs)
        self._prepared: Prepared | None = prepare(self.variant, limbs, threads)
        self._closing = threading.Lock()

    def __len__(self) -> int:
        return self._size

    def __call__(self, scalars: ScalarsLike, *, endian: Endian = "little", montgomery: bool = False) -> Point:
        """The sum over all points; as many scalars as points."""
        return self.compute(read_scalars(scalars, endian=endian, montgomery=montgomery))

    def batch(
        self, vectors: Iterable[ScalarsLike], *, endian: Endian = "little", montgomery: bool = False
    ) -> list[Point]:
        """One sum per vector of scalars."""
        return [self(scalars, endian=endian, montgomery=montgomery) for scalars in vectors]

    def view(self, offset: int = 0, size: int | None = None) -> View:
        """The engine restricted to `size` points from `offset` on; to the end by default. Copies nothing."""
        size = self._size - offset if size is None else size
        if offset < 0 or size < 0 or offset + size > self._size:
            raise BadInput(
                f"points {offset} to {offset + size} are outside the {self._size} prepared", cure="ask for less"
            )
        return View(self, offset, size)

    def compute(self, limbs: Limbs, *, offset: int = 0, size: int | None = None) -> Point:
        """The same on scalars that already are (m, 4) plain limbs, against `size` points from `offset` on."""
        require_same_length(self._size if size is None else size, len(limbs))
        prepared = self._prepared
        if prepared is None:
            raise BadInput("the engine is closed", cure="make a new one")
        return Point.from_bytes(prepared.compute(limbs, offset).limbs.tobytes())

    def close(self) -> None:
        """Releases the prepared points. Calls after this are BadInput; closing twice is fine."""
        with self._closing:
            prepared, self._prepared = self._prepared, None
        if prepared is not None:
            prepared.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class View:
    """A part of an engine's points, called like the engine itself. Valid while the engine is open."""

    def __init__(self, engine: Engine, offset: int, size: int) -> None:
        self._engine = engine
        self._offset = offset
        self._size = size

    def __len__(self) -> int:
        return self._size

    def __call__(self, scalars: ScalarsLike, *, endian: Endian = "little", montgomery: bool = False) -> Point:
        limbs = read_scalars(scalars, endian=endian, montgomery=montgomery)
        return self._engine.compute(limbs, offset=self._offset, size=self._size)

    def batch(
        self, vectors: Iterable[ScalarsLike], *, endian: Endian = "little", montgomery: bool = False
    ) -> list[Point]:
        return [self(scalars, endian=endian, montgomery=montgomery) for scalars in vectors]
