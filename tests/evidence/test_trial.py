"""The trial on scripted clocks: order, budgets, red variants, the oracle's share."""

from __future__ import annotations

from collections import Counter

import pytest
from scripted_clock import MODELS, Scripted

from whet.evidence.claims import Red
from whet.evidence.clock import MAX_CALLS, batches, quantum_ns
from whet.evidence.trial import BUDGETS, WARM_UP_ROUNDS, Budget, Trial, call_times

ONE = {"a": 1, "b": 1, "c": 1}


def run(source, names="abc", budget=BUDGETS["quick"], seed=3, **more):
    return Trial(source, list(names), names[0], ONE, budget, seed, **more).run()


def scripted(model="gaussian", seed=1, **factors):
    return Scripted(factors or {"a": 1.0, "b": 1.0, "c": 0.5}, MODELS[model], seed)


def test_every_round_holds_every_variant_in_random_order():
    source = scripted()
    result = run(source)
    assert all(sorted(order) == ["a", "b", "c"] for order in source.orders)
    assert len(Counter(map(tuple, source.orders))) >= 5
    for name in "abc":
        assert [sample.round for sample in result.samples[name]] == list(range(result.rounds))
    assert {sample.order for sample in result.samples["a"]} == {0, 1, 2}


def test_same_seed_same_order_and_same_samples():
    first, second, other = scripted(), scripted(), scripted()
    same = run(first).samples == run(second).samples and first.orders == second.orders
    run(other, seed=4)
    assert same and other.orders[:20] != first.orders[:20]


def test_warm_up_is_kept_apart():
    result = run(scripted())
    assert [len(some) for some in result.warm_up.values()] == [WARM_UP_ROUNDS] * 3
    assert all(len(some) == result.rounds for some in result.samples.values())


def test_it_stops_when_the_intervals_are_narrow_enough():
    result = run(scripted("gaussian", a=1.0, b=2.0, c=0.5))
    assert "narrow enough" in result.stopped and BUDGETS["quick"].rounds <= result.rounds < 40


def test_it_says_when_it_ran_out_of_time():
    result = run(scripted("bimodal", a=1.0, b=1.0, c=1.0), budget=Budget("tiny", 0.1, 15, 300, 0.1, 1))
    assert "ran out of time" in result.stopped and "tiny" in result.stopped
    assert result.intervals["b"].rounds == result.rounds


def test_a_slow_kernel_still_gets_five_rounds_within_twice_the_budget():
    result = run(scripted("gaussian", a=900.0, b=90.0, c=9.0), budget=BUDGETS["quick"])
    assert 5 <= result.rounds <= 30 and result.intervals["c"].high < 0.2


def test_a_red_variant_loses_its_times_and_the_rest_goes_on():
    source = scripted(a=1.0, b=1.5, c=0.5)
    source.reds = {("b", 7): Red("wrong output", "")}
    result = run(source)
    assert set(result.reds) == {"b"} and result.samples["b"] == result.warm_up["b"] == []
    assert set(result.intervals) == {"c"} and result.rounds > 7
    assert all("b" not in order for order in source.orders[WARM_UP_ROUNDS + 8 :])


def test_a_red_baseline_is_replaced_by_the_first_green_variant():
    source = scripted(a=1.0, b=1.0, c=0.5)
    source.reds = {("a", 2): Red("wrong output", "")}
    result = run(source)
    assert result.baseline == "b" and set(result.intervals) == {"c"}
    assert result.intervals["c"].ratio == pytest.approx(0.5, rel=0.1)


def test_one_survivor_ends_the_trial():
    source = scripted(a=1.0, b=1.0, c=1.0)
    source.reds = {("a", 1): Red("wrong output", ""), ("b", 1): Red("wrong output", "")}
    result = run(source)
    assert "fewer than two" in result.stopped and result.intervals == {} and result.rounds < 5


def test_one_variant_alone_is_timed_for_the_rounds_of_its_budget():
    result = run(scripted(), names="a")
    assert result.rounds == BUDGETS["quick"].rounds and result.intervals == {}


def test_a_cheap_oracle_is_asked_every_time():
    source = scripted()
    source.oracle_ns = 1000
    run(source)
    assert all(source.fulls)


def test_a_dear_oracle_is_asked_first_last_and_in_between():
    source = scripted("bimodal", a=1.0, b=1.0, c=1.0)
    source.oracle_ns = 1_000_000_000
    result = run(source, budget=Budget("long", 30, 15, 200, 0.01, 1))
    timed = source.fulls[WARM_UP_ROUNDS:]
    assert timed[0] and timed[-1] and 3 <= sum(timed) < len(timed) / 2
    assert result.samples["a"][-1].check == "full"
    assert Counter(sample.check for sample in result.samples["a"]) == Counter(
        full=sum(timed), digest=len(timed) - sum(timed)
    )


def test_call_times_divide_by_the_batch():
    source = scripted(a=1.0, b=1.0)
    result = Trial(source, ["a", "b"], "a", {"a": 10, "b": 1}, BUDGETS["quick"], 1).run()
    assert result.intervals["b"].ratio == pytest.approx(1.0, rel=0.1)
    assert call_times(result.samples["a"]).mean() == pytest.approx(1e6, rel=0.1)


def test_quantum_of_a_coarse_clock():
    ticks = iter(range(10**7))
    assert quantum_ns(lambda: next(ticks) // 50 * 65_536) == 65_536
    assert quantum_ns(lambda: 5, limit=1000) == 1


@pytest.mark.parametrize("tick_ns", [1, 100, 65_536, 100_000])
@pytest.mark.parametrize("call_ns", [50, 3_000, 1_000_000, 10**9])
def test_batches_reach_a_hundred_ticks_or_say_so(tick_ns, call_ns):
    found = batches({"v": call_ns}, tick_ns, slot_cost_ns=10_000, room=10**6)
    assert 1 <= found.calls["v"] <= MAX_CALLS
    assert (found.calls["v"] * call_ns < 100 * tick_ns) == ("v" in found.coarse)


def test_memory_bounds_the_batch():
    found = batches({"fast": 100.0, "slow": 1e9}, 100, slot_cost_ns=0, room=3)
    assert found.calls == {"fast": 3, "slow": 1} and found.coarse == ("fast",)
    dear = batches({"v": 1000.0}, 1, slot_cost_ns=1e9, room=1000)
    assert dear.calls == {"v": 1} and dear.coarse == ()
