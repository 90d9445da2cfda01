"""The IFMA kernels as plain C++: the same sources against native/tests/avx512, so that they run on every machine.

With WHET_ALL_BUILDS, as in `make soak`, the whole engine and its planted faults run on them too.
"""

from __future__ import annotations

import os
import subprocess

import pytest

from native_build import GCC, build

PROGRAMS = ["emulated_msm_kernels", "emulated_points_in", "emulated_roots"]
if os.environ.get("WHET_ALL_BUILDS"):
    PROGRAMS += ["emulated_msm_engine", "emulated_msm_planted"]


@pytest.mark.native_build
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("program", PROGRAMS)
def test_vectors_without_a_vector_unit(program, tried):
    folder = build(GCC, program)
    done = subprocess.run([folder / "tests" / program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-6000:]}"
    tried("emulated checks", int(done.stdout.split(" checks held")[0].rsplit(maxsplit=1)[-1]))
