"""The trial on scripted clocks: blocks, order, budgets, red variants, the oracle's share, Ctrl-C."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest
from scripted_clock import MODELS, Scripted

from whet.errors import BadInput
from whet.evidence import statistics
from whet.evidence.readings import Red
from whet.evidence.record import CONTROL, EMPTY
from whet.evidence.trial import BUDGETS, Budget, Trial, custom

QUICK = replace(BUDGETS["quick"], rounds=6)
WRONG = Red("wrong output", "")


def run(source, names="abc", budget=QUICK, seed=3, **more):
    return Trial(source, list(names), names[0], budget, seed, **more).run()


def scripted(model="jitter", seed=1, **factors):
    return Scripted(factors or {"a": 1.0, "b": 1.0, "c": 0.5}, MODELS[model], seed)


def timed(source):
    return [order for order, label in zip(source.orders, source.labels, strict=True) if label[0] == "round"]


def test_every_block_starts_all_arms_and_names_the_baseline_first():
    source = scripted()
    result = run(source, names="bac")
    assert all(arms == ["b", "a", "c", CONTROL, EMPTY] for arms in source.blocks)
    assert [block.number for block in result.blocks] == list(range(len(source.blocks)))
    assert [block.cores for block in result.blocks] == [[number % 2] for number in range(len(source.blocks))]
    assert sum(block.rounds for block in result.blocks) == result.rounds


def test_every_round_holds_every_arm_in_random_order():
    source = scripted()
    result = run(source)
    assert all(sorted(order) == [CONTROL, EMPTY, "a", "b", "c"] for order in source.orders)
    assert len(Counter(map(tuple, source.orders))) >= 10
    for name in ("a", "b", "c", CONTROL, EMPTY):
        assert [sample.round for sample in result.samples[name]] == list(range(result.rounds))
        assert [sample.block for sample in result.samples[name]] == [n // 6 for n in range(result.rounds)]
    assert {sample.order for sample in result.samples["a"]} == set(range(5))


def test_the_first_round_of_each_block_is_kept_apart():
    source = scripted()
    result = run(source)
    assert source.labels[0] == ("warm-up", 0) and source.labels.count(("warm-up", 1)) == 1
    assert all(len(some) == len(result.blocks) for some in result.warm_up.values())
    assert [sample.block for sample in result.warm_up["a"]] == list(range(len(result.blocks)))
    assert len(set(source.labels)) == len(source.labels)


def test_same_seed_same_order_and_same_samples():
    first, second, other = scripted(), scripted(), scripted()
    same = run(first).samples == run(second).samples and first.orders == second.orders
    run(other, seed=4)
    assert same and other.orders[:20] != first.orders[:20]


def test_a_clear_difference_stops_at_the_least_number_of_blocks():
    result = run(scripted("real", a=1.0, b=2.0, c=0.5))
    assert len(result.blocks) == QUICK.blocks and result.stopped.startswith("decided after 5 blocks")


def test_one_open_candidate_keeps_the_trial_going():
    result = run(scripted("offsets 5 %", a=1.0, b=1.0, c=0.5))
    assert len(result.blocks) == QUICK.most_blocks and "reached 24 blocks" in result.stopped


def test_it_says_when_it_ran_out_of_time():
    budget = replace(QUICK, name="tiny", seconds=3.0)
    result = run(scripted("modes", a=1.0, b=1.0, c=1.0), budget=budget)
    assert "ran out of time" in result.stopped and "tiny" in result.stopped
    assert result.intervals["b"].blocks == len(result.blocks) >= 5


def test_a_quick_trial_of_a_millisecond_kernel_ends_in_ten_seconds():
    for model in ("real", "everything"):
        source = scripted(model, a=1.0, b=1.01)
        run(source, names="ab", budget=BUDGETS["quick"])
        assert source.now_s() <= 11


def test_a_slow_kernel_gets_fewer_rounds_in_each_block_rather_than_fewer_blocks():
    source = scripted("jitter", a=500.0, b=50.0)
    result = run(source, names="ab")
    assert len(result.blocks) >= 5 and {block.rounds for block in result.blocks} == {1}
    assert result.intervals["b"].high < 0.2 and source.now_s() < 25
    kept = run(scripted("jitter", a=500.0, b=50.0), names="ab", budget=custom(QUICK, rounds=3))
    assert {block.rounds for block in kept.blocks} == {3}


def test_a_kernel_that_is_too_slow_for_five_blocks_has_no_interval():
    source = scripted("jitter", a=9000.0, b=900.0)
    result = run(source, names="ab")
    assert result.intervals == {} and "ran out of time" in result.stopped and result.samples["b"]


def test_a_red_variant_loses_its_times_and_the_rest_goes_on():
    source = scripted(a=1.0, b=1.5, c=0.5)
    source.reds = {("b", 7): WRONG}
    result = run(source)
    assert result.reds == {"b": WRONG} and result.samples["b"] == result.warm_up["b"] == []
    assert set(result.intervals) == {"c"} and result.rounds > 7 and result.baseline == "a"
    assert all("b" not in order for order in timed(source)[8:])
    assert all("b" not in arms for arms in source.blocks[2:])


def test_a_variant_that_does_not_start_is_red():
    source = scripted(a=1.0, b=1.5, c=0.5)
    source.start_reds = {("c", 2): Red("died", "at start")}
    result = run(source)
    assert set(result.reds) == {"c"} and result.samples["c"] == [] and set(result.intervals) == {"b"}


@pytest.mark.parametrize("arm", ["a", CONTROL])
def test_a_red_baseline_is_replaced_and_the_control_follows(arm):
    """The control runs the baseline's code, so that its red is the baseline's."""
    source = scripted(a=1.0, b=1.0, c=0.5)
    source.reds = {(arm, 2): WRONG}
    result = run(source)
    assert result.baseline == "b" and result.reds == {"a": WRONG} and set(result.intervals) == {"c"}
    assert result.intervals["c"].ratio == pytest.approx(0.5, rel=0.1)
    assert source.blocks[1] == ["b", "c", CONTROL, EMPTY]
    assert all(CONTROL not in order for order in timed(source)[3:6])
    assert min(sample.block for sample in result.samples[CONTROL]) == 1 and result.samples["a"] == []
    assert result.control_interval.ratio == pytest.approx(1.0, rel=0.1)


def test_baseline_and_control_red_at_once_cost_one_variant():
    """They run the same code, so one fault shows in both; the next in line has nothing to do with it."""
    source = scripted(a=1.0, b=1.0, c=0.5)
    source.reds = {("a", 8): WRONG, (CONTROL, 8): WRONG}
    result = run(source)
    assert set(result.reds) == {"a"} and result.baseline == "b" and set(result.intervals) == {"c"}
    source = scripted(a=1.0, b=1.0, c=0.5)
    source.start_reds = {(CONTROL, 0): WRONG, ("a", 0): WRONG, ("b", 0): WRONG}
    assert set(run(source).reds) == {"a", "b"}


def test_one_survivor_ends_the_trial():
    source = scripted(a=1.0, b=1.0, c=1.0)
    source.reds = {("a", 1): WRONG, ("b", 1): WRONG}
    result = run(source)
    assert "fewer than two" in result.stopped and result.intervals == {} and result.rounds == 2


def test_nobody_survives():
    source = scripted(a=1.0, b=1.0)
    source.start_reds = {("a", 0): WRONG, ("b", 0): WRONG}
    result = run(source, names="ab")
    assert set(result.reds) == {"a", "b"} and result.baseline == "" and result.control is None
    assert source.orders == [] and "fewer than two" in result.stopped


def test_a_variant_alone_may_be_red_as_well():
    for reds in ({("a", 3): WRONG}, {(CONTROL, 3): WRONG}):
        source = scripted()
        source.reds = reds
        result = run(source, names="a")
        assert set(result.reds) == {"a"} and result.samples["a"] == [] and result.rounds == 4


def test_a_baseline_that_is_not_there_is_replaced_from_the_start():
    result = Trial(scripted(a=1.0, b=0.5), ["a", "b"], "refused", QUICK, 3).run()
    assert result.baseline == "a" and set(result.intervals) == {"b"}


def test_an_empty_arm_that_fails_is_no_variants_fault():
    source = scripted()
    source.reds = {(EMPTY, 3): Red("died", "")}
    result = run(source)
    assert result.reds == {} and set(result.lost) == {EMPTY} and result.samples[EMPTY] == []
    assert all(EMPTY not in arms for arms in source.blocks[1:]) and set(result.intervals) == {"b", "c"}


def test_one_variant_alone_is_timed_until_its_median_is_known():
    result = run(scripted("real"), names="a")
    assert len(result.blocks) == QUICK.blocks and result.intervals == {} and result.control is not None
    fine = run(scripted("real"), names="a", budget=replace(QUICK, half_width=0.03))
    assert QUICK.blocks < len(fine.blocks) < QUICK.most_blocks


def test_the_hook_for_honesty_hears_all_samples_at_every_look_and_drops_what_it_returns():
    heard = []

    def honest(samples):
        heard.append({arm: len(some) for arm, some in samples.items()})
        return {"c": Red("clock", "hid time")} if len(heard) == 2 else {}

    result = run(scripted("offsets 5 %", a=1.0, b=1.0, c=0.5), honest=honest)
    assert [counts["a"] for counts in heard[:2]] == [5 * 6, 7 * 6] and heard[0][EMPTY] == heard[0][CONTROL] == 30
    assert heard[-1]["a"] == result.rounds and set(result.reds) == {"c"}
    assert result.samples["c"] == [] and set(result.intervals) == {"b"}


def test_a_lie_found_at_the_end_leaves_no_interval():
    found = run(scripted(a=1.0, b=0.5), names="ab", honest=lambda samples: {"b": WRONG})
    assert set(found.reds) == {"b"} and found.intervals == found.others == found.ratios == {}


@pytest.mark.parametrize("at", [("round", 20), ("warm-up", 3), ("block", 3)])
def test_ctrl_c_loses_nothing_that_was_measured(at):
    source = scripted("offsets 5 %", a=1.0, b=1.0)
    source.interrupt_at = at
    result = run(source, names="ab")
    rounds = {"round": 20, "warm-up": 18, "block": 18}[at[0]]
    assert result.interrupted and result.stopped.startswith("interrupted after")
    assert result.rounds == rounds == len(result.samples["a"]) == len(result.samples["b"])
    assert sum(block.rounds for block in result.blocks) == rounds


def test_ctrl_c_after_five_blocks_still_has_an_interval():
    source = scripted("offsets 5 %", a=1.0, b=1.0)
    source.interrupt_at = ("round", 33)
    result = run(source, names="ab")
    assert result.intervals["b"].blocks == 6 and not run(scripted()).interrupted


def test_a_cheap_oracle_is_asked_every_time():
    source = scripted()
    source.oracle_ns = 1000
    run(source)
    assert all(source.fulls)


def test_a_dear_oracle_is_asked_first_last_and_when_nobody_expects_it():
    def asked(lot):
        source = scripted("modes", a=1.0, b=1.0, c=1.0)
        source.oracle_ns = 1_000_000_000
        result = run(source, budget=Budget("long", 60, 5, 60, 6, 0.01, 1), surprise=random.Random(lot))
        rounds = [full for full, label in zip(source.fulls, source.labels, strict=True) if label[0] == "round"]
        assert source.fulls[0] and source.fulls[-1] and result.samples["a"][-1].check == "full"
        assert 3 <= sum(rounds) < len(rounds) / 2
        assert Counter(sample.check for sample in result.samples["a"])["full"] == sum(rounds)
        return source.fulls

    first, second = asked(1), asked(2)
    assert first[:100] != second[:100]


def test_a_dear_oracle_does_not_cost_the_blocks_their_rounds():
    source = scripted("modes", a=1.0, b=1.0)
    source.oracle_ns = 1_000_000_000
    result = run(source, names="ab")
    assert {block.rounds for block in result.blocks[:-1]} == {QUICK.rounds}


def test_which_rounds_are_checked_does_not_hang_on_the_seed():
    patterns = []
    for _ in range(2):
        source = scripted("modes", a=1.0, b=1.0, c=1.0)
        source.oracle_ns = 500_000_000
        run(source, seed=3)
        patterns.append(source.fulls)
    assert patterns[0] != patterns[1]


def test_a_red_in_the_closing_round_counts():
    source = scripted(a=1.0, b=0.5)
    source.oracle_ns = 10**12
    source.reds = {("b", 30): WRONG}
    result = run(source, names="ab", budget=replace(QUICK, seconds=10**6), surprise=random.Random(1))
    assert source.labels[-1] == ("round", 30) and set(result.reds) == {"b"} and result.intervals == {}


def test_calls_of_a_batch_are_divided_out():
    result = run(Scripted({"a": 1.0, "b": 1.0}, MODELS["jitter"], 1, calls=10), names="ab")
    assert result.samples["a"][0].calls == 10
    assert result.intervals["b"].ratio == pytest.approx(1.0, rel=0.05)


def test_on_round_is_told_rounds_and_seconds():
    told = []
    result = run(scripted(), on_round=lambda rounds, seconds: told.append((rounds, seconds)))
    assert [rounds for rounds, _ in told] == list(range(1, result.rounds + 1))
    assert all(0 < one[1] < other[1] for one, other in pairwise(told))


def test_a_trial_by_mean_or_p90_judges_by_it():
    for judge in ("mean", "p90"):
        result = run(scripted("spikes", a=1.0, b=3.0), names="ab", judge=judge)
        assert result.judged_by == judge and judge not in result.others["b"] and "median" in result.others["b"]
        assert result.intervals["b"].ratio == pytest.approx(result.ratios["b"][judge])


def test_custom_budgets():
    changed = custom(BUDGETS["default"], rounds=3, seconds=20, blocks=40, confidence=0.95)
    assert (changed.rounds, changed.seconds, changed.blocks, changed.most_blocks) == (3, 20.0, 40, 40)
    assert changed.confidence == 0.95 and changed.name == "custom (default)" and changed.keep_rounds
    assert custom(QUICK) == QUICK
    exact = run(scripted(a=1.0, b=2.0), names="ab", budget=custom(QUICK, blocks=9))
    assert len(exact.blocks) == 9
    loose = run(scripted(a=1.0, b=2.0), names="ab", budget=custom(QUICK, blocks=9, confidence=0.8))
    assert loose.intervals["b"].half_width < exact.intervals["b"].half_width and loose.confidence == 0.8


@pytest.mark.parametrize(
    "wrong",
    [
        {"rounds": 0},
        {"rounds": -3},
        {"rounds": 10**9},
        {"seconds": 0},
        {"seconds": float("nan")},
        {"seconds": float("inf")},
        {"blocks": 4},
        {"blocks": 10**9},
        {"confidence": 1.0},
        {"confidence": 99},
        {"confidence": 0.2},
    ],
    ids=str,
)
def test_budgets_that_make_no_trial_are_refused(wrong):
    with pytest.raises(BadInput, match=f"--{next(iter(wrong))}") as caught:
        custom(QUICK, **wrong)
    assert "from" in caught.value.cure


def test_an_early_end_is_told_at_the_share_of_its_look_and_a_late_one_at_what_is_left():
    """Otherwise the look that is lucky would be told as if it were the only one."""
    early = run(scripted("real", a=1.0, b=2.0), names="ab")
    late = run(scripted("offsets 5 %", a=1.0, b=1.0), names="ab")
    for result, share in ((early, 0.1), (late, 0.6)):
        a, b = (statistics.times(result.samples[name]) for name in "ab")
        error = result.control_interval.error
        expected = statistics.interval(b, a, share=share, least_error=error)
        assert result.intervals["b"].half_width == pytest.approx(expected.half_width)
