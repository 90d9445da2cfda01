"""Python bodies on several workers: one worker at a time runs short ones, long ones run beside each other."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from whet.graph import In, OutExisting, Runtime


@pytest.mark.timeout(60)
def test_python_bodies_that_wait_for_each_other_meet():
    """Short bodies are left to one worker; one that waits for another must not keep that from running."""
    with Runtime(workers=2) as rt:
        for _ in range(20):
            for _ in range(50):
                rt.submit(lambda: None)
            both = threading.Barrier(2, timeout=20)
            first, second = rt.submit(both.wait), rt.submit(both.wait)
            rt.wait()
            assert {first.result(), second.result()} == {0, 1}


def test_a_wavefront_of_short_python_bodies_is_right_on_more_workers_than_cores():
    side = 40
    cells = np.ones((side, side), np.int64)

    def add(left, above, own):
        own[()] = (left[()] + above[()]) % 1_000_003

    with Runtime(workers=5) as rt:
        for row in range(1, side):
            for column in range(1, side):
                rt.submit(
                    add,
                    In(cells[row, column - 1 : column]),
                    In(cells[row - 1, column : column + 1]),
                    OutExisting(cells[row, column : column + 1]),
                )
        rt.wait()
    expected = np.ones((side, side), np.int64)
    for row in range(1, side):
        for column in range(1, side):
            expected[row, column] = (expected[row, column - 1] + expected[row - 1, column]) % 1_000_003
    assert (cells == expected).all()
