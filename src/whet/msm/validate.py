"""From whatever the caller has to the arrays that the native core reads: checked, aligned, contiguous, never modified.

Accepted for points: uint8 arrays (n, 64) or (n, 2, 32), anything with a buffer of n * 64 bytes, uint64 arrays (n, 8)
or (n, 2, 4) of little-endian limbs, and sequences of `Point`, (x, y) or None (infinity). For scalars: the same with 32
bytes and 4 limbs, sequences of integers, arrays (n,) of objects that are integers or of int64, int32, int16, uint32 or
uint16, one scalar each, and files opened by `Scalars.open`. Field elements of other libraries count as integers if
they have `__int__`. An array that is not contiguous or not aligned is copied. Anything else is BadInput with the index
of the first bad element.
"""

from __future__ import annotations

import numbers
import operator
from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from whet._native import curve
from whet._native import msm as native
from whet._native.field import fr
from whet.errors import BadInput
from whet.msm.options import read_flag, shown
from whet.msm.point import POINT_BYTES, SCALAR_BYTES, Endian, P, Point

Limbs: TypeAlias = npt.NDArray[np.uint64]


@runtime_checkable
class RecordSource(Protocol):
    """Points in Montgomery form or plain scalars that are made when asked for, such as those of a file."""

    def __len__(self) -> int: ...

    def limbs(self, start: int = 0, stop: int | None = None) -> Limbs: ...


PointsLike: TypeAlias = (
    npt.NDArray[Any] | bytes | bytearray | memoryview | Sequence["Point | tuple[int, int] | None"] | RecordSource
)
ScalarsLike: TypeAlias = npt.NDArray[Any] | bytes | bytearray | memoryview | Sequence[int] | RecordSource
# One integer each. uint8 and int8 are bytes, uint64 are limbs.
INTEGER_TYPES = ("int16", "int32", "int64", "uint16", "uint32")

# Reasons of whet._native.curve, in its order.
_DEFECTS = (
    ("", ""),
    ("has a coordinate that is not below p", "reduce coordinates modulo p, or check the endianness and form"),
    ("is not on the curve y^2 = x^3 + 3", "check the endianness, the order x then y, and the Montgomery flag"),
    ("has an x with no point above it", "check the endianness and the flag bits"),
)


def read_points(
    points: PointsLike, *, endian: Endian = "little", montgomery: bool = False, check: bool = True, first: int = 0
) -> Limbs:
    """(n, 8) limbs in Montgomery form. `check=False` leaves out the curve equation, not the range of coordinates.

    `first` is what the caller calls point 0 of these: complaints count from there.
    """
    montgomery, check = read_flag(montgomery, "montgomery"), read_flag(check, "check")
    try:
        raw = _limbs(points, "points", POINT_BYTES, endian, lambda given: _point_limbs(given, first))
    except BadInput as defect:
        if defect.index is not None and defect.index > first:  # a point off the curve before it is the first bad one
            before = _first(points, defect.index - first, POINT_BYTES)
            read_points(before, endian=endian, montgomery=montgomery, check=check, first=first)
        raise
    limbs, index, reason = curve.read_points(raw, montgomery, check)
    refuse_defect(first + index, reason)
    return limbs  # type: ignore[no-any-return]


def point_rows(points: PointsLike) -> npt.NDArray[Any] | Sequence[Point | tuple[int, int] | None]:
    """The same points as something that can be cut by index, without a copy where that is possible."""
    if isinstance(points, np.ndarray):
        return _array_rows(points, "points", POINT_BYTES)
    view = _byte_view(points, "points", POINT_BYTES)
    if view is not None:
        return _byte_array(_flat_bytes(view), "points", POINT_BYTES)
    return points  # type: ignore[return-value]


def point_count(points: PointsLike) -> int:
    """How many there are; none of what is no sequence of points, which reading it explains."""
    try:
        return len(points) if is_file(points, "points") else len(point_rows(points))
    except TypeError:
        return 0


