"""Every variant against both oracles, on the cases made to break it."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from whet._native.curve import write_points

from whet.msm import Point, inputs
from whet.msm.adversarial import KINDS, adversarial_case, adversarial_cases
from whet.msm.engine import MsmEngine
from whet.msm.oracle import known_multiples, naive_sum
from whet.msm.validate import read_points
from whet.msm.variants import TABLE, choose, prepare
from whet.protocol import parse_variant

VARIANTS = ["plain", "pippenger", "pippenger:glv=true"]
WINDOWS = [f"pippenger:c={c},glv={glv}" for c in (1, 2, 3, 4, 5, 7, 9) for glv in ("false", "true")]
WIDE_WINDOWS = [f"pippenger:c={c},glv={glv}" for c in (11, 13) for glv in ("false", "true")]


def answer(variant: str, points: np.ndarray, scalars: np.ndarray) -> Point:
    return Point.from_bytes(prepare(choose(variant), read_points(points)).compute(scalars, 0).limbs.tobytes())


@pytest.mark.parametrize("part", range(4))
def test_adversarial_cases(part, tried):
    seed, count = 20_251 + part, 250
    kinds: Counter[str] = Counter()
    for case in adversarial_cases(seed, count):
        for variant in (*VARIANTS, WINDOWS[case.number % len(WINDOWS)]):
            got = answer(variant, case.points, case.scalars)
            assert got == case.expected, f"{variant}: {case.kind}, adversarial_case({seed}, {case.number})"
        kinds[case.kind] += 1
    assert set(kinds) == set(KINDS) and min(kinds.values()) >= count // len(KINDS)
    tried("adversarial cases", count)


@pytest.mark.parametrize("kind", KINDS)
def test_the_known_multiples_oracle_agrees_with_the_naive_sum(kind):
    """The oracles check each other: one knows the logarithms, the other only the points."""
    number = list(KINDS).index(kind)
    case = next(c for c in (adversarial_case(7, number + i * len(KINDS)) for i in range(99)) if len(c.points) <= 9)
    flat = inputs.to_ints(case.points.reshape(-1, 4))
    points = list(zip(flat[::2], flat[1::2], strict=True))
    assert naive_sum(points, inputs.to_ints(case.scalars)) == case.expected


def test_a_wrong_scalar_is_another_answer():
    """The comparison above can fail: one bit of one scalar is enough."""
    case = adversarial_case(1, list(KINDS).index("random"))
    scalars = case.scalars.copy()
    scalars[-1, 0] ^= np.uint64(1)
    assert answer("plain", case.points, scalars) != case.expected


@pytest.mark.parametrize("n", [0, 1, 2, 3, 7, 8, 9, 63, 64, 65, 100, 511, 512, 513])
def test_sizes_and_windows(n):
    logs = inputs.logs("random", n, seed=n)
    points = inputs.points_from_logs(logs)
    scalars = inputs.scalars("random", n, seed=n)
    want = known_multiples(inputs.to_ints(logs), inputs.to_ints(scalars))
    for variant in WINDOWS + (WIDE_WINDOWS if n == 65 else []):
        done = prepare(choose(variant), points).compute(scalars, 0)
        assert Point.from_bytes(done.limbs.tobytes()) == want, variant
        assert n == 0 or done.work["additions"] > 0


@pytest.mark.parametrize("glv", ["true", "false"])
def test_widest_window(glv):
    logs, scalars = [5, 6, 7], [2**20 - 1, 2**19, 2**19 + 1]
    got = answer(
        f"pippenger:c=20,glv={glv}",
        write_points(inputs.points_from_logs(inputs.to_limbs(logs))),
        inputs.to_limbs(scalars),
    )
    assert got == known_multiples(logs, scalars)


@pytest.mark.parametrize("profile", inputs.PROFILES)
def test_engine_profiles_match_its_oracle(profile):
    engine = MsmEngine()
    case = next(case for case in engine.cases() if case.profile == profile)
    fixed, fresh = engine.fixed(case, 3), engine.prepare(case, 4)
    both = {**fixed, **fresh}
    want = engine.oracle(case, 3, 4, both)["point"]
    for text in VARIANTS:
        variant = parse_variant(engine, text)
        state = engine.setup(variant, case, fixed, "cpu")
        outputs = {"point": np.full(8, 0xA5A5, np.uint64)}
        engine.run(variant, state, both, outputs)
        engine.close(state)
        assert np.array_equal(outputs["point"], want), text
    assert all(np.array_equal(engine.fixed(case, 3)[name], fixed[name]) for name in fixed)
    assert all(np.array_equal(engine.prepare(case, 4)[name], fresh[name]) for name in fresh)


def test_profiles_have_the_shares_they_promise():
    n = 20_000

    def share(profile: str, bound: int) -> float:
        return sum(value < bound for value in inputs.to_ints(inputs.scalars(profile, n, 1))) / n

    assert share("A", 2**200) == 0
    assert share("B", 2**14) == pytest.approx(0.3, abs=0.02)
    assert share("C", 2**14) == pytest.approx(0.8, abs=0.02)
    assert share("D", 4) == pytest.approx(0.5, abs=0.02)
    assert share("E", 16) == 1 and share("E", 15) < 1
    assert share("sparse", 1) == pytest.approx(0.95, abs=0.02)


def test_points_and_scalars_of_one_seed_are_independent():
    assert not np.array_equal(inputs.logs("random", 50, 1), inputs.scalars("random", 50, 1))
    assert not np.array_equal(inputs.logs("random", 50, 1), inputs.logs("random", 50, 2))


def test_auto_is_a_variant_of_the_table():
    assert choose("auto").name in TABLE


def test_operation_counts_are_those_of_the_algorithm():
    points = inputs.points_from_logs(inputs.logs("random", 300, 1))
    scalars = inputs.scalars("random", 300, 1)
    work = prepare(choose("pippenger:c=8"), points).compute(scalars, 0).work
    assert (work["window_bits"], work["windows"]) == (8, 32)
    # At most one addition per point and window, two per bucket, one per window at the end.
    assert 300 * 32 * 0.9 < work["additions"] - 32 * (2 * 128 + 1) <= 300 * 32
    assert work["doublings"] == 8 * 32
    halved = prepare(choose("pippenger:c=8,glv=true"), points).compute(scalars, 0).work
    assert halved["windows"] == 16
