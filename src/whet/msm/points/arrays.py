"""Plain arrays: EIP-196 and its byte-order and Montgomery relatives without a header, and numpy `.npy` files.

A `.npy` of points has one row of 64 bytes a point, in C order: (n, 64) or (n, 2, 32) of uint8, or (n, 8) or (n, 2, 4)
of little-endian uint64, least significant limb first; scalars have half of that, (n, 32) or (n, 4). Byte order inside
uint8 rows and Montgomery form are part of the format's name, because nothing in the file tells.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from whet.msm.points.encodings import Encoding
from whet.msm.points.layout import Layout, counted, flat
from whet.msm.points.source import Source

NPY_MAGIC = b"\x93NUMPY"
NPY_HEADER_LENGTH_BYTES = {1: 2, 2: 4, 3: 4}
LONGEST_NPY_HEADER_BYTES = 10_000
BYTE, WORD = "|u1", "<u8"


def read_flat(encoding: Encoding) -> Callable[[Source, str | None], Layout]:
    return lambda source, section: flat(source, encoding)


def read_npy(encoding: Encoding) -> Callable[[Source, str | None], Layout]:
    def read(source: Source, section: str | None) -> Layout:
        shape, dtype, offset = _npy_header(source)
        row_bytes = encoding.record_bytes
        rows = {BYTE: [(row_bytes,), (2, row_bytes // 2)], WORD: [(row_bytes // 8,), (2, row_bytes // 16)]}
        if dtype not in rows or shape[1:] not in rows[dtype][: 1 + (row_bytes == 64)]:
            raise source.bad(
                f"holds {dtype} of shape {shape}", cure=f"save uint8 (n, {row_bytes}) or uint64 (n, {row_bytes // 8})"
            )
        return counted(source, encoding, offset, shape[0], ".npy header")

    return read


def _npy_header(source: Source) -> tuple[tuple[int, ...], str, int]:
    """Shape, type and where the data starts. Parsed here, so that a lying shape allocates nothing."""
    if source.head(len(NPY_MAGIC)) != NPY_MAGIC:
        raise source.bad("does not start like a .npy file", cure="name the format that the file really has")
    version = source.number(6, 1, "the .npy version")
    if version not in NPY_HEADER_LENGTH_BYTES:
        raise source.bad(f".npy version {version} at byte 6 is unknown", cure="save it again with numpy.save")
    length_bytes = NPY_HEADER_LENGTH_BYTES[version]
    size_bytes = source.number(8, length_bytes, "the length of the .npy header")
    if size_bytes > LONGEST_NPY_HEADER_BYTES:
        raise source.bad(f".npy header of {size_bytes} bytes at byte 8", cure="save it again with numpy.save")
    text = source.take(8 + length_bytes, size_bytes, "the .npy header")
    try:
        if b"\\" in text:
            raise ValueError("numpy writes no escapes, and the parser would warn about odd ones")
        header = ast.literal_eval(text.decode("latin-1"))
        shape, dtype, columns_first = header["shape"], header["descr"], header["fortran_order"]
    except (ValueError, SyntaxError, TypeError, KeyError, MemoryError, RecursionError):
        raise source.bad("has an unreadable .npy header at byte 8", cure="save it again with numpy.save") from None
    sound = isinstance(shape, tuple) and shape and all(type(axis) is int and axis >= 0 for axis in shape)
    if not sound or not isinstance(dtype, str) or columns_first is not False:
        raise source.bad(
            f"holds {str(dtype)[:40]} of shape {str(shape)[:40]}, Fortran order {columns_first!r:.10}",
            cure="save a C-contiguous array of uint8 or uint64 with numpy.save",
        )
    return shape, dtype, 8 + length_bytes + size_bytes
