"""Two runs side by side: environment first, the spread between runs in the interval, and nothing said beyond it."""

from __future__ import annotations

import random
from itertools import pairwise

import msgspec
import pytest

from scripted_runs import ENVIRONMENT, scripted_run
from whet.errors import BadInput
from whet.evidence import statistics
from whet.evidence.compare import INTERLEAVE, NOT_INTERLEAVED, compare
from whet.evidence.record import Control, Outcome
from whet.evidence.statistics import RunSpread, RunValue

CODE = "c0de" * 16


def blocked(seed, *, scale=1.0, blocks=10, variants=3, **more):
    return scripted_run(
        seed, repeats=8 * blocks, blocks=blocks, variants=variants, scale=scale, engine_sha256=CODE, **more
    )


def changes(before, after, effect=0.02, history=()):
    return {change.variant: change for change in compare(before, after, effect=effect, history=history).changes}


def repeated(runs, sd, first=1000, **more):
    """Runs of the same code whose times differ by luck alone."""
    rng = random.Random(first)
    return [blocked(first + n, scale=1 + rng.gauss(0, sd), **more) for n in range(runs)]


@pytest.mark.parametrize(
    ("scale", "expected"),
    [(1.0, Outcome.UNDECIDED), (1.1, Outcome.UNDECIDED), (1.5, Outcome.SLOWER), (0.6, Outcome.FASTER)],
)
def test_without_repeated_runs_only_a_large_change_is_one(scale, expected):
    for change in changes(blocked(1), blocked(2, scale=scale)).values():
        assert change.outcome is expected and change.low <= change.ratio <= change.high
        assert change.ratio == pytest.approx(scale, rel=0.01)
        assert change.after_ns / change.before_ns == pytest.approx(change.ratio)
        assert change.spread == statistics.BETWEEN_RUNS and change.repeats == 0
        assert "5.0%" in change.reason and "assumed" in change.reason
        assert (INTERLEAVE in change.reason) == (expected is Outcome.UNDECIDED)


@pytest.mark.parametrize(
    ("scale", "expected"),
    [(1.0, Outcome.SAME), (1.08, Outcome.SLOWER), (0.92, Outcome.FASTER), (1.02, Outcome.UNDECIDED)],
)
def test_repeated_runs_tell_how_much_runs_differ(scale, expected):
    history = repeated(12, 0.003)
    for change in changes(blocked(1), blocked(2, scale=scale), history=history).values():
        assert change.outcome is expected and change.repeats == 11 and change.spread < 0.006
        assert "11 repeats" in change.reason


def test_runs_that_measured_something_else_tell_nothing():
    before, after = blocked(1), blocked(2)
    others = [
        *(blocked(n, engine="graph") for n in range(20, 30)),
        *(scripted_run(n, repeats=80, engine_sha256=CODE) for n in range(30, 40)),
        *(scripted_run(n, repeats=80, blocks=10) for n in range(40, 50)),
        *(blocked(n, refused=(0, 1, 2)) for n in range(50, 60)),
        *(msgspec.structs.replace(blocked(n), environment={"cpu": {"model": "other"}}) for n in range(60, 70)),
        *[before, after] * 5,
    ]
    assert {change.repeats for change in changes(before, after, history=others).values()} == {0}


def test_few_repeats_can_only_raise_the_assumption():
    assert statistics.run_spread([[1.0, 1.3, 0.7]]).sd == pytest.approx(0.3)
    assert statistics.run_spread([[1.0, 1.001, 1.002]]) == RunSpread(statistics.BETWEEN_RUNS)
    assert statistics.run_spread([]) == statistics.run_spread([[1.0]]) == RunSpread(statistics.BETWEEN_RUNS)
    pooled = statistics.run_spread([[0.0, 0.1, 0.2], [5.0, 5.1, 5.2], [7.0, 7.2]])
    assert pooled.degrees == 5 and pooled.sd == pytest.approx(((4 * 0.01 + 0.02) / 5) ** 0.5)


def test_the_interval_between_runs_is_welchs():
    one, other = RunValue(0.0, 0.03, 10), RunValue(0.1, 0.03, 10)
    found = statistics.between_runs(one, other, RunSpread(0.0))
    assert found.high / found.ratio == pytest.approx(2.718281828 ** (2.8784 * 0.03 * 2**0.5), rel=1e-3)
    assert found.half_width < statistics.between_runs(one, other, RunSpread(0.05)).half_width
    assert found.half_width < statistics.between_runs(one, other, RunSpread(0.0), comparisons=4).half_width


def test_swapping_the_runs_swaps_the_verdict():
    forth, back = changes(blocked(1), blocked(2, scale=1.5)), changes(blocked(2, scale=1.5), blocked(1))
    for name in forth:
        assert (forth[name].outcome, back[name].outcome) == (Outcome.SLOWER, Outcome.FASTER)
        assert forth[name].ratio == pytest.approx(1 / back[name].ratio)


def test_a_control_that_differed_in_either_run_limits_the_change():
    before = blocked(1)
    after = msgspec.structs.replace(
        blocked(2, scale=1.5), control=Control(outcome=Outcome.SLOWER, ratio=1.6, low=1.5, high=1.7)
    )
    for pair in ((before, after), (after, before)):
        for change in changes(*pair).values():
            assert change.outcome is Outcome.UNDECIDED and "from itself by 60.0%" in change.reason


