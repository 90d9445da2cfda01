"""Cases made to break an MSM, by named kind, each with its answer from the known-multiples oracle.

Case `number` of `seed` is always the same case, so a failing pair (seed, number) is all that a report needs. Kinds take
turns, so any run of consecutive numbers covers all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from whet._native import curve
from whet.msm import inputs as make
from whet.msm.inputs import Generator
from whet.msm.oracle import known_multiples
from whet.msm.point import Point, R
from whet.msm.validate import Limbs

LAMBDA = pow(5, (R - 1) // 3, R)  # a cube root of one: phi(k G) = (LAMBDA k) G, or its square
_SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65)
_LARGE_SIZES = (127, 128, 129, 255, 256, 257)
_LARGE_SHARE = 0.02


class AdversarialCase(NamedTuple):
    """`points` are (n, 8) canonical limbs, `scalars` (n, 4) plain limbs."""

    kind: str
    points: Limbs
    scalars: Limbs
    expected: Point
    seed: int
    number: int


Terms = tuple[list[int], list[int]]  # logarithms of the points, and scalars


def _random(rng: Generator, n: int) -> list[int]:
    return make.to_ints(make.uniform(rng, n))


def _full_range(rng: Generator, n: int) -> list[int]:
    return [int.from_bytes(rng.bytes(32), "little") for _ in range(n)]


def _with_scalars(choose: Callable[[Generator, int], list[int]]) -> Callable[[Generator, int], Terms]:
    return lambda rng, n: (_random(rng, n), choose(rng, n))


def _profile(name: str) -> Callable[[Generator, int], Terms]:
    return _with_scalars(lambda rng, n: make.to_ints(make.SCALAR_PROFILES[name](rng, n)))


def _points(name: str) -> Callable[[Generator, int], Terms]:
    def terms(rng: Generator, n: int) -> Terms:
        few = _full_range(rng, 3)
        return make.POINT_PROFILES[name](rng, n), [few[i] for i in rng.integers(0, 3, n)]

    return terms


def _powers_of_two(rng: Generator, n: int) -> list[int]:
    return [max(0, 2 ** int(k) + int(d)) for k, d in zip(rng.integers(0, 256, n), rng.integers(-1, 2, n), strict=True)]


def _window_borders(rng: Generator, n: int) -> list[int]:
    """Every digit of some window size at the border between positive and negative."""

    def one() -> int:
        c = int(rng.integers(1, 17))
        digit = (1 << (c - 1)) + int(rng.integers(-1, 2))
        return sum(digit << shift for shift in range(0, 256, c)) % 2**256

    return [one() for _ in range(n)]


def _carry_chains(rng: Generator, n: int) -> list[int]:
    """Runs of ones: a carry that travels through every window."""
    ends = rng.integers(0, 257, (n, 2))
    return [(1 << int(max(pair))) - (1 << int(min(pair))) for pair in ends]


def _glv_edges(rng: Generator, n: int) -> list[int]:
    """Scalars whose halves are zero, tiny or at the border of the rounding."""

    def one() -> int:
        small = int(rng.integers(0, 5))
        factor = (1, LAMBDA, LAMBDA * LAMBDA % R)[rng.integers(0, 3)]
        shift = (0, R // 2, R // 3, 1 << 126, 1 << 127)[rng.integers(0, 5)]
        return (small * factor + shift + int(rng.integers(-2, 3))) % R

    return [one() for _ in range(n)]


def _one_nonzero(rng: Generator, n: int) -> list[int]:
    scalars = [0] * n
    scalars[int(rng.integers(0, n))] = _full_range(rng, 1)[0]
    return scalars


def _opposite_scalars(rng: Generator, n: int) -> Terms:
    log, scalar = _random(rng, 2)
    return [log] * n, [scalar if i % 2 else R - scalar for i in range(n)]


def _cancelling(rng: Generator, n: int) -> Terms:
    """The last point makes the whole sum infinity."""
    logs, scalars = _random(rng, n), [s | 1 for s in _random(rng, n)]
    rest = sum(k * s for k, s in zip(logs[:-1], scalars[:-1], strict=True))
    logs[-1] = -rest * pow(scalars[-1], -1, R) % R
    return logs, scalars


def _endomorphic(rng: Generator, n: int) -> Terms:
    """P, phi(P) and phi(phi(P)): three points with sum zero that become equal after a split."""
    log, scalar, other = _random(rng, 3)
    return [log * pow(LAMBDA, i, R) % R for i in range(n)], [(scalar, scalar, other)[i % 3] for i in range(n)]


def _infinity_mixed(rng: Generator, n: int) -> Terms:
    logs = [0 if infinite else k for k, infinite in zip(_random(rng, n), rng.random(n) < 0.5, strict=True)]
    return logs, _full_range(rng, n)


def _first_infinite(rng: Generator, n: int) -> Terms:
    return [0, *_random(rng, n - 1)], _full_range(rng, n)


def _last_infinite(rng: Generator, n: int) -> Terms:
    return [*_random(rng, n - 1), 0], _full_range(rng, n)


def _equal_terms(rng: Generator, n: int) -> Terms:
    log, scalar = _full_range(rng, 2)
    return [log % R] * n, [scalar] * n


def _opposite_equal_scalars(rng: Generator, n: int) -> Terms:
    return make.POINT_PROFILES["opposites"](rng, n), _full_range(rng, 1) * n


def _repeats_in_order(rng: Generator, n: int) -> Terms:
    """Each term twice in a row, so that a bucket meets the very point it holds."""
    logs, scalars = _random(rng, n), _random(rng, n)
    return [logs[i // 2] for i in range(n)], [scalars[i // 2] for i in range(n)]


KINDS: dict[str, Callable[[Generator, int], Terms]] = {
    "empty": lambda rng, n: ([], []),
    "single": lambda rng, n: (_random(rng, 1), _full_range(rng, 1)),
    "random": _profile("random"),
    "not_reduced": _with_scalars(_full_range),
    "largest_scalar": _with_scalars(lambda rng, n: [2**256 - 1] * n),
    "near_r": _profile("edges"),
    "zero_scalars": _profile("zeros"),
    "one_nonzero": _with_scalars(_one_nonzero),
    "ones": _profile("ones"),
    "bits01": _profile("bits01"),
    "bits32": _profile("bits32"),
    "profile_B": _profile("B"),
    "profile_C": _profile("C"),
    "profile_D": _profile("D"),
    "profile_E": _profile("E"),
    "powers_of_two": _with_scalars(_powers_of_two),
    "window_borders": _with_scalars(_window_borders),
    "carry_chains": _with_scalars(_carry_chains),
    "glv_edges": _with_scalars(_glv_edges),
    "equal_scalars": _profile("equal"),
    "equal_points": lambda rng, n: (_random(rng, 1) * n, _full_range(rng, n)),
    "equal_terms": _equal_terms,
    "repeats_in_order": _repeats_in_order,
    "opposite_scalars": _opposite_scalars,
    "opposite_equal_scalars": _opposite_equal_scalars,
    "opposite_points": _points("opposites"),
    "cancelling": _cancelling,
    "endomorphic": _endomorphic,
    "small_multiples": _points("multiples"),
    "progression": _points("progression"),
    "collide": _points("collide"),
    "infinity_mixed": _infinity_mixed,
    "infinity_first": _first_infinite,
    "infinity_last": _last_infinite,
    "all_infinity": _points("infinities"),
}


def adversarial_case(seed: int, number: int) -> AdversarialCase:
    """Case `number` of `seed`."""
    rng = make.generator(seed, f"adversarial {number}")
    kind = list(KINDS)[number % len(KINDS)]
    sizes = _LARGE_SIZES if rng.random() < _LARGE_SHARE else _SIZES
    logs, scalars = KINDS[kind](rng, int(rng.choice(sizes)))
    points = curve.write_points(make.points_from_logs(make.to_limbs(logs)))
    return AdversarialCase(kind, points, make.to_limbs(scalars), known_multiples(logs, scalars), seed, number)


def adversarial_cases(seed: int, count: int) -> Iterator[AdversarialCase]:
    """The first `count` cases of `seed`."""
    return (adversarial_case(seed, number) for number in range(count))
