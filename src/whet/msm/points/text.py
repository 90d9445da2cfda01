"""Scalars as text: one integer a line, decimal or hexadecimal with 0x. Blank lines and lines with # first are skipped.

Any value below 2^256 is legal. The file is read line by line, so a file without line breaks costs no memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from whet.msm.points.source import Source
from whet.msm.validate import Limbs

LONGEST_LINE_BYTES = 256
READ_AT_ONCE_BYTES = 1 << 20
NUMBER = re.compile(rb"0[xX][0-9a-fA-F]+|[0-9]+")
LIMIT = 1 << 256


def parse_lines(source: Source) -> Limbs:
    """All scalars as (n, 4) limbs."""
    values: list[bytes] = []
    for line_number, line in _lines(source):
        text = line.strip()
        if text and not text.startswith(b"#"):
            values.append(_value(source, line_number, text, len(values)).to_bytes(32, "little"))
    return np.frombuffer(b"".join(values), dtype=np.uint64).reshape(-1, 4)


def _value(source: Source, line_number: int, text: bytes, index: int) -> int:
    value = LIMIT
    if len(text) <= LONGEST_LINE_BYTES and NUMBER.fullmatch(text):
        value = int(text, 16 if text[:2] in (b"0x", b"0X") else 10)
    if value >= LIMIT:
        shown = text[:40].decode("ascii", "backslashreplace")
        raise source.bad(
            f"line {line_number} ({shown!r}) is not an integer from 0 to 2^256 - 1",
            cure="write one decimal or 0x number a line",
            index=index,
        )
    return value


def _lines(source: Source) -> Iterator[tuple[int, bytes]]:
    """Numbered lines. One that is longer than a number can be is cut: it is refused anyway."""
    rest, number, position = b"", 1, 0
    while position < source.size_bytes:
        size_bytes = min(READ_AT_ONCE_BYTES, source.size_bytes - position)
        *whole, rest = (rest + source.take(position, size_bytes, "text")).split(b"\n")
        position += size_bytes
        for line in whole:
            yield number, line
            number += 1
        rest = rest[: LONGEST_LINE_BYTES + 1]
        if len(rest) > LONGEST_LINE_BYTES and rest.strip() and not rest.lstrip().startswith(b"#"):
            break  # refused below, before the rest of the file is read
    if rest:
        yield number, rest
