"""Ticks of a clock, and one number of calls per turn for all variants of a trial."""

from __future__ import annotations

import pytest

from whet.evidence.clock import LONGEST_TURN_NS, MAX_CALLS, SLOWEST_TURN_NS, TARGET_NS, batch, quantum_ns


def test_quantum_of_a_coarse_clock():
    ticks = iter(range(10**7))
    assert quantum_ns(lambda: next(ticks) // 50 * 65_536) == 65_536
    assert quantum_ns(lambda: 5, limit=1000) == 1


@pytest.mark.parametrize("tick_ns", [1, 100, 65_536, 100_000])
@pytest.mark.parametrize("call_ns", [50, 3_000, 1_000_000, 10**9])
def test_turns_reach_a_hundred_ticks_or_say_so(tick_ns, call_ns):
    found = batch({"v": call_ns}, tick_ns, slot_cost_ns=10_000, room=10**6)
    assert 1 <= found.calls <= MAX_CALLS
    assert (found.calls * call_ns < 100 * tick_ns) == ("v" in found.coarse)


def test_the_fastest_variant_reaches_the_target():
    found = batch({"slow": 400_000.0, "fast": 100_000.0}, 50, slot_cost_ns=1000, room=10**6)
    assert found.calls * 100_000 == TARGET_NS and found.coarse == ()
    assert batch({"v": 10 * TARGET_NS}, 50, slot_cost_ns=1000, room=10**6).calls == 1


def test_the_slowest_variant_bounds_the_batch():
    found = batch({"slow": 50e6, "fast": 100_000.0}, 50, slot_cost_ns=1000, room=10**6)
    assert found.calls == SLOWEST_TURN_NS // 50_000_000 and found.coarse == ()
    for_the_tick = batch({"slow": 300e6, "fast": 1000.0}, 50, slot_cost_ns=1000, room=10**6)
    assert for_the_tick.calls == 5 and for_the_tick.coarse == ()
    hopeless = batch({"slow": float(LONGEST_TURN_NS), "fast": 1000.0}, 50, slot_cost_ns=1000, room=10**6)
    assert hopeless.calls == 1 and hopeless.coarse == ("fast",)


def test_memory_and_cost_bound_the_batch():
    found = batch({"fast": 100.0, "slow": 1e9}, 100, slot_cost_ns=0, room=3)
    assert found.calls <= 3 and found.coarse == ("fast",)
    assert batch({"v": 1000.0}, 1, slot_cost_ns=1e9, room=1000).calls == 1
    assert batch({}, 1, slot_cost_ns=1e9, room=1000).calls == 1
