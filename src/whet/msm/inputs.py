"""Inputs with known answers: points of known logarithm, and scalar profiles. Everything hangs on a seed.

Points are k_i G. With independent random k_i they behave like the points of an SRS. Small or regular multiples (the
`collide` profiles) meet each other and their opposites in the buckets all the time: the best test of the exceptional
additions and a bad benchmark.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from whet._native import curve
from whet._native.field import fr
from whet.errors import BadInput
from whet.msm.point import R
from whet.msm.validate import Limbs

Generator = np.random.Generator


def generator(seed: int, purpose: str) -> Generator:
    """A stream of its own for each purpose, so that points and scalars of one seed are independent."""
    return np.random.default_rng([seed & (2**64 - 1), *purpose.encode()])


def to_limbs(values: list[int]) -> Limbs:
    """Integers below 2^256 as (n, 4) limbs."""
    return np.frombuffer(b"".join(v.to_bytes(32, "little") for v in values), np.uint64).reshape(-1, 4)


def to_ints(limbs: Limbs) -> list[int]:
    """(n, 4) limbs as integers."""
    data = np.ascontiguousarray(limbs).tobytes()
    return [int.from_bytes(data[i : i + 32], "little") for i in range(0, len(data), 32)]


def points_from_logs(logs: Limbs) -> Limbs:
    """k_i G in Montgomery form, (n, 8)."""
    return curve.generator_multiples(logs)  # type: ignore[no-any-return]


def uniform(rng: Generator, n: int) -> Limbs:
    """Integers below r, as good as uniform."""
    return fr.reduce(rng.integers(0, 2**64, (n, 4), np.uint64))  # type: ignore[no-any-return]


def below(rng: Generator, n: int, bound: int) -> Limbs:
    """Integers below `bound`, which is at most 2^64."""
    limbs = np.zeros((n, 4), np.uint64)
    limbs[:, 0] = rng.integers(0, bound, n, np.uint64)
    return limbs


def _mixed(share: float, bound: int) -> Callable[[Generator, int], Limbs]:
    def make(rng: Generator, n: int) -> Limbs:
        small = rng.random(n) < share
        limbs = uniform(rng, n)
        limbs[small] = below(rng, int(small.sum()), bound)
        return limbs

    return make


def _constant(value: int) -> Callable[[Generator, int], Limbs]:
    return lambda rng, n: np.tile(to_limbs([value]), (n, 1))


def _edges(rng: Generator, n: int) -> Limbs:
    """Around r, its multiples, powers of two and the top of the range: 256-bit values that must be reduced."""
    edge = [0, 1, 2, R - 2, R - 1, R, R + 1, 2 * R - 1, 2 * R, 5 * R, 2**256 - 1, 2**256 - R, 2**255]
    edge += [2**k + d for k in (13, 14, 15, 16, 63, 64, 127, 128, 191, 192, 253, 254) for d in (-1, 0, 1)]
    return to_limbs(edge)[rng.integers(0, len(edge), n)]


# What scalars look like. A to E are the mixes that real provers produce.
SCALAR_PROFILES: dict[str, Callable[[Generator, int], Limbs]] = {
    "random": uniform,
    "A": uniform,
    "B": _mixed(0.3, 2**14),
    "C": _mixed(0.8, 2**14),
    "D": _mixed(0.5, 4),
    "E": lambda rng, n: below(rng, n, 16),
    "zeros": _constant(0),
    "ones": _constant(1),
    "equal": lambda rng, n: np.tile(uniform(rng, 1), (n, 1)),
    "bits01": lambda rng, n: below(rng, n, 2),
    "bits32": lambda rng, n: below(rng, n, 2**32),
    "sparse": lambda rng, n: np.where(rng.random((n, 1)) < 0.95, np.uint64(0), uniform(rng, n)),
    "clustered": lambda rng, n: uniform(rng, 7)[rng.integers(0, 7, n)],
    "edges": _edges,
}


def _progression(rng: Generator, n: int) -> list[int]:
    start, stride = (int(v) for v in to_ints(uniform(rng, 2)))
    return [(start + i * stride) % R for i in range(n)]


def _signed_pairs(rng: Generator, n: int) -> list[int]:
    half = to_ints(uniform(rng, (n + 1) // 2))
    return [k for pair in zip(half, (R - k for k in half), strict=True) for k in pair][:n]


def _collide(rng: Generator, n: int) -> list[int]:
    """A quarter each: small multiples, a progression, duplicates, P and -P; and some infinities among them."""
    quarter = n // 4 + 1
    few = to_ints(uniform(rng, 3))
    logs = list(range(1, quarter + 1)) + _progression(rng, quarter) + _signed_pairs(rng, quarter)
    logs += [few[i] for i in rng.integers(0, 3, quarter)]
    logs = [logs[i] for i in rng.permutation(len(logs))][:n]
    return [0 if infinite else k for k, infinite in zip(logs, rng.random(n) < 0.05, strict=True)]


# Which points: every profile that is not here takes independent random logs.
POINT_PROFILES: dict[str, Callable[[Generator, int], list[int]]] = {
    "collide": _collide,
    "progression": _progression,
    "multiples": lambda rng, n: list(range(1, n + 1)),
    "duplicates": lambda rng, n: to_ints(np.tile(uniform(rng, 1), (n, 1))),
    "opposites": _signed_pairs,
    "infinities": lambda rng, n: [0] * n,
}
# Point profiles run with scalars that make their points meet: few distinct values.
_MEETING = "clustered"

PROFILES = (*SCALAR_PROFILES, *POINT_PROFILES)


def logs(profile: str, n: int, seed: int) -> Limbs:
    """The k_i of the points k_i G."""
    rng = generator(seed, "points")
    if profile in POINT_PROFILES:
        return to_limbs(POINT_PROFILES[profile](rng, n))
    _known(profile)
    return uniform(rng, n)


def scalars(profile: str, n: int, seed: int) -> Limbs:
    """The s_i, plain integers below 2^256."""
    _known(profile)
    make = SCALAR_PROFILES[_MEETING if profile in POINT_PROFILES else profile]
    return make(generator(seed, "scalars"), n)


def _known(profile: str) -> None:
    if profile not in PROFILES:
        raise BadInput(f"msm has no profile {profile!r}", cure=f"profiles: {', '.join(PROFILES)}")
