"""Where arrays lie within a page is left to chance: two arms do not differ by it in the same way in every process."""

from __future__ import annotations

import subprocess
import sys

PLACE = """
from whet.evidence.bench import Bench
bench = Bench()
import numpy as np
print(np.empty(12_000).ctypes.data % 4096)
"""


def test_fresh_benches_have_heaps_of_their_own():
    places = {
        subprocess.run([sys.executable, "-c", PLACE], capture_output=True, text=True, check=True).stdout
        for _ in range(10)
    }
    assert len(places) > 4
