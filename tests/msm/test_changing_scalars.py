"""Scalars that change between the scan and the digits: an answer or a typed refusal, never a crash."""

from __future__ import annotations

import subprocess
import sys

import pytest
from whet._native import msm as native

# The share done is 0 in the first report, which comes after the scan: whatever changes then was scanned as it was.
CHANGED = """
import sys
import numpy as np
from whet.errors import BadInput
from whet.msm import Engine, inputs

backend, before, after = sys.argv[1:]
n = 1 << 20 if before == "zeros" else 1 << 14  # so long that one list of all would not fit its room
points = np.tile(inputs.points_from_logs(inputs.to_limbs([3])), (n, 1))
values = {"zeros": 0, "ones": 1, "short": 0xffff_ffff, "long": (1 << 256) - 1, "half": (1 << 125) - 1}
rows = {name: inputs.to_limbs([value]) for name, value in values.items()}
scalars = np.tile(rows[before], (n, 1))
if before == "zeros":
    scalars[0] = rows["long"] if after == "long" else rows["ones"]
engine = Engine(points, montgomery=True, check=False, backend=backend, threads=2)
told = []

def progress(done):
    told.append(done)
    if len(told) == 1:
        scalars[:] = rows[after]

try:
    engine(scalars, progress=progress)
    print("answered")
except BadInput as error:
    print("refused:", error.cause)
few = Engine(points[:1000], montgomery=True, check=False).compute(scalars[:1000])
print("then right", engine.view(0, 1000)(scalars[:1000]) == few)
"""


@pytest.mark.parametrize("backend", native.backends())
@pytest.mark.parametrize("change", ["zeros ones", "zeros long", "short long", "long zeros", "half short"])
def test_scalars_that_change_under_the_call(backend, change, tried):
    command = [sys.executable, "-c", CHANGED, backend, *change.split()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, (done.returncode, done.stderr)
    first, second = done.stdout.splitlines()
    assert second == "then right True"
    if change.startswith("zeros"):
        assert first == "refused: the scalars changed while they were summed"
    else:
        assert first in ("answered", "refused: the scalars changed while they were summed")
    tried("hostile callers", 1)
