"""The verdict on scripted clocks: seldom a false one, and how small a slowdown it finds."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from scripted_clock import MODELS, Scripted

from whet.evidence.record import Outcome
from whet.evidence.trial import BUDGETS, Budget, Trial
from whet.evidence.verdict import FEW_ROUNDS, Interval, interval, judge, outcome, rounds_needed

PAIR = {"plain": 1, "other": 1}


# The quick budget with fewer rounds at most: false verdicts come from few rounds, and the test has to end.
SHORT = replace(BUDGETS["quick"], most_rounds=70)


def compare(model: str, factor: float, seed: int, budget: Budget = SHORT) -> Interval:
    source = Scripted({"plain": 1.0, "other": factor}, MODELS[model], seed)
    return Trial(source, ["plain", "other"], "plain", PAIR, budget, seed).run().intervals["other"]


def decide(model: str, factor: float, seed: int, budget: Budget = SHORT) -> Outcome:
    return outcome(compare(model, factor, seed, budget), 0.02)


@pytest.mark.parametrize("model", MODELS)
def test_self_comparison_is_seldom_decided_wrongly(model, capsys, tried):
    """1,050 self-comparisons over all models; at most 1 % of them FASTER or SLOWER."""
    trials, said, naive = 150, Counter(), 0
    for seed in range(trials):
        found = compare(model, 1.0, seed)
        said[outcome(found, 0.02)] += 1
        naive += abs(found.of_medians - 1) > 0.02
    with capsys.disabled():
        counts = ", ".join(f"{number} {name}" for name, number in sorted(said.items()))
        print(f"\n{model}: {counts}; the medians alone would have been wrong {naive} times")
    assert said[Outcome.FASTER] + said[Outcome.SLOWER] <= trials / 100
    # The noise is worth the name: without an interval these would be false verdicts by the dozen.
    assert naive >= trials / 10 or model not in ("bimodal", "phases", "lognormal")
    tried("self-comparisons on scripted noise", trials)


def test_noise_that_can_be_averaged_out_ends_in_same():
    assert [decide("gaussian", 1.0, seed, BUDGETS["default"]) for seed in range(2)] == [Outcome.SAME] * 2


@pytest.mark.parametrize("model", ["gaussian", "spikes", "drift", "phases"])
def test_smallest_slowdown_found_in_95_percent(model, capsys, tried):
    """The published power: the smallest of these slowdowns that is SLOWER in 95 % of 40 trials."""
    trials, found = 40, None
    for slowdown in (0.03, 0.04, 0.06, 0.08, 0.12):
        hits = sum(decide(model, 1 + slowdown, seed) is Outcome.SLOWER for seed in range(trials))
        if hits >= 0.95 * trials:
            found = slowdown
            break
    with capsys.disabled():
        print(f"\nsmallest slowdown found in 95 % of quick trials under {model} noise: {found:.0%}")
    assert found is not None and found <= 0.08
    tried("slowdowns found on scripted noise", trials)


@pytest.mark.parametrize("factor, said", [(0.5, Outcome.FASTER), (2.0, Outcome.SLOWER)])
@pytest.mark.parametrize("model", MODELS)
def test_a_factor_of_two_is_always_found(model, factor, said):
    assert {decide(model, factor, seed) for seed in range(2)} == {said}


def test_interval_is_that_of_paired_rounds():
    """A disturbance that hits both sides of a round must not widen the interval of their ratio by its own size."""
    rng = np.random.default_rng(1)
    common = rng.lognormal(0, 0.5, 101)
    paired = interval(common * 0.8, common, 1)
    unpaired = interval(rng.permutation(common) * 0.8, common, 1)
    assert paired.ratio == pytest.approx(0.8) and paired.half_width < 1e-9 < unpaired.half_width


def test_a_variant_that_is_more_often_in_its_slow_mode_is_not_the_same():
    """Four rounds in ten it meets the baseline in the other mode; the typical round does not show it."""
    rng = np.random.default_rng(3)
    baseline, candidate = (np.where(rng.random(400) < share, 1.3, 1.0) for share in (0.4, 0.6))
    found = interval(candidate, baseline, 1)
    assert found.low >= 0.98 and found.high <= 1.02 and found.of_medians == 1.3
    verdict = judge("b", "a", found, effect=0.02, clock="wall")
    assert verdict.outcome is Outcome.UNDECIDED and "several modes" in verdict.reasons[-1]


def test_interval_does_not_depend_on_numpy_order_or_scale():
    rng = np.random.default_rng(2)
    one, two = rng.lognormal(0, 0.1, 40), rng.lognormal(0, 0.1, 40)
    first, scaled = interval(one, two, 5), interval(one * 1e6, two * 1e6, 5)
    assert (first.low, first.high) == pytest.approx((scaled.low, scaled.high))
    assert first.low < first.ratio < first.high
    assert interval(one, two, 5) == first != interval(one, two, 6)


def test_few_rounds_are_bounded_by_their_extremes():
    few = interval(np.array([1.0, 2.0, 3.0]), np.array([2.0, 2.0, 4.0]), 1)
    assert (few.low, few.high, few.rounds) == (0.25, 1.5, 3) and few.rounds < FEW_ROUNDS
    assert outcome(Interval(0.1, 0.1, 0.1, 4), 0.02) is Outcome.UNDECIDED
    assert outcome(Interval(0.1, 0.1, 0.1, 5), 0.02) is Outcome.FASTER


@pytest.mark.parametrize(
    "low, high, said",
    [
        (0.90, 0.979, Outcome.FASTER),
        (0.90, 0.981, Outcome.UNDECIDED),
        (0.98, 1.02, Outcome.SAME),
        (0.979, 1.01, Outcome.UNDECIDED),
        (1.019, 1.2, Outcome.UNDECIDED),
        (1.021, 1.2, Outcome.SLOWER),
        (0.5, 2.0, Outcome.UNDECIDED),
    ],
)
def test_thresholds(low, high, said):
    assert outcome(Interval((low + high) / 2, low, high, 30), 0.02) is said


def test_undecided_says_what_would_decide():
    wide = Interval(1.0, 0.96, 1.04, 20)
    assert rounds_needed(wide, 0.02) == 80
    verdict = judge("b", "a", wide, effect=0.02, clock="wall")
    assert verdict.outcome is Outcome.UNDECIDED and "60 more rounds" in verdict.reasons[-1]
    on_edge = judge("b", "a", Interval(0.98, 0.95, 1.0, 20), effect=0.02, clock="wall")
    assert "--effect" in on_edge.reasons[-1]


def test_a_note_forces_undecided():
    verdict = judge("b", "a", Interval(0.5, 0.5, 0.5, 50), effect=0.02, clock="wall", notes=["clock too coarse"])
    assert verdict.outcome is Outcome.UNDECIDED and verdict.reasons[0] == "clock too coarse"
    assert judge("b", "a", None, effect=0.02, clock="wall").outcome is Outcome.UNDECIDED
