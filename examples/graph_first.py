"""Tasks on numpy arrays: who waits for whom follows from what each one reads and writes."""

import numpy as np

from whet.graph import In, InOut, Out, Runtime

image = np.arange(16.0).reshape(4, 4)

with Runtime(workers=2) as rt:
    # The two halves are different memory, so these two run side by side.
    rt.submit(lambda top: np.multiply(top, 10, out=top), InOut(image[:2]))
    rt.submit(lambda low: np.negative(low, out=low), InOut(image[2:]))
    # This one reads both, so it waits for both. Its output is allocated by the runtime.
    sums = rt.submit(lambda whole, out: whole.sum(axis=1, out=out), In(image), Out(4), name="row sums")
    # A task as an argument passes on what it returned.
    total = rt.submit(lambda rows: float(rows.sum()), In(sums), name="total")
    rt.wait()
    print("row sums", sums.outputs[0].tolist())
    print("total", total.result())
    print("edges", rt.totals()["edges"])
