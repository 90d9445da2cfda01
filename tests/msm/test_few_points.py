"""Sums of few points, which have no buckets: every size up to the crossover, prepared and one-shot, against py-ecc."""

from __future__ import annotations

import random

import numpy as np
import pytest
from py_ecc.bn128 import bn128_curve as ecc
from whet._native import curve
from whet._native import msm as native

from whet import msm
from whet.errors import BadInput, Cancelled
from whet.msm import Engine, Point, inputs
from whet.msm.adversarial import adversarial_cases
from whet.msm.affine import OVERRIDE, Affine
from whet.msm.point import P, R
from whet.msm.validate import read_points

BACKENDS = native.backends()
LAMBDA = 0xB3C4D79D41A917585BFC41088D8DAAA78B17EA66B99C90DD
U = 4965661367192848881
LONG_A, SMALL = 6 * U * U + 4 * U + 1, 2 * U + 1


def by_py_ecc(points, scalars) -> Point:
    total = None
    for point, scalar in zip(points, scalars, strict=True):
        pair = None if point is None else (ecc.FQ(point[0]), ecc.FQ(point[1]))
        total = ecc.add(total, ecc.multiply(pair, scalar % R) if pair and scalar % R else None)
    return Point.infinity() if total is None else Point(int(total[0]), int(total[1]))


def multiples(logs) -> list[tuple[int, int] | None]:
    rows = inputs.to_ints(curve.write_points(inputs.points_from_logs(inputs.to_limbs(logs))).reshape(-1, 4))
    return [pair if any(pair) else None for pair in zip(rows[::2], rows[1::2], strict=True)]


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_size_up_to_the_crossover(backend, tried):
    most = native.small_most(backend)
    rng = random.Random(11)
    logs = [rng.randrange(R) for _ in range(most + 2)]
    points = multiples(logs)
    scalars = [rng.randrange(1 << 256) for _ in points]
    # All sizes of up to five vectors of eight, then some of each remainder.
    sizes = [n for n in range(len(points) + 1) if n <= 41 or n % 23 == 0 or n >= most - 1]
    with Engine(points, backend=backend) as engine:
        for n in sizes:
            given, of = points[:n], scalars[:n]
            want = by_py_ecc([(1, 2)], [sum(s * k for s, k in zip(of, logs, strict=False))])
            answer = engine.answer(inputs.to_limbs(of), size=n)
            assert answer.work["small"] == (n <= most)
            assert Point.from_bytes(answer.limbs.tobytes()) == want, n
            assert msm.msm(given, of, backend=backend) == want, n
    tried("small sums", 2 * len(sizes))


def test_vectors_are_full_part_full_and_short():
    """Scalars short enough to be their own halves, and lengths at which the number of windows changes."""
    rng = random.Random(12)
    logs = [rng.randrange(R) for _ in range(40)]
    points = multiples(logs)
    for bits in (1, 2, 3, 4, 8, 9, 32, 64, 123, 124, 125, 126, 127, 128, 254):
        for n in (1, 3, 8, 9, 40):
            scalars = [rng.randrange(1 << bits) | 1 << (bits - 1) for _ in range(n)]
            want = by_py_ecc([(1, 2)], [sum(s * k for s, k in zip(scalars, logs, strict=False))])
            assert msm.msm(points[:n], scalars) == want, (bits, n)


# Digits at the ends of their range, carries that run through, halves of one sign or none, and borders of the split.
HARD = [
    0, 1, 2, 3, 15, 16, 17, 31, 32, 33, R - 1, R, R + 1, 2 * R, (1 << 256) - 1, (1 << 128) - 1, 1 << 127,
    (1 << 127) - 1, LAMBDA, R - LAMBDA, LAMBDA + 1, LAMBDA - 1, LAMBDA * 15 % R, LONG_A, SMALL, LONG_A // 2,
    LONG_A // 2 + 1, (R + 1) // 2, int("10000" * 25, 2), int("11111" * 25, 2), int("01111" * 25, 2),
    int("10001" * 25, 2), 0xFFFF_FFFF, 1 << 125,
]  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
def test_hard_scalars_alone_and_together(backend, tried):
    point = multiples([0x123456789])[0]
    products = [by_py_ecc([point], [scalar]) for scalar in HARD]
    with Engine([point], backend=backend) as engine:
        assert [engine([scalar]) for scalar in HARD] == products
    most = native.small_most(backend)
    for start in range(0, len(HARD), most):
        part = HARD[start : start + most]
        expected = sum(products[start : start + most], Point.infinity())
        assert msm.msm([point] * len(part), part, backend=backend) == expected
    tried("small sums", 2 * len(HARD))


