"""Plain arrays of points and scalars to a file, in one piece or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from whet._native import curve
from whet.errors import BadInput, WhetError
from whet.msm.options import system_path
from whet.msm.point import Endian
from whet.msm.validate import Limbs, PointsLike, ScalarsLike, read_points, read_scalars

RECORDS_AT_ONCE = 1 << 16


def write_points(path: str | bytes | os.PathLike[str], points: PointsLike, endian: Endian = "little") -> None:
    """64 bytes a point: x and y, canonical, infinity as zeros. "big" is EIP-196. Takes what `msm` takes; checks all."""
    limbs = read_points(points)
    with _whole_file(path) as file:
        for start in range(0, len(limbs), RECORDS_AT_ONCE):
            file.write(_bytes(curve.write_points(limbs[start : start + RECORDS_AT_ONCE]), endian))


def write_scalars(path: str | bytes | os.PathLike[str], scalars: ScalarsLike, endian: Endian = "little") -> None:
    """32 bytes a scalar, as they are given: nothing is reduced."""
    limbs = read_scalars(scalars)
    with _whole_file(path) as file:
        for start in range(0, len(limbs), RECORDS_AT_ONCE):
            file.write(_bytes(limbs[start : start + RECORDS_AT_ONCE], endian))


def _bytes(limbs: Limbs, endian: Endian) -> bytes:
    if endian not in ("little", "big"):
        raise BadInput(f"endian={endian!r} is not known", cure='write "little" or "big"')
    numbers = limbs.reshape(-1, 4)
    return numbers.tobytes() if endian == "little" else numbers[:, ::-1].byteswap().tobytes()


@contextlib.contextmanager
def _whole_file(path: str | bytes | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A file beside `path` that takes its name when everything is written."""
    target = Path(os.fsdecode(system_path(path)))
    beside = target.with_name(f".{target.name[:80]}-{secrets.token_hex(8)}")
    try:
        with beside.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        beside.replace(target)
    except (OSError, ValueError) as error:
        full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO)
        kind = WhetError if full else BadInput
        raise kind(f"{target} cannot be written: {error}", cure="check the path and the free space") from None
    finally:
        with contextlib.suppress(OSError, ValueError):
            beside.unlink(missing_ok=True)
