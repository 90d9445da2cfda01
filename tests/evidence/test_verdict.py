"""The verdict in words: what decides, what would, what the control forbids, what other statistics say."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from scripted_clock import MODELS, Scripted

from scripted_runs import scripted_run
from whet.evidence import statistics
from whet.evidence.budgets import BUDGETS
from whet.evidence.headline import headline
from whet.evidence.record import Outcome
from whet.evidence.statistics import Interval, Times
from whet.evidence.trial import Trial
from whet.evidence.verdict import AGAINST, judge, of_trial, refused

CALM = Interval(1.0, 0.995, 1.005, 20, 160)


def verdict(found, **more):
    return judge("b", "a", found, effect=0.02, clock="wall", **{"control": CALM, **more})


def test_a_trial_becomes_a_verdict():
    source = Scripted({"a": 1.0, "b": 0.5}, MODELS["real"], 1)
    result = Trial(source, ["a", "b"], "a", BUDGETS["quick"], 1).run()
    said = of_trial(result, "b", effect=0.02, clock="wall")
    assert said.outcome is Outcome.FASTER and (said.candidate, said.baseline) == ("b", "a")
    assert said.low < said.ratio < said.high < 0.98 and said.judged_by == "median" and said.confidence == 0.99
    assert {"median", "mean"} <= set(said.ratios) and said.ratios["median"] == pytest.approx(said.ratio)
    assert "over 5 blocks lies below 0.9" in said.reasons[0]


@pytest.mark.parametrize(
    ("found", "expected", "words"),
    [
        (Interval(0.9, 0.88, 0.92, 9, 72), Outcome.FASTER, "lies below 0.98"),
        (Interval(1.1, 1.08, 1.12, 9, 72), Outcome.SLOWER, "lies above 1.02"),
        (Interval(1.0, 0.99, 1.01, 9, 72), Outcome.SAME, "lies within 0.98 to 1.02"),
        (Interval(1.0, 0.97, 1.03, 9, 72), Outcome.UNDECIDED, "crosses 0.98 and 1.02"),
    ],
)
def test_the_first_reason_says_where_the_interval_lies(found, expected, words):
    said = verdict(found)
    assert said.outcome is expected and words in said.reasons[0] and "99 % interval" in said.reasons[0]


def test_undecided_says_what_would_decide():
    assert "more blocks would decide" in verdict(Interval(1.0, 0.96, 1.04, 20, 160)).reasons[-1]
    assert "--effect" in verdict(Interval(0.98, 0.95, 1.0, 20, 160)).reasons[-1]
    assert "5" in verdict(None).reasons[0] and "--seconds" in verdict(None).reasons[0]
    few = verdict(None, judged_by="p99")
    assert "500" in few.reasons[0] and "--judge median" in few.reasons[0]


def test_a_control_that_differs_forbids_what_is_closer_to_1():
    far = Interval(1.05, 1.03, 1.07, 20, 160)
    said = verdict(Interval(1.04, 1.03, 1.05, 20, 160), control=far)
    assert said.outcome is Outcome.UNDECIDED and "the control, a against itself, came out at 1.050" in said.reasons[-1]
    assert "would be decided" in said.reasons[1]
    beyond = verdict(Interval(1.2, 1.15, 1.25, 20, 160), control=far)
    assert beyond.outcome is Outcome.SLOWER and "lies above 1.05" in beyond.reasons[0]
    assert "control" in beyond.reasons[-1]
    same = verdict(Interval(1.0, 0.99, 1.01, 20, 160), control=far)
    assert same.outcome is Outcome.UNDECIDED
    near = verdict(Interval(1.04, 1.03, 1.05, 20, 160), control=Interval(1.01, 0.95, 1.07, 20, 160))
    assert near.outcome is Outcome.SLOWER and len(near.reasons) == 1


def test_a_missing_control_is_said():
    assert "noise floor is not known" in verdict(Interval(0.5, 0.4, 0.6, 9, 72), control=None).reasons[-1]


def mixed(rng, share, fast, slow, *, blocks=20, rounds=8):
    """Times of an arm that is slow in some of its rounds."""
    rows = np.where(rng.random((blocks, rounds)) < share, slow, fast) * rng.lognormal(0, 0.005, (blocks, rounds))
    return Times(rows.ravel(), np.arange(rows.size), np.repeat(np.arange(blocks), rounds))


def told(candidate, baseline):
    by = {name: statistics.interval(candidate, baseline, judge=name) for name in ("mean", "p90", "p99")}
    others = {name: one for name, one in by.items() if one}
    return verdict(statistics.interval(candidate, baseline), others=others)


def test_a_faster_median_with_a_slower_mean_says_so():
    """0.93 times in 70 % of rounds and three times in the others: the mean is 1.55 times the baseline's."""
    rng = np.random.default_rng(8)
    said = told(mixed(rng, 0.3, 0.93, 3.0, rounds=31), mixed(rng, 0, 1.0, 1.0, rounds=31))
    assert said.outcome is Outcome.FASTER
    assert any("its mean says slower: 1.5" in reason for reason in said.reasons)
    assert any("p99" in reason for reason in said.reasons)


def test_a_variant_that_is_more_often_in_its_slow_mode_is_not_the_same():
    rng = np.random.default_rng(3)
    baseline, candidate = mixed(rng, 0.01, 1.0, 1.8, blocks=60), mixed(rng, 0.1, 1.0, 1.8, blocks=60)
    assert statistics.outcome(statistics.interval(candidate, baseline), 0.02) is Outcome.SAME
    said = told(candidate, baseline)
    assert said.outcome is Outcome.UNDECIDED and "mean says slower" in said.reasons[1]


def test_equal_tails_are_not_mentioned():
    rng = np.random.default_rng(5)
    quiet = [told(mixed(rng, 0.1, 0.9, 1.8), mixed(rng, 0.1, 1.0, 2.0)) for _ in range(20)]
    assert all(one.outcome is Outcome.FASTER and len(one.reasons) == 1 for one in quiet)


def test_a_note_forces_undecided():
    said = verdict(Interval(0.5, 0.5, 0.5, 50, 400), notes=["clock too coarse"])
    assert said.outcome is Outcome.UNDECIDED and said.reasons[0] == "clock too coarse"
    assert verdict(None, notes=["clock too coarse"]).reasons == ["clock too coarse"]


def test_refused_has_a_reason_and_no_number():
    said = refused("b", "a", "wrong output: x", effect=0.02, clock="wall")
    assert said.outcome is Outcome.REFUSED and said.ratio is None and said.reasons == ["wrong output: x"]


def test_the_headline_repeats_what_speaks_against_it():
    run = scripted_run(1, variants=2)
    (first,) = run.verdicts
    assert first.outcome is Outcome.FASTER and "mean" not in headline(run).detail
    doubted = msgspec.structs.replace(first, reasons=[*first.reasons, f"{AGAINST} mean says slower: 1.6 times"])
    detail = headline(msgspec.structs.replace(run, verdicts=[doubted])).detail
    assert "But its mean says slower: 1.6 times." in detail
