"""Paged attention as a task graph: per sequence one allocation, then QK, SF, PV and UP for every block of the cache.

Three ways to say the same work: `auto` infers every edge from the tensors, `manual` gives the few edges that matter,
and `unroll` does 64 blocks in one task. Sizes are those of the published cases; storage is bfloat16 for the cache, the
queries and the probabilities, float32 for everything that is summed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from whet.graph.workloads.workload import ACCESS, EXTERNAL, Direction, Ints, Workload, csr

KINDS = ("alloc", "qk", "softmax", "pv", "update")
ALLOC, QK, SOFTMAX, PV, UPDATE = range(5)
UNROLL = 64
# External buffers, in this order.
QUERY, KEY, VALUE, OUT = range(4)
EXTERNALS = 4
# Runtime-allocated buffers of one sequence, then those of one block (or of one group of blocks).
ACC, SUM, MAX = range(3)
PER_SEQUENCE = 3
SCORES, PROBS, BLOCK_MAX, BLOCK_SUM, PARTIAL = range(5)
PER_BLOCK = 5


@dataclass(frozen=True)
class Sizes:
    """Sequences, heads, head width, block length and context length; `blocks` follows."""

    batch: int
    heads: int
    width: int
    block: int
    context: int

    @property
    def blocks(self) -> int:
        return -(-self.context // self.block)

    def valid(self, block: int) -> int:
        return min(self.block, self.context - block * self.block)


CASES = {
    "Case1": Sizes(256, 16, 128, 128, 8192),
    "Case2": Sizes(64, 64, 128, 64, 8192),
    "Case4": Sizes(16, 16, 16, 16, 256),
    "CaseSmall1": Sizes(1, 16, 16, 16, 33),
}
HALF, SINGLE = 2, 4  # bytes


def block_table(sizes: Sizes, seed: int) -> Ints:
    """Which cache block holds block n of a sequence: uniform over the whole cache."""
    total = sizes.batch * sizes.blocks
    return np.random.default_rng(seed).integers(0, total, (sizes.batch, sizes.blocks))


def attention(name: str, sizes: Sizes, *, manual: bool = False, unroll: bool = False, seed: int = 0) -> Workload:
    group = UNROLL if unroll else 1
    groups = -(-sizes.blocks // group)
    per_sequence = 1 + 4 * groups
    tasks = sizes.batch * per_sequence
    kind = np.tile(np.array([ALLOC, *[QK, SOFTMAX, PV, UPDATE] * groups], np.int8), sizes.batch)
    start, task = _edges(sizes.batch, groups, every_alloc=not manual)
    opens = np.zeros(tasks, np.int8)
    closes = np.zeros(tasks, np.int8)
    first = np.arange(sizes.batch) * per_sequence
    if manual:
        opens[first], closes[first[1:]] = 1, 1
    else:
        block_first = (first[:, None] + 1 + 4 * np.arange(groups)).ravel()
        opens[first] = 1
        opens[block_first] = 1
        closes[block_first] = np.tile(np.array([0] + [1] * (groups - 1), np.int8), sizes.batch)
        closes[first[1:]] = 2
    sizes_bytes, creators = _buffers(sizes, groups, group, per_sequence)
    return Workload(
        name,
        KINDS,
        kind,
        _accesses(sizes, groups, group, per_sequence, seed),
        sizes_bytes,
        creators,
        start,
        task,
        manual=manual,
        scope_close=closes,
        scope_open=opens,
        parameters={
            "batch": sizes.batch,
            "heads": sizes.heads,
            "width": sizes.width,
            "block": sizes.block,
            "context": sizes.context,
            "blocks": sizes.blocks,
            "group": group,
            "seed": seed,
        },
    )


def _edges(batch: int, groups: int, *, every_alloc: bool) -> tuple[Ints, Ints]:
    """QK -> SF -> PV -> UP -> next UP; alloc -> every UP (its tensors were made there), or the last one by hand."""
    base = (np.arange(batch) * (1 + 4 * groups))[:, None]
    qk = base + 1 + 4 * np.arange(groups)
    softmax, pv, update = qk + 1, qk + 2, qk + 3
    alloc = np.broadcast_to(base, update.shape)
    pairs = [(softmax, qk), (pv, softmax), (update, pv), (update[:, 1:], update[:, :-1])]
    pairs += [(update, softmax), (update, alloc)] if every_alloc else [(update[:, -1:], alloc[:, -1:])]
    consumer = np.concatenate([c.ravel() for c, _ in pairs])
    producer = np.concatenate([p.ravel() for _, p in pairs])
    return csr(batch * (1 + 4 * groups), consumer, producer)


def _block_bytes(sizes: Sizes, blocks: int) -> list[int]:
    h, d, n = sizes.heads, sizes.width, sizes.block * blocks
    return [h * n * SINGLE, h * n * HALF, h * SINGLE, h * SINGLE, h * d * SINGLE]


def _buffers(sizes: Sizes, groups: int, group: int, per_sequence: int) -> tuple[Ints, Ints]:
    h, d = sizes.heads, sizes.width
    cache = sizes.batch * sizes.blocks * sizes.block * d * HALF
    external = [sizes.batch * h * d * HALF, cache, cache, sizes.batch * h * d * SINGLE]
    own = [h * d * SINGLE, h * SINGLE, h * SINGLE]
    creator = [0, 0, 0]
    for g in range(groups):
        own += _block_bytes(sizes, min(group, sizes.blocks - g * group))
        qk = 1 + 4 * g
        creator += [qk, qk + 1, qk + 1, qk + 1, qk + 2]
    creators = np.array(creator)[None, :] + (np.arange(sizes.batch) * per_sequence)[:, None]
    return (
        np.concatenate([external, np.tile(own, sizes.batch)]).astype(np.int64),
        np.concatenate([[EXTERNAL] * EXTERNALS, creators.ravel()]).astype(np.int64),
    )


def _accesses(sizes: Sizes, groups: int, group: int, per_sequence: int, seed: int) -> npt.NDArray[Any]:
    """The rows of one sequence, then the same rows for all sequences with tasks, buffers and offsets moved along."""
    h, d = sizes.heads, sizes.width
    tile = h * d
    rows: list[tuple[int, int, int, int, int, int, int]] = []
    cache_block: list[int] = []  # for a row that reads the cache: which block of the sequence; else -1

    def whole(task: int, buffer: int, size: int, direction: Direction, *, cache: int = -1) -> None:
        rows.append((task, buffer, 0, 1, size, size, int(direction)))
        cache_block.append(cache)

    def cached(task: int, buffer: int, first: int) -> None:
        one_block = sizes.block * d * HALF
        if group == 1:
            whole(task, buffer, one_block, Direction.IN, cache=first)
        else:
            whole(task, buffer, sizes.batch * sizes.blocks * one_block, Direction.IN)

    for member, size in ((ACC, tile * SINGLE), (SUM, h * SINGLE), (MAX, h * SINGLE)):
        whole(0, EXTERNALS + member, size, Direction.OUT)
    for g in range(groups):
        blocks = min(group, sizes.blocks - g * group)
        own = EXTERNALS + PER_SEQUENCE + PER_BLOCK * g
        scores, probs, block_max, block_sum, partial = range(own, own + PER_BLOCK)
        bytes_of = dict(zip(range(own, own + PER_BLOCK), _block_bytes(sizes, blocks), strict=True))
        qk = 1 + 4 * g
        softmax, pv, update = qk + 1, qk + 2, qk + 3
        whole(qk, QUERY, tile * HALF, Direction.IN)
        cached(qk, KEY, g * group)
        whole(qk, scores, bytes_of[scores], Direction.OUT)
        columns = sum(sizes.valid(g * group + i) for i in range(blocks))
        stride = sizes.block * blocks * SINGLE
        rows.append((softmax, scores, 0, h, columns * SINGLE, stride, int(Direction.IN)))
        cache_block.append(-1)
        for made in (probs, block_max, block_sum):
            whole(softmax, made, bytes_of[made], Direction.OUT)
        whole(pv, probs, bytes_of[probs], Direction.IN)
        cached(pv, VALUE, g * group)
        whole(pv, partial, bytes_of[partial], Direction.OUT)
        for read in (block_max, block_sum, partial):
            whole(update, read, bytes_of[read], Direction.IN)
        for member, size in ((MAX, h * SINGLE), (SUM, h * SINGLE), (ACC, tile * SINGLE)):
            whole(update, EXTERNALS + member, size, Direction.INOUT)
        whole(update, OUT, tile * SINGLE, Direction.INOUT)
    one = np.array(rows, dtype=ACCESS)
    table = np.tile(one, (sizes.batch, 1))
    sequence = np.arange(sizes.batch)[:, None]
    table["task"] += sequence * per_sequence
    table["buffer"] += np.where(one["buffer"] < EXTERNALS, 0, sequence * (PER_SEQUENCE + PER_BLOCK * groups))
    table["offset"] += np.where(one["buffer"] == QUERY, sequence * tile * HALF, 0)
    table["offset"] += np.where(one["buffer"] == OUT, sequence * tile * SINGLE, 0)
    from_cache = np.array(cache_block)
    blocks_of = block_table(sizes, seed)[:, np.maximum(from_cache, 0)]
    table["offset"] += np.where(from_cache >= 0, blocks_of * (sizes.block * d * HALF), 0)
    return table.ravel()
