"""Each warning shows when its cause is there and keeps quiet when it is not."""

from __future__ import annotations

import numpy as np
import pytest

from whet.evidence import warnings
from whet.evidence.record import Control, Outcome, Sample
from whet.evidence.warnings import Kind

RNG = np.random.default_rng(1)
CALM = {"a": 1e6 * (1 + 0.005 * RNG.standard_normal(60)), "b": 2e6 * (1 + 0.005 * RNG.standard_normal(60))}


def sample(cpu_share):
    return Sample(variant="a", round=0, order=0, seed=0, calls=1, wall_ns=10**6, cpu_ns=int(cpu_share * 10**6))


def control(outcome):
    return Control(outcome=outcome, ratio=1.06, low=1.03, high=1.09)


IDLE = {"load": {"1min": 0.1}, "cpu": {"usable_cores": 8}, "power": {"source": "mains"}}
QUIET = {
    Kind.NOISY: lambda: warnings.noisy(CALM),
    Kind.TOO_SHORT: lambda: warnings.too_short({"a": 5e6}, 1, 100),
    Kind.FIRST_REPEATS_SLOW: lambda: warnings.first_repeats_slow({"a": CALM["a"][:2]}, CALM),
    Kind.BACKGROUND_LOAD: lambda: warnings.background_load([sample(0.99)] * 9, IDLE),
    Kind.LOW_PRIORITY: lambda: warnings.low_priority(0),
    Kind.THROTTLING: lambda: warnings.throttling(CALM),
    Kind.POWER_SOURCE: lambda: warnings.power_source(IDLE),
    Kind.DIFFERENT_ENVIRONMENT: lambda: warnings.different_environment([]),
    Kind.SOFTWARE_ADAPTER: lambda: warnings.software_adapter({"adapter": {"device": "GeForce", "type": "DiscreteGPU"}}),
    Kind.CONTROL_DIFFERS: lambda: warnings.control_differs(control(Outcome.UNDECIDED)),
    Kind.OFFICIAL_LOST: lambda: warnings.officials_lost(0),
    Kind.WEAK_TASK: lambda: warnings.weak_task([]),
    Kind.QUANTISED_CLOCK: lambda: warnings.quantised_clock(CALM, [], 100),
    Kind.NOT_GATED: lambda: warnings.not_gated("pyperf", 0),
}
LOUD = {
    Kind.NOISY: lambda: warnings.noisy({"a": 1e6 * RNG.lognormal(0, 0.3, 60)}),
    Kind.TOO_SHORT: lambda: warnings.too_short({"a": 800.0, "b": 1e5}, 40, 100),
    Kind.FIRST_REPEATS_SLOW: lambda: warnings.first_repeats_slow({"a": np.array([9e6, 1e6])}, CALM),
    Kind.BACKGROUND_LOAD: lambda: warnings.background_load([], {**IDLE, "load": {"1min": 7.0}}),
    Kind.LOW_PRIORITY: lambda: warnings.low_priority(15),
    Kind.THROTTLING: lambda: warnings.throttling({k: v * np.linspace(1, 1.4, 60) for k, v in CALM.items()}),
    Kind.POWER_SOURCE: lambda: warnings.power_source({"power": {"source": "battery", "battery_percent": 40}}),
    Kind.DIFFERENT_ENVIRONMENT: lambda: warnings.different_environment(["cpu.model", "a", "b", "c", "d"]),
    Kind.SOFTWARE_ADAPTER: lambda: warnings.software_adapter(
        {"adapter": {"device": "llvmpipe (LLVM 15)", "type": "CPU"}}
    ),
    Kind.CONTROL_DIFFERS: lambda: warnings.control_differs(control(Outcome.SLOWER)),
    Kind.OFFICIAL_LOST: lambda: warnings.officials_lost(2),
    Kind.WEAK_TASK: lambda: warnings.weak_task(["plain is the oracle as well"]),
    Kind.QUANTISED_CLOCK: lambda: warnings.quantised_clock({"a": RNG.choice([1e5, 2e5], 60)}, [], 100),
    Kind.NOT_GATED: lambda: warnings.not_gated("pyperf", 2),
}


# A rig of a device elsewhere says these itself.
OF_DEVICES = {Kind.DEVICE_DRIFT, Kind.DISTURBED}


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind not in OF_DEVICES], ids=lambda kind: kind.value[0])
def test_warning_follows_its_cause(kind):
    assert QUIET[kind]() == []
    (found,) = LOUD[kind]()
    assert found.kind == kind.value[0] and found.seen and found.why and found.advice


def test_one_variant_that_slows_down_is_no_throttling():
    assert warnings.throttling({**CALM, "b": CALM["b"] * np.linspace(1, 1.4, 60)}) == []


def test_waiting_for_a_core_is_load_but_sleeping_is_not():
    assert warnings.background_load([sample(0.7)] * 9, IDLE) and not warnings.background_load([sample(0.1)] * 9, IDLE)


def test_a_coarse_batch_is_named_once():
    (found,) = warnings.quantised_clock({"a": RNG.choice([1e5, 2e5], 60)}, ["a"], 65_536)
    assert "65,536" in found.seen


def test_noise_is_the_width_of_the_middle_half():
    """A few spikes are no noise; a middle half of 12 % is."""
    spiky = np.r_[CALM["a"], [9e6] * 5]
    assert warnings.noisy({"a": spiky}) == []
    (found,) = warnings.noisy({"a": np.linspace(0.88e6, 1.12e6, 61)})
    assert "12%" in found.seen


def test_empty_environment_and_no_samples_warn_of_nothing():
    assert warnings.background_load([], {}) == warnings.power_source({}) == warnings.software_adapter({}) == []
    assert warnings.noisy({}) == warnings.throttling({}) == warnings.first_repeats_slow({}, {}) == []
