"""The named workloads with real bodies: memory, kernels and scalars for each, and what comes out.

A computation is a Batch plus the array its answer appears in. The checks that go with them live with the tests and in
the engine: they share no code with this.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from whet.errors import BadInput
from whet.graph.batch import Batch, Dependencies
from whet.graph.bodies import kernel
from whet.graph.workloads import attention, matrix
from whet.graph.workloads.workload import Ints, Workload

Floats = npt.NDArray[np.float32]
Halves = npt.NDArray[np.uint16]


@dataclass(frozen=True)
class Computation:
    """A batch ready to be submitted, its inputs, and where its answer appears."""

    batch: Batch
    inputs: dict[str, npt.NDArray[Any]]
    answer: npt.NDArray[Any]


def to_bfloat16(values: npt.ArrayLike) -> Halves:
    """Rounded to nearest, ties to even; stored as the upper half of a float32."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bfloat16(halves: Halves) -> Floats:
    return (halves.astype(np.uint32) << 16).view(np.float32)


def paged_attention(work: Workload, *, seed: int = 0, scale: float = 1.0) -> Computation:
    """Attention of one query per sequence over its paged cache. The answer is [sequences, heads, width]."""
    p = work.parameters
    if work.kinds != attention.KINDS:
        raise BadInput(
            f"{work.name} is not a paged-attention workload", cure="pa:..., pa-manual:..., pa-unroll-manual:..."
        )
    rng = np.random.default_rng(seed)
    cache_blocks = p["batch"] * p["blocks"]

    def halves(*shape: int) -> Halves:
        return to_bfloat16(rng.uniform(-0.5, 0.5, shape))

    inputs: dict[str, npt.NDArray[Any]] = {
        "query": halves(p["batch"], p["heads"], p["width"]),
        "keys": halves(cache_blocks, p["block"], p["width"]),
        "values": halves(cache_blocks, p["block"], p["width"]),
        "table": attention.block_table(
            attention.Sizes(p["batch"], p["heads"], p["width"], p["block"], p["context"]), p["seed"]
        ),
    }
    for array in inputs.values():
        array.flags.writeable = False
    out = np.full((p["batch"], p["heads"], p["width"]), np.nan, np.float32)
    buffers = {
        attention.QUERY: inputs["query"],
        attention.KEY: inputs["keys"],
        attention.VALUE: inputs["values"],
        attention.OUT: out,
    }
    bodies = [None, kernel("scores"), kernel("softmax"), kernel("weighted_values"), kernel("update")]
    batch = Batch(
        work,
        bodies,
        dependencies="both" if work.manual else "inferred",
        buffers=buffers,
        scalars=_attention_scalars(p, inputs["table"], scale),
    )
    return Computation(batch, inputs, out)


def _attention_scalars(p: dict[str, int], table: Ints, scale: float) -> tuple[npt.NDArray[np.uint64], Ints]:
    group = p["group"]
    groups = -(-p["blocks"] // group)
    scale_bits = int(np.float64(scale).view(np.uint64))
    values: list[int] = []
    counts: list[int] = []
    for sequence in range(p["batch"]):
        counts.append(0)
        for g in range(groups):
            first = g * group
            blocks = min(group, p["blocks"] - first)
            # Above one block per task the kernel finds its blocks through the table.
            entries = 0 if group == 1 else table[sequence, first:].ctypes.data
            shape = [p["heads"], p["width"], p["block"], blocks, entries]
            valid = min(blocks * p["block"], p["context"] - first * p["block"])
            values += [*shape, p["heads"], blocks * p["block"], valid, scale_bits, *shape]
            values += [p["heads"], p["width"], int(g == 0), int(g == groups - 1)]
            counts += [5, 4, 5, 4]
    start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return np.array(values, np.uint64), start


def _same_scalars(tasks: int, *words: int) -> tuple[npt.NDArray[np.uint64], Ints]:
    return np.tile(np.array(words, np.uint64), tasks), np.arange(tasks + 1, dtype=np.int64) * len(words)


def batched_product(work: Workload, *, seed: int = 0) -> Computation:
    """C[g] = sum over k of A[g, k] @ B[g, k], tile by tile."""
    p = work.parameters
    if work.kinds != ("gemm", "add"):
        raise BadInput(f"{work.name} is not a batched product", cure="bgemm:Case0")
    rng = np.random.default_rng(seed)
    shape = (p["groups"], p["depth"], p["rows"], p["tile"], p["tile"])
    inputs = {name: rng.standard_normal(shape, np.float32) for name in ("a", "b")}
    out = np.zeros((p["groups"], p["rows"], p["tile"], p["tile"]), np.float32)
    buffers: dict[int, npt.NDArray[Any]] = {0: inputs["a"], 1: inputs["b"], 2: out, 3: np.zeros(4, np.int64)}
    scalars = _same_scalars(work.tasks, p["rows"], p["tile"])
    return Computation(Batch(work, [kernel("product"), kernel("add")], buffers=buffers, scalars=scalars), inputs, out)


def tiled_cholesky(
    work: Workload, matrix_in: npt.NDArray[np.float64], *, dependencies: Dependencies = "inferred"
) -> Computation:
    """The lower factor of a positive definite matrix, over a tiled copy. `answer` is [row, column, tile, tile]."""
    tiles, tile = work.parameters["tiles"], work.parameters["tile"]
    if work.kinds != matrix.CHOLESKY_KINDS or matrix_in.shape != (tiles * tile, tiles * tile):
        raise BadInput(f"{work.name} does not factor a matrix of {matrix_in.shape}", cure=f"{tiles * tile} square")
    tiled = np.ascontiguousarray(matrix_in.reshape(tiles, tile, tiles, tile).swapaxes(1, 2), np.float64)
    buffers = {row * tiles + column: tiled[row, column] for row in range(tiles) for column in range(row + 1)}
    bodies = [kernel(name) for name in matrix.CHOLESKY_KINDS]
    scalars = _same_scalars(work.tasks, tile)
    batch = Batch(work, bodies, dependencies=dependencies, buffers=buffers, scalars=scalars)
    return Computation(batch, {"matrix": matrix_in}, tiled)


def untile_lower(tiled: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The factor as one matrix; what is above the diagonal was never touched and is dropped."""
    tiles, _, tile, _ = tiled.shape
    return np.tril(tiled.swapaxes(1, 2).reshape(tiles * tile, tiles * tile))


def mixing(work: Workload, *, seed: int = 0, dependencies: Dependencies = "inferred") -> Computation:
    """Every task leaves a number that depends on its predecessors' numbers in order: any misstep shows."""
    cells = np.zeros(work.tasks, np.uint64)
    words = np.array(
        [cells.ctypes.data, work.dep_start.ctypes.data, work.dep_task.ctypes.data, seed & (2**64 - 1)], np.uint64
    )
    body = kernel("mix").with_user(words)
    batch = Batch(work, [body] * len(work.kinds), dependencies=dependencies)
    return Computation(batch, {"cells": cells, "words": words}, cells)