def test_runs_from_before_there_were_blocks_still_compare():
    """Their processes kept the core that the scheduler gave them: only a factor of two and more is a change."""
    old = scripted_run(1, repeats=100, engine_sha256=CODE)
    assert {change.outcome for change in changes(old, scripted_run(2, repeats=100, scale=1.5)).values()} == {
        Outcome.UNDECIDED
    }
    for after in (scripted_run(2, repeats=100, scale=3), blocked(2, scale=3)):
        found = changes(old, after, history=repeated(10, 0.003))
        assert {change.outcome for change in found.values()} == {Outcome.SLOWER}
        assert {change.spread for change in found.values()} == {statistics.BETWEEN_DISTURBED_RUNS}


def test_a_run_beside_other_programs_tells_little_about_another():
    """They come and go: of 310 rows of the same code beside builds and tests three were SLOWER by the usual spread."""
    before, after = blocked(1), blocked(2, scale=1.5)
    crowd = {"cpu": {"usable_cores": 2}, "load": {"1min": 6.5}}
    history = repeated(10, 0.003)
    for pair in (
        (before, msgspec.structs.replace(after, environment=after.environment | crowd)),
        (msgspec.structs.replace(before, environment=before.environment | crowd), after),
    ):
        for change in changes(*pair, history=history).values():
            assert change.outcome is Outcome.UNDECIDED and change.spread == statistics.BETWEEN_DISTURBED_RUNS
    quiet = {"cpu": {"usable_cores": 2}, "load": {"1min": 1.5}}
    calm = msgspec.structs.replace(after, environment=after.environment | quiet)
    assert {change.outcome for change in changes(before, calm).values()} == {Outcome.SLOWER}


def test_the_same_runs_give_the_same_numbers_and_differ_in_nothing():
    run = blocked(1)
    compared = compare(run, run, effect=0.02)
    assert compared == compare(run, run, effect=0.02)
    assert compared.environment == [] and compared.warnings == [] and compared.note == NOT_INTERLEAVED
    assert {change.ratio for change in compared.changes} == {1.0}


def test_batches_count_per_call():
    before = blocked(1)
    samples = [msgspec.structs.replace(s, calls=4, wall_ns=s.wall_ns * 4) for s in before.samples]
    after = msgspec.structs.replace(before, id="batched", samples=samples)
    assert {change.ratio for change in changes(before, after).values()} == {1.0}


def test_red_in_either_run_is_refused_without_a_time():
    green, red = blocked(1), blocked(2, refused=(1,))
    for pair in ((green, red), (red, green)):
        change = changes(*pair)["pippenger"]
        assert change.outcome is Outcome.REFUSED and red.id in change.reason
        assert change.ratio is None and change.before_ns is None and change.after_ns is None


def test_too_few_repeats_decide_nothing():
    few = changes(scripted_run(1, repeats=4), scripted_run(2, repeats=100, scale=3))
    assert {change.outcome for change in few.values()} == {Outcome.UNDECIDED}
    assert all("too few" in change.reason and change.ratio is None for change in few.values())


def test_variants_of_one_run_only_are_named():
    compared = compare(blocked(1, variants=3), blocked(2, variants=2), effect=0.02)
    assert (compared.only_before, compared.only_after) == (["pippenger:glv=true"], [])
    assert [change.variant for change in compared.changes] == ["plain", "pippenger"]


def test_environment_code_and_device_differences_are_listed():
    before = scripted_run(1)
    after = msgspec.structs.replace(
        scripted_run(2),
        device="webgpu:x",
        environment={**ENVIRONMENT, "cpu": {**ENVIRONMENT["cpu"], "governor": "powersave"}},
    )
    compared = compare(before, after, effect=0.02)
    assert [difference.field for difference in compared.environment] == ["cpu.governor", "device", "engine code"]
    (warning,) = compared.warnings
    assert "cpu.governor" in warning.seen and warning.advice


def test_unlike_runs_are_refused():
    run = scripted_run(1)
    with pytest.raises(BadInput, match="different engines"):
        compare(run, scripted_run(2, engine="graph"), effect=0.02)
    case = msgspec.structs.replace(run.case, sizes={"n": 4096})
    with pytest.raises(BadInput, match="different cases"):
        compare(run, msgspec.structs.replace(run, case=case), effect=0.02)


@pytest.mark.parametrize("history", [False, True])
def test_neighbouring_runs_of_the_same_code_are_seldom_told_apart(history, tried):
    """Offsets per run of 5 % and per process of 3 %: at most 1 % of rows FASTER or SLOWER, with and without history."""
    rows = wrong = 0
    for group in range(8):
        runs = repeated(26, 0.05, first=10_000 * (group + 1), variants=2, blocks=6, process_sd=0.03)
        past, runs = runs[:10], runs[10:]
        for pair in pairwise(runs):
            found = [change.outcome for change in changes(*pair, history=past if history else ()).values()]
            rows += len(found)
            wrong += sum(outcome in (Outcome.FASTER, Outcome.SLOWER) for outcome in found)
    assert rows == 240 and wrong <= 2
    tried("self-comparisons", rows)


def test_an_interval_from_inside_the_runs_alone_would_often_be_wrong():
    """The fault that the spread between runs is there for."""
    runs = repeated(40, 0.05, variants=1, blocks=6)
    values = [statistics.run_value(statistics.times(run.samples)) for run in runs]
    found = [
        statistics.outcome(statistics.between_runs(one, other, RunSpread(0.0)), 0.02) for one, other in pairwise(values)
    ]
    assert sum(one in (Outcome.FASTER, Outcome.SLOWER) for one in found) >= 13
