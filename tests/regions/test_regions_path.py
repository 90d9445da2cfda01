"""Critical path and predictions, against launches that were simulated with and without the change."""

from __future__ import annotations

import tomllib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regions_launch import Launch, rich_schema_text
from whet.errors import BadInput, Unsupported
from whet.regions.accounting import account
from whet.regions.capture import CELL, About, from_legacy, load, make_capture, save
from whet.regions.critical import Barriers, Replay, critical_path
from whet.regions.prediction import Outcome, check_prediction, predict
from whet.regions.schema import builtin, parse
from whet.regions.sources import Event, from_events

SCHEMA = parse(tomllib.loads(rich_schema_text()), where="test")


def capture_of(launch, **about):
    grid = {**launch.grid, "wo_split": launch.wo_split, "trips": launch.trips}
    return make_capture(
        launch.cells(CELL), SCHEMA, About(tick_source="globaltimer", grid=grid, launch={"layer": 3}, **about)
    )


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("split", [1, 4])
def test_a_wait_is_explained_by_the_worker_that_came_last(seed, split):
    launch = Launch(seed=seed, seqs=2, trips=3, wo_split=split)
    barriers = Barriers(account(capture_of(launch)))
    for worker, waits in barriers.waits.items():
        (barrier,) = [wait for wait in waits if wait.region == 4]
        assert barrier.cause == launch.last_arriver[worker // 64]
        for wait in waits:
            if wait.region == 11:
                assert wait.cause % 8 == 0 and wait.released == launch.events[wait.cause, 1][-1][1]


@pytest.mark.parametrize("what", ["wo_ns", "fc1_ns", "fc2_ns"])
@pytest.mark.parametrize("factor", [2, 8])
@pytest.mark.parametrize("split", [1, 2])
def test_a_prediction_matches_the_launch_that_was_really_faster(what, factor, split, tried):
    """The same seed with the region shortened at the source; the prediction sees the slow launch only."""
    before = Launch(wo_split=split)
    after = Launch(wo_split=split, **{what: getattr(before, what) // factor})
    region = {"wo_ns": "wo_gemv", "fc1_ns": "fc1", "fc2_ns": "fc2"}[what]
    made = predict(capture_of(before), [f"region={region} factor={factor}"])
    gain = 1 - after.span / before.span
    assert made.predicted_gain == pytest.approx(gain, abs=0.002)
    assert made.ceiling > gain
    tried("predictions against simulated launches", 1)


def test_two_changes_together_are_replayed_together():
    before = Launch()
    after = Launch(wo_ns=before.wo_ns // 8, fc1_ns=before.fc1_ns // 8)
    made = predict(capture_of(before), ["region=wo_gemv factor=8", "region=fc1 factor=8"])
    assert made.predicted_gain == pytest.approx(1 - after.span / before.span, abs=0.003)


def test_planted_fault_a_wait_added_to_its_cause_is_above_the_ceiling(tried):
    """W_O on four workers and the others' wait for them are the same wall time."""
    launch = Launch()
    made = predict(capture_of(launch), ["region=wo_gemv factor=8"])
    wo = max(launch.total(w, 2) for w in range(64)) / launch.span
    wait = np.median([launch.total(w, 4) for w in range(64)]) / launch.span
    assert wo <= made.ceiling + 0.01 < wo + wait
    with pytest.raises(BadInput, match="is a wait: it ends when its last arriver, worker"):
        predict(capture_of(launch), ["region=barrier factor=8"])
    tried("planted faults", 2)


def test_speeding_up_a_region_off_the_path_buys_nothing():
    launch = next(
        found for found in map(lambda seed: Launch(seed=seed, trips=2), range(50)) if found.last_arriver[0] != 0
    )
    assert launch.total(0, 0) > 0, "the norm runs on worker 0, for which nobody waits"
    assert predict(capture_of(launch), ["region=norm factor=1000"]).ceiling == 0


def test_the_ceiling_stops_at_the_second_slowest_arriver():
    """Four workers share the work: freeing the slowest alone would move the wait to the next one."""
    launch = Launch()
    counted = account(capture_of(launch))
    made = predict(capture_of(launch), ["region=attention factor=1000"])
    slowest = max(launch.total(w, 1) for w in (0, 8, 16, 24))
    assert made.ceiling <= slowest / launch.span + 1e-9
    assert critical_path(counted).length == launch.span


def test_the_share_of_an_overwritten_loop_is_not_predicted():
    schema = builtin("coop-11")
    launch = Launch(trips=4)
    capture = from_legacy(launch.legacy(11), schema, schema.grid(launch.grid), "globaltimer")
    with pytest.raises(Unsupported, match="only the last trip"):
        predict(capture, ["region=fc1_silu factor=2"])


@pytest.mark.parametrize(
    "change",
    [
        "", "wo_gemv", "region=wo_gemv", "factor=8", "region=wo_gemv factor=1", "region=wo_gemv factor=-3",
        "region=wo_gemv factor=nan", "region=wo_gemv factor=x", "region=nowhere factor=2", "region=unused_16 factor=2",
        "region=wo_gemv factor=8 factor=9", "region=wo_gemv factor=8 colour=red", "region= factor=8",
        "region=barrier factor=2",
    ],
)  # fmt: skip
def test_a_change_is_read_exactly_or_refused(change, tried):
    with pytest.raises(BadInput):
        predict(capture_of(Launch(trips=2)), [change])
    tried("malformed inputs", 1)


def test_a_part_and_its_whole_are_not_both_saved():
    with pytest.raises(BadInput, match="elected_gather lies inside arrival"):
        predict(capture_of(Launch(trips=2)), ["region=arrival factor=2", "region=elected_gather factor=2"])


def test_a_sum_inside_a_region_lies_in_it_and_is_counted_once():
    """The inner loop's sum has no place of its own; its parent has."""
    text = """name = "inner"
[[region]]
id = 0
name = "outer"
role = "work"
[[region]]
id = 1
name = "inner"
role = "work"
slots = "sum"
per = "trip"
parent = 0
tags = ["hot"]
"""
    buffer = np.array([[[100, 1100], [0, 400]]], dtype=np.int64)
    schema = parse(tomllib.loads(text), where="inner")
    counted = account(from_legacy(buffer, schema, schema.grid({"workers": 1}), "globaltimer"))
    assert counted.coverage == 1 and counted.rows[0].doubled == 0
    assert counted.self_ticks(0, 100, 1100) == {0: 600, 1: 400}
    made = predict(counted.capture, ["region=inner factor=2"])
    assert made.predicted_gain == pytest.approx(0.2) and made.ceiling == pytest.approx(0.4)


def test_repeats_do_not_wait_for_each_other():
    events = [
        Event(r, n, 1000 * r + b, 1000 * r + e)
        for r in range(3)
        for n, b, e in (("a", 1, 400), ("w", 400, 500), ("b", 500, 900))
    ]
    capture = from_events(events, rows="repeats", waits=["w"])
    made = predict(capture, ["region=a factor=2"])
    assert made.predicted_gain == pytest.approx(399 / 2 / 899) and made.waits == ()


def test_a_region_is_changed_once():
    with pytest.raises(BadInput, match="once"):
        predict(capture_of(Launch(trips=2)), ["region=fc1 factor=2", "region=7 factor=3"])
    with pytest.raises(BadInput, match="once"):
        predict(capture_of(Launch(trips=2)), [])


def test_a_prediction_is_checked_against_what_came():
    before, after = Launch(), Launch(wo_ns=Launch().wo_ns // 8)
    made = predict(capture_of(before), ["region=wo_gemv factor=8"])
    held = check_prediction(made, capture_of(before), capture_of(after))
    assert held.outcome is Outcome.HELD and held.measured_gain == pytest.approx(1 - after.span / before.span)
    short = check_prediction(made, capture_of(before), capture_of(Launch(wo_ns=1_100_000)))
    assert short.outcome is Outcome.SHORT
    too_good = Launch(wo_ns=before.wo_ns // 8, fc1_ns=before.fc1_ns // 8)
    assert check_prediction(made, capture_of(before), capture_of(too_good)).outcome is Outcome.ABOVE_CEILING


def test_a_small_gain_that_did_not_come_is_short():
    """Five points around 3 % would take nothing at all for what was stated."""
    before = Launch()
    made = predict(capture_of(before), ["region=wo_gemv factor=1.05"])
    assert 0.002 < made.predicted_gain < 0.04
    same = capture_of(Launch(wo_ns=before.wo_ns - 1))
    assert check_prediction(made, capture_of(before), same).outcome is Outcome.SHORT
    came = capture_of(Launch(wo_ns=round(before.wo_ns / 1.05)))
    assert check_prediction(made, capture_of(before), came).outcome is Outcome.HELD


def test_a_prediction_belongs_to_its_capture_and_comes_before_the_change():
    before, after = capture_of(Launch()), capture_of(Launch(seed=8))
    made = predict(before, ["region=wo_gemv factor=8"])
    with pytest.raises(BadInput, match="another capture"):
        check_prediction(made, after, before)
    with pytest.raises(BadInput, match="the same capture"):
        check_prediction(made, before, before)
    with pytest.raises(BadInput, match="captured before the prediction"):
        check_prediction(made, before, capture_of(Launch(seed=8), created="2001-01-01T00:00:00+00:00"))
    with pytest.raises(BadInput, match="one clock"):
        check_prediction(made, before, replace(after, about=About(tick_source="monotonic")))


def test_the_digest_of_a_file_is_the_one_that_is_remembered(tmp_path):
    path = save(capture_of(Launch(trips=2)), tmp_path / "a.npz")
    assert load(path).digest == load(path).digest != save_other(tmp_path).digest


def save_other(folder):
    return load(save(capture_of(Launch(trips=2, seed=9)), folder / "b.npz"))


def test_waits_that_explain_each_other_in_a_circle_are_refused():
    text = """name = "circle"
[[region]]
id = 0
name = "a"
role = "wait"
released_by = 2
active = "worker in 0"
[[region]]
id = 1
name = "b"
role = "wait"
released_by = 2
active = "worker in 1"
[[region]]
id = 2
name = "signal"
role = "work"
"""
    cells = np.zeros((2, 3), dtype=CELL)
    cells[0, 0] = cells[1, 1] = (10, 20, 10, 1, 1)
    cells[0, 2] = cells[1, 2] = (20, 20, 0, 1, 1)
    capture = make_capture(cells, parse(tomllib.loads(text), where="circle"), About(grid={"workers": 2}))
    with pytest.raises(BadInput, match="in a circle"):
        critical_path(account(capture))
    with pytest.raises(BadInput, match="in a circle"):
        Replay(account(capture), [])


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([1, 2, 3, 8]), st.integers(1, 3), st.floats(1.01, 1e6))
def test_no_prediction_exceeds_its_ceiling_or_the_regions_own_time(seed, split, seqs, factor):
    launch = Launch(slices=4, tiles=4, seqs=seqs, seed=seed, wo_split=min(split, 4), trips=2)
    made = predict(capture_of(launch), [f"region=wo_gemv factor={factor}"])
    longest = max(launch.total(w, 2) for w in range(launch.workers))
    assert 0 <= made.predicted_gain <= made.ceiling <= longest / launch.span + 1e-9
