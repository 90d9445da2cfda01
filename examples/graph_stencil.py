"""A heat equation in blocks: one step is recorded, then replayed back and forth between two fields."""

import numpy as np

from whet.graph import Reads, Runtime, Writes, task

SIZE, BLOCK, STEPS = 64, 16, 50


@task
def smooth(field: Reads, block: Writes) -> None:
    """The mean of the four neighbours; `field` is the block with one cell around it."""
    block[:] = 0.25 * (field[:-2, 1:-1] + field[2:, 1:-1] + field[1:-1, :-2] + field[1:-1, 2:])


def by_numpy(field: np.ndarray, steps: int) -> np.ndarray:
    for _ in range(steps):
        inner = 0.25 * (field[:-2, 1:-1] + field[2:, 1:-1] + field[1:-1, :-2] + field[1:-1, 2:])
        field = np.pad(inner, 1)
    return field


start = np.zeros((SIZE + 2, SIZE + 2))
start[20:40, 20:40] = 100.0
here, there = start.copy(), np.zeros_like(start)
with Runtime(workers=2) as rt:
    with rt.record() as step:
        for row in range(0, SIZE, BLOCK):
            for column in range(0, SIZE, BLOCK):
                around = here[row : row + BLOCK + 2, column : column + BLOCK + 2]
                rt.submit(smooth, around, there[row + 1 : row + BLOCK + 1, column + 1 : column + BLOCK + 1])
    for number in range(1, STEPS):
        step.replay(rebind=[(here, there), (there, here)] if number % 2 else [])
last = here if STEPS % 2 == 0 else there
print(f"{step.tasks} tasks per step, {STEPS} steps, as numpy says: {np.array_equal(last, by_numpy(start, STEPS))}")
