"""Dense linear algebra as task graphs: a blocked matrix product with its reduction, and a tiled Cholesky."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from whet.graph.workloads.workload import (
    EXTERNAL,
    Direction,
    Ints,
    Workload,
    contiguous,
    csr,
    in_task_order,
)

CHOLESKY_KINDS = ("potrf", "trsm", "syrk", "gemm")


def bgemm(name: str, groups: int = 250, depth: int = 2, rows: int = 4, tile: int = 128) -> Workload:
    """Per group and step k: GEMM makes a partial product, ADD sums it into C; the sums of one group are in order."""
    tile_bytes = rows * tile * tile * 4
    steps = groups * depth
    tasks = 2 * steps
    step = np.arange(steps)
    gemm, add = 2 * step, 2 * step + 1
    a, b, c, config = range(4)
    partial = 4 + step
    reads_a, reads_b = (contiguous(gemm, buffer, tile_bytes, Direction.IN) for buffer in (a, b))
    reads_a["offset"] = reads_b["offset"] = step * tile_bytes
    sums = contiguous(add, c, tile_bytes, Direction.INOUT)
    sums["offset"] = step // depth * tile_bytes
    later = step % depth > 0
    consumer = np.concatenate([add, add[later]])
    producer = np.concatenate([gemm, add[later] - 2])
    start, task = csr(tasks, consumer, producer)
    opens, closes = np.zeros(tasks, np.int8), np.zeros(tasks, np.int8)
    opens[:: 2 * depth] = 1
    closes[2 * depth :: 2 * depth] = 1
    return Workload(
        name,
        ("gemm", "add"),
        np.tile(np.array([0, 1], np.int8), steps),
        in_task_order(
            reads_a,
            reads_b,
            contiguous(gemm, config, 32, Direction.IN),
            contiguous(gemm, partial, tile_bytes, Direction.OUT),
            sums,
            contiguous(add, partial, tile_bytes, Direction.IN),
            contiguous(add, config, 32, Direction.IN),
        ),
        np.concatenate([[steps * tile_bytes] * 2, [groups * tile_bytes, 32], [tile_bytes] * steps]).astype(np.int64),
        np.concatenate([[EXTERNAL] * 4, gemm]).astype(np.int64),
        start,
        task,
        scope_open=opens,
        scope_close=closes,
        parameters={"groups": groups, "depth": depth, "rows": rows, "tile": tile},
    )


def cholesky(name: str, tiles: int = 64, tile: int = 32) -> Workload:
    """Right-looking: factor a diagonal tile, solve the column under it, update the rest. One buffer per tile."""
    kind, ops = _cholesky_order(tiles)
    tasks = len(kind)
    task = np.arange(tasks)
    k, i, j = ops[:, 0], ops[:, 1], ops[:, 2]
    size = tile * tile * 8

    def buffer(row: Ints, column: Ints) -> Ints:
        return row * tiles + column

    is_potrf, is_trsm, is_syrk, is_gemm = (kind == n for n in range(4))
    parts = [contiguous(task[is_trsm], buffer(k, k)[is_trsm], size, Direction.IN)]
    parts.append(contiguous(task[is_syrk | is_gemm], buffer(i, k)[is_syrk | is_gemm], size, Direction.IN))
    parts.append(contiguous(task[is_gemm], buffer(j, k)[is_gemm], size, Direction.IN))
    target = np.select([is_potrf, is_trsm, is_syrk], [buffer(k, k), buffer(i, k), buffer(i, i)], buffer(i, j))
    parts.append(contiguous(task, target, size, Direction.INOUT))

    # at[k, i, j]: the task that wrote tile (i, j) in step k. Its readers in step k and its next writer follow it.
    row = np.where(is_potrf, k, i)
    column = np.select([is_potrf | is_trsm, is_syrk], [k, i], j)
    at = np.full((tiles, tiles, tiles), -1)
    at[k, row, column] = task
    updates = is_syrk | is_gemm
    again = k > 0
    consumer = np.concatenate([task[is_trsm], task[updates], task[is_gemm], task[again]])
    producer = np.concatenate(
        [
            at[k, k, k][is_trsm],
            at[k, i, k][updates],
            at[k, j, k][is_gemm],
            at[np.maximum(k - 1, 0), row, column][again],
        ]
    )
    start, deps = csr(tasks, consumer, producer)
    return Workload(
        name,
        CHOLESKY_KINDS,
        kind,
        in_task_order(*parts),
        np.full(tiles * tiles, size, np.int64),
        np.full(tiles * tiles, EXTERNAL, np.int64),
        start,
        deps,
        parameters={"tiles": tiles, "tile": tile},
    )


def _cholesky_order(tiles: int) -> tuple[npt.NDArray[np.int8], Ints]:
    kinds, ops = [], []
    for k in range(tiles):
        rest = range(k + 1, tiles)
        kinds += [0] + [1] * len(rest)
        ops += [(k, k, k)] + [(k, i, k) for i in rest]
        for i in rest:
            kinds += [3] * (i - k - 1) + [2]
            ops += [(k, i, j) for j in range(k + 1, i)] + [(k, i, i)]
    return np.array(kinds, np.int8), np.array(ops, np.int64)
