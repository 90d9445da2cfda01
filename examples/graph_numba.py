"""Bodies compiled by numba: they run without the interpreter lock, on as many cores as there are."""

import numba
import numpy as np

from whet.graph import NUMBA_SIGNATURE, In, InOut, Out, Runtime

BLOCK = 1000


@numba.cfunc(NUMBA_SIGNATURE)
def square_sum(tensors, scalars, user):
    """One block of the input, one number of the output."""
    values = numba.carray(tensors[0], (scalars[0],), np.float64)
    result = numba.carray(tensors[1], (1,), np.float64)
    result[0] = 0.0
    for i in range(scalars[0]):
        result[0] += values[i] * values[i]
    return 0


@numba.cfunc(NUMBA_SIGNATURE)
def add(tensors, scalars, user):
    total = numba.carray(tensors[0], (1,), np.float64)
    part = numba.carray(tensors[1], (1,), np.float64)
    total[0] += part[0]
    return 0


values = np.linspace(0.0, 1.0, 64 * BLOCK)
total = np.zeros(1)
with Runtime(workers=2) as rt:
    for begin in range(0, len(values), BLOCK):
        part = rt.submit(square_sum, In(values[begin : begin + BLOCK]), Out(1), BLOCK)
        rt.submit(add, InOut(total), In(part))
print(f"sum of squares {total[0]:.6f}, numpy says {np.sum(values**2):.6f}")
