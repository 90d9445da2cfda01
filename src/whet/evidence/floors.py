"""Below what no variant can be: the cost of a turn that does nothing, and of reading the inputs once."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from whet.evidence.record import Floor, Sample

_READ_BYTES = 64 << 20
_PASSES = 5


@lru_cache(maxsize=1)
def read_bandwidth() -> float:
    """Bytes per second that one core reads from memory: the best of a few passes over more than a cache holds."""
    memory = np.ones(_READ_BYTES // 8)
    spent = []
    for _ in range(_PASSES):
        start = time.perf_counter_ns()
        memory.max()
        spent.append(time.perf_counter_ns() - start)
    return _READ_BYTES * 1e9 / min(spent)


def floor_of(empty: Sequence[Sample], input_bytes: int) -> Floor | None:
    """From the turns of the empty variant."""
    if not empty:
        return None
    bandwidth = read_bandwidth()
    return Floor(
        empty_ns=float(np.median([sample.wall_ns / sample.calls for sample in empty])),
        read_ns=input_bytes * 1e9 / bandwidth,
        bandwidth_bytes_per_s=bandwidth,
        turn_overhead_ns=float(np.median([sample.outside_ns - sample.wall_ns for sample in empty])),
    )
