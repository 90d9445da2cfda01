"""Where inputs and outputs live: shared memory, every buffer between guard words, at addresses that never move.

Every arm of a trial has an inputs arena, which the referee writes and the arm's process maps read-only, and an outputs
arena, which the judge poisons, copies and looks into. Offsets are staggered by cache lines, because buffers that share
their low address bits stall stores against loads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from random import Random
from typing import Any

import msgspec
import numpy as np

from whet.errors import BadInput
from whet.protocol import Array, Output

GUARD_BYTES = 1024
LINE_BYTES = 64
STAGGERS = 13
# Long enough for the widest gap: guard, rounding and stagger.
_CANARY = np.frombuffer(blake2b(b"whet guard", digest_size=64).digest() * (GUARD_BYTES // 64 + STAGGERS + 2), np.uint8)


class Field(msgspec.Struct, frozen=True):
    """One buffer inside an arena."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    offset: int
    size_bytes: int


class Arena(msgspec.Struct, frozen=True):
    """Groups of buffers with guard words before, between and behind them."""

    groups: list[list[Field]]
    size_bytes: int

    def gaps(self) -> list[tuple[int, int]]:
        edges, at = [], 0
        for field in (field for group in self.groups for field in group):
            edges.append((at, field.offset))
            at = field.offset + field.size_bytes
        return [*edges, (at, self.size_bytes)]


def lay_out(groups: Iterable[Mapping[str, Output]]) -> Arena:
    """Places buffers one behind the other, each on a cache line, with guards and a varying stagger."""
    at, count, placed = 0, 0, []
    for group in groups:
        fields = []
        for name, output in group.items():
            dtype = np.dtype(output.dtype)
            size_bytes = int(np.prod(output.shape, dtype=object)) * dtype.itemsize
            start = _round_up(at + GUARD_BYTES) + LINE_BYTES * (count * 5 % STAGGERS)
            fields.append(Field(name, tuple(map(int, output.shape)), spell_dtype(dtype, name), start, size_bytes))
            at, count = start + size_bytes, count + 1
        placed.append(fields)
    return Arena(placed, _round_up(at + GUARD_BYTES))


def spell_dtype(dtype: np.dtype[Any], name: str) -> str:
    """The text that makes the same dtype in another process."""
    for text in (dtype.str, dtype.name):
        try:
            if not dtype.hasobject and np.dtype(text) == dtype:
                return text
        except TypeError:
            continue
    raise BadInput(f"buffer {name!r} has dtype {dtype}, which cannot be shared", cure="use plain numbers")


def packed(arrays: Mapping[str, Array]) -> dict[str, Any]:
    """Small arrays as a part of a message."""
    return {
        name: {"shape": array.shape, "dtype": spell_dtype(array.dtype, name), "bytes": array.tobytes()}
        for name, array in arrays.items()
    }


def unpacked(message: Mapping[str, Mapping[str, Any]]) -> dict[str, Array]:
    """The arrays of `packed`; they cannot be written."""
    return {
        name: np.frombuffer(one["bytes"], np.dtype(one["dtype"])).reshape(one["shape"]) for name, one in message.items()
    }


def views(memory: Array, fields: Sequence[Field]) -> dict[str, Array]:
    """Arrays over `memory` (bytes); they are as writeable as it is."""
    # Not by slices: an empty one begins where the memory does, and whoever writes beyond it would be told so.
    return {field.name: np.ndarray(field.shape, field.dtype, memory, field.offset) for field in fields}


def bytes_of(memory: Array, field: Field) -> Array:
    return memory[field.offset : field.offset + field.size_bytes]


def set_guards(memory: Array, arena: Arena) -> None:
    for start, end in arena.gaps():
        memory[start:end] = _CANARY[: end - start]


def broken_guard(memory: Array, arena: Arena) -> str | None:
    """Names the buffer beside the first guard that was written over."""
    named = [(field.name, group) for group, fields in enumerate(arena.groups) for field in fields]
    for position, (start, end) in enumerate(arena.gaps()):
        wrong = np.flatnonzero(memory[start:end] != _CANARY[: end - start])
        if len(wrong):
            before, after = position - 1, position
            if before >= 0 and (after >= len(named) or wrong[0] < (end - start) / 2):
                return f"{len(wrong)} guard bytes from {wrong[0]} bytes behind the end of {named[before][0]!r}"
            reach = end - start - wrong[-1]
            return f"{len(wrong)} guard bytes up to {reach} bytes before the start of {named[after][0]!r}"
    return None


def poison_word(random: Random) -> int:
    """Eight bytes that are NaN as f16, bf16, f32 and f64, and that nobody can foresee."""
    return sum((0x7FF0 | random.randrange(1, 16) | random.choice((0, 0x8000))) << (16 * half) for half in range(4))


def fill(memory: Array, word: int) -> None:
    """Repeats `word` over `memory`, whose start lies on a cache line."""
    whole = len(memory) // 8 * 8
    memory[:whole].view("<u8")[:] = word
    memory[whole:] = np.frombuffer(word.to_bytes(8, "little"), dtype=np.uint8)[: len(memory) - whole]


def share_filled_with(memory: Array, word: int) -> float:
    """How much of `memory` still holds the poison; elements count as whole words."""
    whole = len(memory) // 8 * 8
    if not whole:
        tail = word.to_bytes(8, "little")[: len(memory)]
        return float(bytes(memory) == tail) if len(memory) else 0.0
    return float(np.mean(memory[:whole].view("<u8") == word))


def digest(parts: Iterable[Array]) -> str:
    """Hash of some byte arrays in order."""
    state = blake2b(digest_size=16)
    for part in parts:
        state.update(np.ascontiguousarray(part).data)
    return state.hexdigest()


def _round_up(size_bytes: int) -> int:
    return -(-size_bytes // LINE_BYTES) * LINE_BYTES