def plain_limbs(limbs: Any) -> Limbs:
    """(n, 4) limbs that are said to be there already, contiguous and aligned. Floats are not limbs."""
    if not isinstance(limbs, np.ndarray) or limbs.dtype != np.uint64:
        kind = f"an array of {limbs.dtype}" if isinstance(limbs, np.ndarray) else f"a {type(limbs).__name__}"
        raise BadInput(
            f"scalars as plain limbs are {kind}", cure="give uint64 (n, 4), or call the engine, which converts"
        )
    return _limb_array(limbs, "scalars", SCALAR_BYTES // 8, "little")


def read_scalars(
    scalars: ScalarsLike, *, endian: Endian = "little", montgomery: bool = False, points: int | None = None
) -> Limbs:
    """(n, 4) plain limbs. Any integers below 2^256; in Montgomery form they must be below r.

    Where the number of `points` is known, more scalars than that are refused before they take memory.
    """
    montgomery = read_flag(montgomery, "montgomery")
    if points is not None and (given := scalar_count(scalars)) > points:
        require_same_length(points, given)
    if is_file(scalars, "scalars"):
        _require_no_flags(endian, montgomery)
        return scalars.limbs()  # type: ignore[union-attr]
    if isinstance(scalars, np.ndarray) and scalars.ndim == 1:
        scalars = _integer_array(scalars)
    try:
        limbs = _limbs(scalars, "scalars", SCALAR_BYTES, endian, _scalar_limbs)
    except BadInput as defect:
        if defect.index and montgomery:  # one that is not below r before it is the first bad one
            read_scalars(_first(scalars, defect.index, SCALAR_BYTES), endian=endian, montgomery=montgomery)
        raise
    if not montgomery:
        return limbs
    index = fr.first_not_canonical(limbs)
    if index >= 0:
        raise BadInput(
            f"scalar {index} is not below r, as the Montgomery form must be",
            cure="reduce it, or leave out the Montgomery flag",
            index=index,
        )
    return fr.from_montgomery(limbs)  # type: ignore[no-any-return]


def scalar_count(scalars: Any) -> int:
    """How many there seem to be, without a look at any; 0 where only reading tells."""
    if isinstance(scalars, bytes | bytearray | memoryview):
        return memoryview(scalars).nbytes // SCALAR_BYTES
    if isinstance(scalars, np.ndarray):
        is_flat = scalars.ndim == 1 and scalars.dtype == np.uint8
        return scalars.size // SCALAR_BYTES if is_flat else len(scalars) if scalars.ndim else 0
    return len(scalars) if isinstance(scalars, Sequence | RecordSource) else 0


def is_file(data: Any, kind: str) -> bool:
    """Whether it is an open file of points, or of scalars. One of the other kind is refused."""
    if isinstance(data, np.ndarray | Sequence) or not isinstance(data, RecordSource):
        return False
    if getattr(data, "kind", kind) != kind:
        raise BadInput(f"a file of {getattr(data, 'kind', '')} in the place of {kind}", cure=f"give a file of {kind}")
    return True


def file_limbs(points: Any, endian: str, montgomery: bool) -> Limbs:
    """All points of an open file, which its reader has checked as far as was asked for."""
    _require_no_flags(endian, montgomery)
    return points.limbs()  # type: ignore[no-any-return]


def _require_no_flags(endian: str, montgomery: bool) -> None:
    if endian != "little" or montgomery:
        raise BadInput("a file knows its byte order and form", cure="leave endian and the Montgomery flag out")


def _integer_array(data: npt.NDArray[Any]) -> Any:
    """Integers as numpy has them, (n,): Python's own for objects, limbs for machine integers."""
    if data.dtype == object:
        return data.tolist()
    if data.dtype.name not in INTEGER_TYPES:
        return data
    if (negative := data < 0).any():
        index = int(negative.argmax())
        raise BadInput(f"scalar {index} is negative", cure="reduce it modulo r", index=index)
    limbs = np.zeros((len(data), 4), np.uint64)
    limbs[:, 0] = data
    return limbs


def refuse_defect(index: int, reason: int, *, what: str = "point") -> None:
    """Turns the (index, reason) of the native checks into BadInput; reason 0 passes."""
    if reason != 0:
        cause, cure = _DEFECTS[reason]
        raise BadInput(f"{what} {index} {cause}", cure=cure, index=index)


def require_same_length(points: int, scalars: int) -> None:
    if points != scalars:
        raise BadInput(
            f"{points} points but {scalars} scalars",
            cure="give as many scalars as points; Engine.view takes a part of the points",
            index=min(points, scalars),
        )


def _first(data: Any, count: int, width: int) -> Any:
    """The first `count` elements of a sequence or of flat bytes."""
    try:
        memoryview(data)
    except TypeError:
        return data[:count]
    return data[: count * width]


def _limbs(data: Any, what: str, width: int, endian: str, encode: Any) -> Limbs:
    if endian not in ("little", "big"):
        raise BadInput(f"endian={endian!r} is not known", cure='write "little" or "big"')
    if isinstance(data, np.ndarray):
        if data.dtype == np.uint64:
            return _limb_array(data, what, width // 8, endian)
        return _swap(_byte_array(data, what, width), width, endian)
    view = _byte_view(data, what, width)
    if view is None:
        return encode(data)  # type: ignore[no-any-return]
    return _swap(_byte_array(_flat_bytes(view), what, width), width, endian)


def _array_rows(data: npt.NDArray[Any], what: str, width: int) -> npt.NDArray[Any]:
    """One row a record; nothing is copied."""
    if data.dtype != np.uint64:
        return _byte_array(data, what, width)
    rows = _joined(data, width // 8)
    if rows.ndim != 2 or rows.shape[1] != width // 8:
        raise BadInput(f"{what} as uint64 have shape {data.shape}", cure=_shapes(width // 8, 8))
    return rows


def _shapes(columns: int, item_bytes: int) -> str:
    is_point = columns * item_bytes == POINT_BYTES
    return f"the shape must be (n, {columns})" + (f", (n, 2, {columns // 2})" if is_point else "")


def _joined(data: npt.NDArray[Any], columns: int) -> npt.NDArray[Any]:
    """x and y in rows of their own, as files may have them, become one row."""
    is_split = columns * data.itemsize == POINT_BYTES and data.ndim == 3 and data.shape[1:] == (2, columns // 2)
    return data.reshape(-1, columns) if is_split else data


def _byte_view(data: Any, what: str, width: int) -> memoryview | None:
    """What has a buffer of bytes, as that; None for a sequence of objects. Anything else is refused."""
    if isinstance(data, str):
        raise BadInput(f"{what} are text", cure=f"give {width} bytes each, or integers")
    try:
        view = memoryview(data)
    except TypeError:
        if isinstance(data, Sequence):
            return None
        raise BadInput(
            f"{what} of type {type(data).__name__} cannot be read",
            cure="give a numpy array, a buffer of bytes, or a sequence of integers",
        ) from None
    if view.format not in ("B", "b", "c"):
        raise BadInput(f"{what} are a buffer of format {view.format!r}, not of bytes", cure="give bytes")
    return view


def _flat_bytes(view: memoryview) -> npt.NDArray[np.uint8]:
    return np.frombuffer(view if view.c_contiguous else view.tobytes(), np.uint8)


def _limb_array(data: npt.NDArray[Any], what: str, columns: int, endian: str) -> Limbs:
    data = _array_rows(data, what, 8 * columns)
    if endian != "little":
        raise BadInput(
            f"{what} are uint64 limbs, which have no byte order to choose",
            cure="limbs go from low to high; leave endian out, or give bytes",
        )
    return np.require(data, np.uint64, ["C", "A"])


def _byte_array(data: npt.NDArray[Any], what: str, width: int) -> npt.NDArray[np.uint8]:
    if data.dtype != np.uint8:
        raise BadInput(f"{what} have dtype {data.dtype}", cure="give uint8 bytes or uint64 limbs in native byte order")
    if data.ndim == 1:
        if data.size % width:
            raise BadInput(
                f"{what}: {data.size} bytes are not a multiple of {width}; element {data.size // width} is cut short",
                cure=f"give {width} bytes each",
                index=data.size // width,
            )
        return data.reshape(-1, width)
    rows = _joined(data, width)
    if rows.ndim != 2 or rows.shape[1] != width:
        raise BadInput(f"{what} as uint8 have shape {data.shape}", cure=f"{_shapes(width, 1)} or (n * {width},)")
    return rows


def _swap(data: npt.NDArray[np.uint8], width: int, endian: str) -> Limbs:
    """Rows of 32-byte numbers to little-endian limbs; without a copy where the bytes already are."""
    if endian == "big":
        data = data.reshape(-1, 32)[:, ::-1].reshape(-1, width)
    return np.require(np.ascontiguousarray(data).view(np.uint64), requirements=["C", "A"])


def _point_limbs(points: Sequence[Any], first: int) -> Limbs:
    limbs, converted = native.pairs(points)
    if converted == len(limbs):
        return limbs  # type: ignore[no-any-return]
    # Points as objects, or something to complain about.
    encoded = b"".join(_encode_point(index, point) for index, point in enumerate(points, first))
    return np.frombuffer(encoded, np.uint64).reshape(-1, 8)


def _encode_point(index: int, point: Any) -> bytes:
    if point is None:
        return bytes(POINT_BYTES)
    if isinstance(point, Point):
        pair: Any = (point.x, point.y)
    elif isinstance(point, (tuple, list)) and len(point) == 2:
        pair = point
    else:
        raise BadInput(
            f"point {index} is {shown(point)}, not a pair",
            cure="give (x, y), a Point, or None for infinity",
            index=index,
        )
    coordinates = []
    for name, given in zip("xy", pair, strict=True):
        value = _integer(given, f"{name} of point {index}", index)
        if not 0 <= value < P:
            raise BadInput(
                f"{name} of point {index} is {'negative' if value < 0 else 'not below p'}",
                cure="reduce coordinates modulo p",
                index=index,
            )
        coordinates.append(value.to_bytes(32, "little"))
    return b"".join(coordinates)


def _scalar_limbs(scalars: Sequence[Any]) -> Limbs:
    limbs, converted = native.integers(scalars)
    if converted == len(limbs):
        return limbs  # type: ignore[no-any-return]
    encoded = []
    for index, given in enumerate(scalars):
        value = _integer(given, f"scalar {index}", index)
        if not 0 <= value < 1 << 256:
            raise BadInput(
                f"scalar {index} is {'negative' if value < 0 else 'not below 2^256'}",
                cure="reduce it modulo r",
                index=index,
            )
        encoded.append(value.to_bytes(32, "little"))
    return np.frombuffer(b"".join(encoded), np.uint64).reshape(-1, 4)


def _integer(given: Any, what: str, index: int) -> int:
    try:
        return operator.index(given)
    except Exception as error:
        reason: Exception | None = None if isinstance(error, TypeError) else error
    # An element of a field, such as py-ecc's FQ. Numbers that are no integers, floats above all, are not rounded.
    if reason is None and hasattr(given, "__int__") and not isinstance(given, numbers.Number | np.generic):
        try:
            return int(given)
        except Exception as error:
            reason = error
    raise BadInput(
        f"{what} is {shown(given)}, a {type(given).__name__} and not an integer",
        cure="give a Python integer",
        index=index,
    ) from reason
