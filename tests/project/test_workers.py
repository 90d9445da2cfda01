"""Tests that must share a worker do: a version of pytest once ignored the groups, and nobody noticed but the clock."""

from __future__ import annotations

import os

import pytest


@pytest.mark.xdist_group("groups-are-kept")
def test_a_group_of_tests_stays_on_one_worker(request):
    if "PYTEST_XDIST_WORKER" not in os.environ:
        pytest.skip("one process runs all tests: there is nothing to distribute")
    assert request.node.nodeid.endswith("@groups-are-kept"), "xdist did not see the group; does it know this pytest?"
