"""Two runs side by side: environment first, honest intervals, and nothing said about what cannot be compared."""

from __future__ import annotations

import msgspec
import pytest

from scripted_runs import ENVIRONMENT, scripted_run
from whet.errors import BadInput
from whet.evidence.compare import NOT_INTERLEAVED, compare
from whet.evidence.record import Outcome


def changes(before, after, effect=0.02):
    return {change.variant: change for change in compare(before, after, effect=effect).changes}


@pytest.mark.parametrize(
    ("scale", "expected"),
    [(1.0, Outcome.SAME), (1.2, Outcome.SLOWER), (0.8, Outcome.FASTER), (1.02, Outcome.UNDECIDED)],
)
def test_a_change_is_found_in_its_direction(scale, expected):
    before, after = scripted_run(1, repeats=200), scripted_run(2, repeats=200, scale=scale)
    for change in changes(before, after).values():
        assert change.outcome is expected
        assert change.low <= change.ratio <= change.high
        assert change.ratio == pytest.approx(scale, rel=0.01)
        assert change.after_ns / change.before_ns == pytest.approx(change.ratio)


def test_swapping_the_runs_swaps_the_verdict():
    one, other = scripted_run(1, repeats=100), scripted_run(2, repeats=100, scale=1.3)
    forth, back = changes(one, other), changes(other, one)
    for name in forth:
        assert (forth[name].outcome, back[name].outcome) == (Outcome.SLOWER, Outcome.FASTER)
        assert forth[name].ratio == pytest.approx(1 / back[name].ratio)


def test_the_same_runs_give_the_same_numbers():
    one, other = scripted_run(1), scripted_run(2)
    assert compare(one, other, effect=0.02) == compare(one, other, effect=0.02)


def test_identical_runs_differ_in_nothing():
    run = scripted_run(1, repeats=100)
    compared = compare(run, run, effect=0.02)
    assert compared.environment == [] and compared.warnings == []
    assert {change.outcome for change in compared.changes} == {Outcome.SAME}
    assert compared.note == NOT_INTERLEAVED


def test_batches_count_per_call():
    before = scripted_run(1)
    samples = [msgspec.structs.replace(s, calls=4, wall_ns=s.wall_ns * 4) for s in before.samples]
    after = msgspec.structs.replace(before, id="batched", samples=samples)
    assert {change.ratio for change in changes(before, after).values()} == {1.0}


def test_red_in_either_run_is_refused_without_a_time():
    green, red = scripted_run(1), scripted_run(2, refused=(1,))
    for pair in ((green, red), (red, green)):
        change = changes(*pair)["pippenger"]
        assert change.outcome is Outcome.REFUSED and red.id in change.reason
        assert change.ratio is None and change.before_ns is None and change.after_ns is None


def test_too_few_repeats_decide_nothing():
    few = changes(scripted_run(1, repeats=4), scripted_run(2, repeats=100, scale=3))
    assert {change.outcome for change in few.values()} == {Outcome.UNDECIDED}
    assert all("too few" in change.reason and change.ratio is None for change in few.values())


def test_few_repeats_are_bounded_by_their_extremes():
    before, after = scripted_run(1, repeats=6), scripted_run(2, repeats=6)
    change = changes(before, after)["plain"]
    old, new = ([s.wall_ns for s in run.samples if s.variant == "plain"] for run in (before, after))
    assert (change.low, change.high) == (min(new) / max(old), max(new) / min(old))


def test_variants_of_one_run_only_are_named():
    compared = compare(scripted_run(1, variants=3), scripted_run(2, variants=2), effect=0.02)
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


def test_false_alarms_are_rare(tried):
    """Equal distributions, 300 pairs: with a 99 % interval and a 2 % effect none should be called a change."""
    pairs = 300
    runs = [scripted_run(seed, variants=1, repeats=30) for seed in range(2 * pairs)]
    said = [changes(*pair)["plain"].outcome for pair in zip(runs[::2], runs[1::2], strict=True)]
    wrong = sum(outcome in (Outcome.FASTER, Outcome.SLOWER) for outcome in said)
    assert wrong <= pairs // 100
    tried("self-comparisons", pairs)
