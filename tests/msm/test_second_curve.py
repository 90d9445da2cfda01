"""What native/tests/test_second_curve.cpp compares the kernel on BLS12-381 with is what py-ecc gives."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TOOL = Path(__file__).parents[2] / "tools" / "write_bls12_381_vectors.py"


def test_vectors_of_the_second_curve_are_of_py_ecc():
    done = subprocess.run([sys.executable, TOOL, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
