"""Both fields against Python integers, on edge values in all pairs and on random ones."""

from __future__ import annotations

import random

import numpy as np
import pytest
from whet._native import field

from whet.msm.inputs import to_ints, to_limbs
from whet.msm.point import P, R

CURVE_U = 4965661367192848881
MONTGOMERY = 1 << 256
FIELDS = [pytest.param(field.fp, P, id="fp"), pytest.param(field.fr, R, id="fr")]
RANDOM_PAIRS = 6000


def edges(modulus: int) -> list[int]:
    """Values where a carry, a borrow or a final subtraction goes one way or the other."""
    ones = [2**64 - 1 << shift for shift in (0, 64, 128, 192)]
    around_r = [(MONTGOMERY + d) % modulus for d in (-2, -1, 0, 1, 2)] + [MONTGOMERY * MONTGOMERY % modulus]
    near_top = [modulus - d for d in (1, 2, 3, 2**64, 2**128)]
    halves = [modulus // 2, modulus // 2 + 1, modulus // 3]
    values = [0, 1, 2, 3, *ones, *around_r, *near_top, *halves, *(2**k for k in (63, 64, 127, 128, 191, 192, 252, 253))]
    return sorted({value % modulus for value in values})


def pairs(modulus: int, seed: int) -> tuple[list[int], list[int]]:
    rng = random.Random(seed)
    special = edges(modulus)
    left = [a for a in special for _ in special] + [rng.randrange(modulus) for _ in range(RANDOM_PAIRS)]
    right = [b for _ in special for b in special] + [rng.randrange(modulus) for _ in range(RANDOM_PAIRS)]
    return left, right


def montgomery(values: list[int], modulus: int) -> np.ndarray:
    return to_limbs([value * MONTGOMERY % modulus for value in values])


def test_moduli_follow_from_the_parameter_of_the_curve():
    u = CURVE_U
    assert P == 36 * u**4 + 36 * u**3 + 24 * u**2 + 6 * u + 1 == int.from_bytes(field.fp.modulus, "little")
    assert R == 36 * u**4 + 36 * u**3 + 18 * u**2 + 6 * u + 1 == int.from_bytes(field.fr.modulus, "little")


@pytest.mark.parametrize(("native", "modulus"), FIELDS)
def test_binary_operations(native, modulus, tried):
    left, right = pairs(modulus, seed=1)
    a, b = montgomery(left, modulus), montgomery(right, modulus)
    both = list(zip(left, right, strict=True))
    assert to_ints(native.add(a, b)) == to_ints(montgomery([x + y for x, y in both], modulus))
    assert to_ints(native.subtract(a, b)) == to_ints(montgomery([x - y for x, y in both], modulus))
    assert to_ints(native.multiply(a, b)) == to_ints(montgomery([x * y for x, y in both], modulus))
    tried("differential operations", 3 * len(left))


@pytest.mark.parametrize(("native", "modulus"), FIELDS)
def test_unary_operations(native, modulus, tried):
    values, _ = pairs(modulus, seed=2)
    a = montgomery(values, modulus)
    inverses = [pow(x, -1, modulus) if x else 0 for x in values]
    assert to_ints(native.negate(a)) == to_ints(montgomery([-x for x in values], modulus))
    assert to_ints(native.square(a)) == to_ints(montgomery([x * x for x in values], modulus))
    assert to_ints(native.invert(a)) == to_ints(montgomery(inverses, modulus))
    assert to_ints(native.invert_each(a)) == to_ints(montgomery(inverses, modulus))
    assert to_ints(native.from_montgomery(a)) == values
    tried("differential operations", 5 * len(values))


@pytest.mark.parametrize(("native", "modulus"), FIELDS)
def test_any_256_bit_value_is_reduced(native, modulus, tried):
    rng = random.Random(3)
    values = edges(modulus) + [rng.randrange(2**256) for _ in range(5000)]
    values += [k * modulus + d for k in range(1, 6) for d in (-1, 0, 1) if k * modulus + d < 2**256]
    values += [2**256 - 1, 2**256 - 2, 2**255, 2**254, 2**254 - 1]
    plain = to_limbs(values)
    assert to_ints(native.reduce(plain)) == [value % modulus for value in values]
    assert to_ints(native.to_montgomery(plain)) == to_ints(montgomery(values, modulus))
    tried("differential operations", 2 * len(values))


@pytest.mark.parametrize(("native", "modulus"), FIELDS)
def test_the_first_value_that_is_not_canonical_is_found(native, modulus, tried):
    good = edges(modulus)
    assert native.first_not_canonical(to_limbs(good)) == -1
    for position in range(len(good)):
        for bad in (modulus, modulus + 1, 2**254, 2**256 - 1):
            values = [*good[:position], bad, *good[position:], 2**256 - 1]
            assert native.first_not_canonical(to_limbs(values)) == position
    tried("differential operations", 4 * len(good))


@pytest.mark.parametrize(("native", "modulus"), FIELDS)
def test_powers(native, modulus, tried):
    rng = random.Random(4)
    bases = edges(modulus) + [rng.randrange(modulus) for _ in range(500)]
    exponents = [rng.choice([0, 1, 2, modulus - 2, modulus - 1, 2**256 - 1, rng.randrange(2**256)]) for _ in bases]
    got = native.power(montgomery(bases, modulus), to_limbs(exponents))
    want = [pow(base, exponent, modulus) for base, exponent in zip(bases, exponents, strict=True)]
    assert to_ints(native.from_montgomery(got)) == want
    tried("differential operations", len(bases))


@pytest.mark.parametrize(("native", "modulus"), FIELDS)
def test_square_roots_exist_exactly_for_squares(native, modulus, tried):
    rng = random.Random(5)
    values = edges(modulus) + [rng.randrange(modulus) for _ in range(1500)]
    roots, exists = native.square_root(montgomery(values, modulus))
    for value, root, found in zip(values, to_ints(native.from_montgomery(roots)), exists, strict=True):
        assert bool(found) == (pow(value, (modulus - 1) // 2, modulus) in (0, 1))
        if found:
            assert root * root % modulus == value
    assert exists.any() and not exists.all()
    tried("differential operations", len(values))


def test_batch_inversion_around_its_slice(tried):
    for n in (0, 1, 2, 1023, 1024, 1025, 2049):
        values = [i % 7 for i in range(n)]
        want = [pow(x, -1, P) if x else 0 for x in values]
        assert to_ints(field.fp.from_montgomery(field.fp.invert(montgomery(values, P)))) == want
        tried("differential operations", n)


def test_backend_can_be_chosen_and_an_unknown_one_changes_nothing():
    before = field.fp.backend()
    assert "portable" in field.fp.backends()
    assert not field.fp.use_backend("none such")
    assert field.fp.backend() == before
    assert field.fp.use_backend("portable")
    assert field.fp.backend() == "portable"
    assert field.fp.use_backend(before)


def test_arrays_of_unequal_length_are_refused():
    with pytest.raises(ValueError, match="length"):
        field.fp.add(to_limbs([1, 2]), to_limbs([1]))
