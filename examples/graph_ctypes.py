"""A body from the C library of the system, and one built from C on the spot where there is a compiler."""

import ctypes
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from whet.graph import SIGNATURE, Graph, InOut, Runtime, load

counter = np.zeros(1, np.int64)


@SIGNATURE
def count(tensors, scalars, user):
    """A ctypes callback: the pointer is native, what it calls is Python."""
    ctypes.cast(tensors[0], ctypes.POINTER(ctypes.c_int64))[0] += scalars[0]
    return 0


with Runtime(workers=2) as rt:
    for step in range(10):
        rt.submit(count, InOut(counter), step)
print("counted", counter[0])

SOURCE = """
#include <stdint.h>
int step(void** tensors, const uint64_t* scalars, void* user) {
    double* cells = user;
    cells[scalars[0]] = scalars[0] == 0 ? 1.0 : cells[scalars[0] - 1] * 2.0;
    return 0;
}
"""
if shutil.which("cc"):
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "step.c"), Path(folder, "libstep.so")
        source.write_text(SOURCE)
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, source], check=True)
        cells = np.zeros(11)
        body = load(library, "step").with_user(cells)
        # A chain of eleven tasks, built once, run twice. Each gets its number as the only scalar.
        chain = Graph.from_edges(11, [(i, i + 1) for i in range(10)], [body])
        chain.replay(workers=2)
        chain.replay(workers=2)
        print("doubled", int(cells[10]))
else:
    print("doubled 1024 needs a C compiler (cc)")