@pytest.mark.parametrize("backend", BACKENDS)
def test_points_that_meet(backend):
    one, three, minus = multiples([1])[0], multiples([3])[0], multiples([R - 1])[0]
    mapped = multiples([LAMBDA])[0]
    cases = [
        ([one, one], [5, 5]),
        ([one, minus], [5, 5]),
        ([one, minus, one], [5, 5, 7]),
        ([one, three], [3, 1]),
        ([one, three], [3, R - 1]),
        ([one, mapped], [LAMBDA, 1]),
        ([one, mapped], [LAMBDA, R - 1]),
        ([one, mapped, None], [R - LAMBDA, 1, 9]),
        ([None, None], [1, 2]),
        ([None, one], [0, 0]),
        ([one] * 16, [1] * 16),
        ([one, minus] * 8, list(range(16))),
        ([one] * 3, [1 << 200, R - (1 << 199), R - (1 << 199)]),
    ]
    for points, scalars in cases:
        expected = by_py_ecc(points, scalars)
        assert msm.msm(points, scalars, backend=backend) == expected, scalars
        assert Engine(points, backend=backend)(scalars) == expected, scalars


@pytest.mark.parametrize("backend", BACKENDS)
def test_adversarial_cases_that_are_small(backend, tried):
    done = 0
    for case in adversarial_cases(4_711, 1_500):
        if len(case.scalars) > native.small_most(backend):
            continue
        engine = Affine.prepared(read_points(case.points), backend, threads=1)
        limbs, work = engine.run(case.scalars, 0)
        assert work["small"] == 1
        assert Point.from_bytes(limbs.tobytes()) == case.expected, f"{case.kind}, adversarial_case(4711, {case.number})"
        done += 1
    assert done > 100
    tried("adversarial cases", done)


def test_one_shot_says_what_an_engine_says(monkeypatch):
    for call in (
        lambda: msm.msm([(1, 2)], [1, 2]),
        lambda: msm.msm([(1, 3)], [1]),
        lambda: msm.msm([(1, 2)], [1], threads=0),
        lambda: msm.msm([(1, 2)], [1], device="cpu", backend="quantum"),
        lambda: msm.msm([(1, 2)], [-1]),
    ):
        with pytest.raises(BadInput):
            call()
    stopped = type("Event", (), {"is_set": lambda self: True})()
    with pytest.raises(Cancelled):
        msm.msm([(1, 2)], [1], cancel=stopped)
    expected = by_py_ecc([(1, 2)], [77])
    assert msm.msm([(1, 2)], [77], device="cpu") == msm.msm([(1, 2)], [77], variant="plain") == expected
    monkeypatch.setenv(OVERRIDE, "portable")
    assert msm.msm([(1, 2)], [77]) == expected


def test_native_sums_are_held_to_their_limits():
    most = native.small_most("portable")
    points = read_points([(1, 2)] * (most + 1))
    scalars = np.ones((most + 1, 4), np.uint64)
    for p, s in ((points, scalars), (points[:2], scalars[:3]), (points[:3], scalars[:2])):
        with pytest.raises(BadInput):
            native.small_sum(p, s, "portable")
    assert not native.small_sum(points[:0], scalars[:0], "portable").any()


def test_arithmetic_of_points(tried):
    rng = random.Random(3)
    logs = [0, 1, 2, R - 1, R - 2, *(rng.randrange(R) for _ in range(5))]
    points = [Point(*(pair or (0, 0))) for pair in multiples(logs)]
    by_log = {log: point for log, point in zip(logs, points, strict=True)}
    for a, p in by_log.items():
        assert p.is_on_curve and p + -p == p - p == 0 * p == Point.infinity()
        for b, q in by_log.items():
            expected = by_py_ecc([(1, 2)], [a + b])
            assert p + q == expected == q + p
            assert p - q == by_py_ecc([(1, 2)], [a - b])
        for k in (0, 1, 2, -1, R, R + 3, -(1 << 300), rng.randrange(R)):
            assert k * p == p * k == by_py_ecc([(1, 2)], [a * k])
    assert sum(points) == by_py_ecc([(1, 2)], [sum(logs)])
    for bad in (Point(1, 3), Point(P + 1, 2), Point(1, -2), Point(0, 5)):
        for call in (lambda bad=bad: bad + points[1], lambda bad=bad: points[1] - bad, lambda bad=bad: 5 * bad,
                     lambda bad=bad: -bad, lambda bad=bad: sum([bad])):  # fmt: skip
            with pytest.raises(BadInput):
                call()
    for other in (5, 1.5, None, "x", (1, 2)):
        with pytest.raises(TypeError):
            points[1] + other
        if not isinstance(other, int):
            with pytest.raises(TypeError):
                points[1] * other
    tried("small sums", 3 * len(points) ** 2)
