"""The sums of 100,000 small arrays in one call, by a compiled body, followed by one task that waits for all of them."""

import numpy as np

from whet.graph import In, Reads, Runtime, Writes, task

ROWS = 100_000


@task(numba=True)
def row_sum(row: Reads, total: Writes) -> None:
    total[0] = 0.0
    for value in row:
        total[0] += value


rows = np.arange(ROWS * 8.0).reshape(ROWS, 8)
totals = np.zeros((ROWS, 1))
with Runtime(workers=2) as rt:
    group = rt.map(row_sum, rows, totals)
    largest = rt.submit(lambda sums: float(sums.max()), In(totals))
    print(f"largest sum {largest.result():.0f} of {group.progress().done}")
print("as numpy says:", np.array_equal(totals[:, 0], rows.sum(axis=1)))
