"""Every planted fault of the decode kernel shows in bits or in counters; they are in native/decode/plants.hpp."""

from __future__ import annotations

from dataclasses import replace

import faulty_decode
import pytest

from native_build import GCC, build
from whet.decode.cases import random_trial
from whet.decode.exact import exact_step

pytestmark = [pytest.mark.native_build, pytest.mark.xdist_group("native-faults")]
WORKERS = 2
SPLIT = 3
ONLY_A_RACE = "barrier_relaxed"  # right by luck on x86; test_decode_races.py has the thread sanitizer see it


@pytest.fixture(scope="module")
def plants():
    build(GCC, "whet_faulty_decode")
    return faulty_decode.plant_names()


@pytest.fixture(scope="module")
def steps():
    """Steps with their exact answers; together they reach every part of the kernel."""
    trials = [random_trial(seed) for seed in range(3000, 3016)]
    trials += [replace(t, shape=replace(t.shape, quantise=True)) for t in trials[:4]]
    return [
        (trial, exact_step(trial.shape, trial.matrices, trial.norms, **trial.inputs(), wo_split=SPLIT))
        for trial in trials
    ]


def is_caught(number, steps):
    for trial, want in steps:
        out, arrivals = faulty_decode.run(trial, number, wo_split=SPLIT, workers=WORKERS)
        if out.tobytes() != want.tobytes() or arrivals != [WORKERS] * 4 + [SPLIT]:
            return True
    return False


def test_every_planted_fault_is_caught(plants, steps, tried):
    assert not is_caught(0, steps), "red without a fault"
    visible = [number for number, name in enumerate(plants) if name not in ("none", ONLY_A_RACE)]
    unseen = [plants[number] for number in visible if not is_caught(number, steps)]
    assert not unseen
    assert len(visible) >= 20
    tried("planted faults", len(visible))
