"""Hundreds of adversarial cases with every accumulator, and sums of 2^12 points: minutes, so run by `make soak`."""

from __future__ import annotations

import os

import pytest

pytestmark = [pytest.mark.gpu, pytest.mark.browser, pytest.mark.timeout(3600), pytest.mark.xdist_group("web")]

needs_hours = pytest.mark.skipif("WHET_ALL_WEB_CASES" not in os.environ, reason="make soak runs it")
CASES = {"walker": 200, "gpu_plain": 75, "coop:g=8": 75, "pairs": 75, "walker:points=compressed": 75}


@needs_hours
@pytest.mark.parametrize("variant", CASES)
def test_many_adversarial_cases(plain, variant, tried):
    for first in range(0, CASES[variant], 25):
        assert plain.evaluate(f"cases.runAll({first}, 25, {{ seed: 7, variant: {variant!r} }})") == []
    tried("sums in Chromium against noble", CASES[variant])


@needs_hours
@pytest.mark.parametrize("kind", range(5))
def test_sums_of_4096_points(plain, kind, tried):
    """Random, equal, opposite, with infinities, with zero scalars."""
    assert plain.evaluate(f"cases.run({kind}, {{ n: 4096 }})") is None
    tried("sums in Chromium against noble")
