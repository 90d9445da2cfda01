"""G1 against py-ecc and the known logarithms: every exceptional pair, both addition formulas, the endomorphism."""

from __future__ import annotations

import random

import numpy as np
import pytest
from py_ecc.fields import optimized_bn128_FQ as FQ
from py_ecc.optimized_bn128 import optimized_curve as reference
from whet._native import curve, field

from whet.msm.inputs import points_from_logs, to_ints, to_limbs
from whet.msm.oracle import multiple_of_generator
from whet.msm.point import P, Point, R

LAMBDA = 0xB3C4D79D41A917585BFC41088D8DAAA78B17EA66B99C90DD


def coordinates(points: np.ndarray) -> list[tuple[int, int]]:
    """(x, y) of points in Montgomery form."""
    flat = to_ints(curve.write_points(points).reshape(-1, 4))
    return list(zip(flat[::2], flat[1::2], strict=True))


def multiples(logs: list[int]) -> np.ndarray:
    return points_from_logs(to_limbs([k % R for k in logs]))


def with_py_ecc(point: tuple[int, int]):
    return (FQ(point[0]), FQ(point[1]), FQ.one()) if point != (0, 0) else reference.Z1


def from_py_ecc(point) -> tuple[int, int]:
    if point[2] == FQ.zero():
        return (0, 0)
    x, y = reference.normalize(point)
    return (int(x), int(y))


def awkward_logs(rng: random.Random, count: int) -> tuple[list[int], list[int]]:
    """Pairs of which many are equal, opposite, or infinite on one side or both."""
    left = [rng.randrange(R) for _ in range(count)]
    choices = (lambda k: k, lambda k: -k, lambda k: 0, lambda k: 2 * k, lambda k: -2 * k, lambda k: rng.randrange(R))
    right = [choices[i % len(choices)](k) for i, k in enumerate(left)]
    left = [0 if i % 11 == 0 else k for i, k in enumerate(left)]
    return left, right


