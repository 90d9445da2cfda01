"""What a trial tells the device that it runs on, and what it makes of one that becomes slower. Simulated."""

from __future__ import annotations

import pytest
from simulated import Closed, saxpy
from test_lab_devices import compared, device_of, lab

from whet.evidence.live_rows import LiveRows
from whet.evidence.readings import Reading, Red
from whet.evidence.record import Outcome


@pytest.fixture
def views():
    """Everything that the page was told to show, and a device that keeps it."""
    seen = []

    def compute(header, parts):
        if "view" in header:
            seen.append(header["view"])
        return saxpy(header, parts)

    return seen, compute


def test_the_table_on_the_device_is_live(views, monkeypatch):
    seen, compute = views
    monkeypatch.setattr("whet.lab.device.SHOW_EVERY_S", 0.0)
    with lab() as server, device_of(server, compute) as (place, _):
        compared(place)
    rows = [{row["variant"]: row for row in view["rows"]} for view in seen]
    assert rows[0]["large"]["gate"] == "waiting"
    known = [one["large"] for one in rows if one["large"].get("low")]
    # The interval is there before the run is over, once there are blocks enough.
    assert known and all(row["low"] <= row["ratio"] <= row["high"] for row in known)
    shares = [view["share"] for view in seen[:-1]]
    assert shares == sorted(shares) and 0 < max(shares) <= 1


def reading(wall_ns, calls=1):
    told = {"outside_ns": wall_ns, "cpu_ns": 0, "waited_ns": 0, "device_ns": None, "seed": 1, "digest": "", "check": ""}
    return Reading(calls=calls, wall_ns=wall_ns, **told)


def test_a_row_has_the_ratio_of_medians_and_a_red_one_nothing():
    live = LiveRows(["a", "b", "c"])
    for number in range(20):
        if number % 4 == 0:
            live.begin_block()
        live.note(("round", number), {"a": reading(2000 + number % 3, 2), "b": reading(1500 + number % 3, 2)})
    live.note(("check", 0), {"a": reading(5), "c": Red("wrong output", "7, not 9")})
    a, b, c = live.rows()
    assert a["time_ns"] == pytest.approx(1000, rel=0.01) and "ratio" not in a
    assert b["ratio"] == pytest.approx(0.75, rel=0.01) and b["low"] <= b["ratio"] <= b["high"]
    assert c == {"variant": "c", "gate": "red", "why": "wrong output: 7, not 9", "verdict": "REFUSED"}
    live.note(("round", 30), {"a": Red("died", "gone")})
    assert "ratio" not in live.rows()[1], "what the others were held against is no more"


def slowing(after, until=10**9):
    """A reference kernel that takes twice as long from one run of it to another."""
    ran = []

    def compute(header, parts):
        if header["kind"] == "reference":
            ran.append(header)
            return {"walls_ns": [200_000 if after <= len(ran) < until else 100_000]}, {}
        return saxpy(header, parts)

    return compute


@pytest.fixture
def waits(monkeypatch):
    """Seconds waited for a device to cool down; none of them really."""
    waited = []
    monkeypatch.setattr("whet.evidence.remote_rig.rest", waited.append)
    return waited


def kinds(run):
    return [warning.kind for warning in run.warnings]


def test_a_device_that_stays_slow_is_waited_for_and_the_run_says_so(views, waits):
    seen, keep = views
    slow = slowing(after=7)

    def compute(header, parts):
        keep(header, parts)
        return slow(header, parts)

    with lab() as server, device_of(server, compute) as (place, _):
        run = compared(place)
    assert waits == [5.0] * 4, "patience has an end"
    assert "device drift" in kinds(run)
    assert "2.00 times as long" in next(w.seen for w in run.warnings if w.kind == "device drift")
    assert any("waiting for it to cool down" in view["note"] for view in seen)
    # It is a warning: no gate is red for it.
    assert all(gate.green for gate in run.gates) and run.verdicts[0].outcome is Outcome.SAME


def test_a_device_that_cools_down_is_waited_for_and_nothing_is_said(waits):
    with lab() as server, device_of(server, slowing(after=7, until=11)) as (place, _):
        run = compared(place)
    assert 1 <= len(waits) < 4 and "device drift" not in kinds(run)


def test_a_steady_device_is_not_waited_for(waits):
    with lab() as server, device_of(server) as (place, _):
        run = compared(place)
    assert waits == [] and "device drift" not in kinds(run)
    assert set(run.environment["elsewhere"]["reference_ns"]) == {100_000}


def test_a_page_closed_after_the_trial_takes_nothing_with_it():
    def leave(header, parts):
        if header["kind"] == "turn" and header["timing"]:
            page.beat(leaves=True)
            raise Closed
        return saxpy(header, parts)

    with lab() as server, device_of(server, leave) as (place, page):
        run = compared(place)
        assert run.verdicts[0].outcome is Outcome.SAME and run.samples and run.regions == {}
