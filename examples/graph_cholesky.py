"""A tiled Cholesky factor: three kinds of tasks on the tiles of one matrix, ordered by the tiles that they touch."""

import numpy as np

from whet.graph import Reads, Runtime, Updates, task

TILES, TILE = 6, 16


@task
def factor(diagonal: Updates) -> None:
    diagonal[:] = np.linalg.cholesky(diagonal)


@task
def solve(diagonal: Reads, below: Updates) -> None:
    below[:] = np.linalg.solve(diagonal, below.T).T


@task
def subtract(left: Reads, right: Reads, target: Updates) -> None:
    target -= left @ right.T


generator = np.random.default_rng(1)
half = generator.random((TILES * TILE, TILES * TILE))
matrix = half @ half.T + TILES * TILE * np.eye(TILES * TILE)
wanted = np.linalg.cholesky(matrix)


def tile(row: int, column: int) -> np.ndarray:
    return matrix[row * TILE : (row + 1) * TILE, column * TILE : (column + 1) * TILE]


with Runtime(workers=2) as rt:
    for k in range(TILES):
        rt.submit(factor, tile(k, k))
        for i in range(k + 1, TILES):
            rt.submit(solve, tile(k, k), tile(i, k))
        for i in range(k + 1, TILES):
            for j in range(k + 1, i + 1):
                rt.submit(subtract, tile(i, k), tile(j, k), tile(i, j))
    rt.wait()
    tasks = rt.totals()["submitted"]
print(f"{tasks} tasks, equal to numpy's factor: {np.allclose(np.tril(matrix), wanted)}")
