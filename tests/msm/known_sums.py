"""Sums whose answers the oracle knows, and the adversarial cases put to a way of preparing points."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from whet.msm import Point, inputs
from whet.msm.adversarial import KINDS, AdversarialCase, adversarial_cases
from whet.msm.affine import Affine
from whet.msm.oracle import known_multiples


def known(profile: str, n: int, seed: int = 5) -> tuple[np.ndarray, np.ndarray, Point]:
    """Points in Montgomery form, scalars, and the oracle's answer."""
    logs, scalars = inputs.logs(profile, n, seed), inputs.scalars(profile, n, seed)
    return inputs.points_from_logs(logs), scalars, known_multiples(inputs.to_ints(logs), inputs.to_ints(scalars))


def right_on_adversarial_cases(prepare: Callable[[AdversarialCase], Affine], seed: int, count: int) -> None:
    """Cases of every kind, each summed by the engine that `prepare` makes for it."""
    kinds = set()
    for case in adversarial_cases(seed, count):
        got = Point.from_bytes(prepare(case).run(case.scalars, 0)[0].tobytes())
        assert got == case.expected, f"{case.kind}, adversarial_case({seed}, {case.number})"
        kinds.add(case.kind)
    assert kinds == set(KINDS)