def test_fixed_base_multiples_are_those_of_py_ecc(tried):
    logs = [0, 1, 2, 3, 2047, 2048, 2049, 4095, 4096, R - 1, R - 2, R // 2, R, R + 1, 2**256 - 1]
    logs += [random.Random(1).randrange(2**256) for _ in range(25)]
    got = coordinates(points_from_logs(to_limbs(logs)))
    generator = (FQ(1), FQ(2), FQ.one())
    assert got == [from_py_ecc(reference.multiply(generator, k % R)) for k in logs]
    tried("differential operations", len(logs))


def test_additions_against_known_logarithms(tried):
    left, right = awkward_logs(random.Random(2), 12_000)
    a, b = multiples(left), multiples(right)
    want = multiples([x + y for x, y in zip(left, right, strict=True)])
    for add in (curve.add, curve.add_mixed):
        assert np.array_equal(add(a, b), want)
        assert np.array_equal(add(b, a), want)
    assert np.array_equal(curve.double(a), multiples([2 * x for x in left]))
    assert np.array_equal(curve.negate(a), multiples([-x for x in left]))
    tried("differential operations", 6 * len(left))


def test_additions_against_py_ecc(tried):
    left, right = awkward_logs(random.Random(3), 300)
    a, b = multiples(left), multiples(right)
    pairs = zip(coordinates(a), coordinates(b), strict=True)
    want = [from_py_ecc(reference.add(with_py_ecc(p), with_py_ecc(q))) for p, q in pairs]
    assert coordinates(curve.add(a, b)) == want
    assert coordinates(curve.add_mixed(a, b)) == want
    tried("differential operations", 2 * len(left))


def test_multiplication_by_any_256_bit_integer(tried):
    rng = random.Random(4)
    logs = [0, 1, R - 1] + [rng.randrange(R) for _ in range(400)]
    scalars = [rng.choice([0, 1, 2, R - 1, R, R + 1, 2**256 - 1, rng.randrange(2**256)]) for _ in logs]
    want = multiples([k * s for k, s in zip(logs, scalars, strict=True)])
    assert np.array_equal(curve.multiply(multiples(logs), to_limbs(scalars)), want)
    tried("differential operations", len(logs))


def test_every_point_of_the_curve_is_in_the_group():
    logs = [0, 1, 2, R - 1, 12345678901234567890]
    assert list(curve.in_subgroup(multiples(logs))) == [1] * len(logs)
    off_curve, _, reason = curve.read_points(to_limbs([1, 3]).reshape(1, 8), False, False)
    assert reason == 0
    assert list(curve.in_subgroup(off_curve)) == [0]


def test_normalisation_of_many_and_of_infinity(tried):
    rng = random.Random(5)
    logs = [0 if i % 5 == 0 else rng.randrange(R) for i in range(2100)]
    points = coordinates(multiples(logs))
    rows = []
    for x, y in points:
        z = 0 if (x, y) == (0, 0) else rng.randrange(1, P)
        rows += [x * z * z % P, y * z**3 % P, z] if z else [rng.randrange(P), rng.randrange(P), 0]
    jacobian = field.fp.to_montgomery(to_limbs(rows)).reshape(-1, 12)
    assert coordinates(curve.normalise(jacobian)) == points
    tried("differential operations", len(logs))


def test_endomorphism_is_multiplication_by_lambda(tried):
    assert (LAMBDA * LAMBDA + LAMBDA + 1) % R == 0
    logs = [0, 1, *(random.Random(6).randrange(R) for _ in range(300))]
    assert np.array_equal(curve.endomorphism(multiples(logs)), multiples([LAMBDA * k for k in logs]))
    tried("differential operations", len(logs))


def test_split_is_exact_and_short(tried):
    rng = random.Random(7)
    u = 4965661367192848881
    basis = ((6 * u * u + 4 * u + 1, 2 * u + 1), (2 * u + 1, -(6 * u * u + 2 * u)))
    assert all((a + b * LAMBDA) % R == 0 for a, b in basis)
    # Scalars next to the corners of the lattice's cells, where the rounding is tightest.
    corners = [
        (i * R + d) * pow(factor, -1, R) // 2 % R
        for factor in (2 * u + 1, 6 * u * u + 2 * u)
        for i in range(40)
        for d in (-1, 1)
    ]
    scalars = [0, 1, 2, R - 1, R - 2, LAMBDA, R - LAMBDA, *corners]
    scalars += [rng.randrange(R) for _ in range(20_000)] + [2**256 - 1, R, R + 1]
    longest = 0
    for scalar, row in zip(scalars, curve.glv_split(to_limbs(scalars)).tolist(), strict=True):
        k1, k2 = row[0] + (row[1] << 64), row[3] + (row[4] << 64)
        longest = max(longest, k1, k2)
        k1, k2 = (-k1 if row[2] else k1), (-k2 if row[5] else k2)
        assert (k1 + k2 * LAMBDA - scalar) % R == 0
        # Exact rounding: the remainder is inside the cell around the origin.
        k = scalar % R
        c1 = (2 * k * (6 * u * u + 2 * u) + R) // (2 * R)
        c2 = (2 * k * (2 * u + 1) + R) // (2 * R)
        assert (k1, k2) == (
            k - c1 * basis[0][0] - c2 * basis[1][0],
            -c1 * basis[0][1] - c2 * basis[1][1],
        )
    assert longest < 2**126
    tried("differential operations", len(scalars))


def test_decompression_recovers_both_signs(tried):
    logs = [random.Random(8).randrange(1, R) for _ in range(200)]
    points = multiples(logs + [-k for k in logs])
    parity = np.array([y & 1 for _, y in coordinates(points)], np.uint8)
    x = np.ascontiguousarray(points[:, :4])
    recovered, _, reason = curve.decompress(x, parity)
    assert reason == 0
    assert np.array_equal(recovered, points)
    nowhere = next(v for v in range(2, 99) if pow(v**3 + 3, (P - 1) // 2, P) == P - 1)
    x[17] = field.fp.to_montgomery(to_limbs([nowhere]))
    assert curve.decompress(x, parity)[1:] == (17, 3)
    tried("differential operations", len(points))


@pytest.mark.parametrize("position", [0, 1, 499])
def test_first_point_off_the_curve_is_named(position):
    points = multiples(list(range(500)))
    assert curve.check_on_curve(points)[1] == 0
    points[position, 5] ^= np.uint64(1)
    points[499, 5] ^= np.uint64(2)
    assert curve.check_on_curve(points) == (position, 2)


def test_oracle_multiples_are_those_of_py_ecc(tried):
    """The oracle's own additions, against a third implementation."""
    generator = (FQ(1), FQ(2), FQ.one())
    for k in (0, 1, 2, 3, R - 1, R, R + 1, 2**256 - 1, *(random.Random(9).randrange(R) for _ in range(20))):
        assert multiple_of_generator(k) == Point(*from_py_ecc(reference.multiply(generator, k % R)))
    tried("differential operations", 28)
