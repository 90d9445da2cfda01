"""Barriers inside loops: launches whose critical path is known because they were built from it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

from whet import regions
from whet.cli.regions import command
from whet.errors import BadInput, Unsupported, WhetError
from whet.regions.accounting import account
from whet.regions.capture import CELL, About, load, make_capture, save
from whet.regions.critical import Barriers, critical_path
from whet.regions.prediction import predict
from whet.regions.schema import Region, Schema
from whet.regions.sources import Event, from_events
from whet.regions.stretches import STRETCH
from whet.regions.timeline import fragment
from whet.regions.trips import find_loop
from whet.regions.verdict import Bracket, judge

SWEEP, NORM, MEET, TAIL = range(4)
SCHEMA = Schema(
    name="loop",
    regions=(
        Region(id=SWEEP, name="sweep", role="work", tags=("hot",), per="trip"),
        Region(id=NORM, name="norm", role="work", per="trip"),
        Region(id=MEET, name="meet", role="wait", per="trip"),
        Region(id=TAIL, name="tail", role="work", elected=True),
    ),
)
RELEASE = 7


class Sweeps:
    """`workers` x `trips` of sweep, norm, barrier; then a tail on worker 0. Times in ns, counted from 1000."""

    def __init__(self, workers=3, trips=20, seed=1, sweep=1.0, late_wake=0):
        rng = np.random.default_rng(seed)
        self.sweep = (rng.integers(500, 3000, (trips, workers)) * sweep).astype(int)
        self.norm = rng.integers(50, 400, (trips, workers))
        self.rows: list[tuple[int, int, int, int]] = []
        at = [1000] * workers
        self.lasts, self.lengths, begun = [], [], 1000
        self.hot = self.norms = 0
        for trip in range(trips):
            came = []
            for worker in range(workers):
                middle = at[worker] + int(self.sweep[trip, worker])
                end = middle + int(self.norm[trip, worker])
                self.rows += [(worker, SWEEP, at[worker], middle), (worker, NORM, middle, end)]
                came.append(end)
            last = int(np.argmax(came))
            self.lasts.append(last)
            for worker in range(workers):
                # Whoever wakes late may still be leaving when another one comes back to the next barrier.
                leave = max(came) + RELEASE + (late_wake if worker == trip % workers != last else 0)
                self.rows.append((worker, MEET, came[worker], leave))
                at[worker] = leave
            self.lengths.append(max(came) - begun)
            begun = max(came)
            self.hot += int(self.sweep[trip, last])
            self.norms += int(self.norm[trip, last])
        self.rows.append((0, TAIL, at[0], at[0] + 111))
        self.span = max(row[3] for row in self.rows) - 1000

    def capture(self, rows=None, total=None):
        rows = sorted(rows or self.rows, key=lambda row: (row[0], row[2]))
        cells = np.zeros((max(row[0] for row in rows) + 1, 4), dtype=CELL)
        for worker, region, entry, leave in rows:
            cell = cells[worker, region]
            begun = cell["entry"] if cell["written"] else entry
            cells[worker, region] = (begun, leave, cell["ticks"] + leave - entry, cell["count"] + 1, 1)
        stretches = np.array([(*row, row[3] - row[2], 1) for row in rows], dtype=STRETCH)
        window = (999, 1001 + self.span)
        total_ns = float(total or self.span)
        about = About(grid={"workers": len(cells)}, launch={"name": "loop"}, window=window, total_ns=total_ns)
        return make_capture(cells, SCHEMA, about, stretches=stretches)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("workers", [2, 5])
def test_the_path_goes_through_the_last_arriver_of_every_trip(seed, workers, tried):
    made = Sweeps(workers=workers, seed=seed)
    counted = account(made.capture())
    path = critical_path(counted)
    trips = len(made.lasts)
    assert path.length == made.span and path.unexplained == pytest.approx(0)
    expected = {SWEEP: made.hot, NORM: made.norms, MEET: trips * RELEASE, TAIL: 111}
    assert {region: round(ticks) for region, ticks in path.ticks.items() if ticks} == expected
    loop = find_loop(counted)
    assert loop is not None and loop.barrier == "meet" and len(loop.trips) == trips + 1, "the tail is the last part"
    assert [trip.last for trip in loop.trips] == [*made.lasts, None]
    assert sum(trip.ticks for trip in loop.trips) == made.span
    inner = [trip.ticks for trip in loop.trips[1:-1]]
    assert inner == made.lengths[1:]
    assert min(trip.coverage for trip in loop.trips) == pytest.approx(1)
    tried("trips with a known critical path", trips)


def test_a_worker_that_wakes_late_does_not_mix_two_meetings():
    """By time alone its wait would be explained by somebody's arrival at the next barrier."""
    made = Sweeps(workers=3, trips=30, late_wake=2500)
    barriers = Barriers(account(made.capture()))
    by_pass = {(w.worker, w.number): w for waits in barriers.waits.values() for w in waits}
    assert all(by_pass[worker, trip].cause == last for trip, last in enumerate(made.lasts) for worker in range(3))
    mixed = [w for w in by_pass.values() if any(came < w.exit for came in comes(by_pass, w.number + 1))]
    assert mixed, "the case could not fail"


def comes(by_pass, number):
    return [wait.entry for (_, pass_number), wait in by_pass.items() if pass_number == number]


@pytest.mark.parametrize("factor", [2, 10])
def test_a_prediction_over_trips_is_what_the_faster_launch_takes(factor, tried):
    """The ceiling is not the sum over the old last arrivers: others become the last ones."""
    before = Sweeps(workers=4, seed=3)
    after = Sweeps(workers=4, seed=3, sweep=1 / factor)
    made = predict(before.capture(), [f"region=sweep factor={factor}"])
    assert made.predicted_gain == pytest.approx(1 - after.span / before.span, abs=0.001)
    assert made.predicted_gain < before.hot * (1 - 1 / factor) / before.span + 1e-9
    (wait,) = made.waits
    assert (wait.workers, wait.passes) == (4, 20)
    tried("predictions against simulated launches", 1)


def test_each_trip_is_judged_as_a_launch_of_its_own():
    made = Sweeps()
    verdict = judge(made.capture(), tag="hot")
    assert verdict.bracket is Bracket.STRONG_GO and verdict.share == pytest.approx(made.hot / made.span)
    assert len(verdict.trips) == 21 and verdict.trips[-1].share == 0 and verdict.trips[-1].bracket is Bracket.NO_GO
    inner = verdict.trips[5]
    last = made.lasts[5]
    assert inner.share == pytest.approx(made.sweep[5, last] / made.lengths[5], abs=0.02)


def test_planted_a_blind_trip_is_refused_and_the_others_are_not(tried):
    """One sweep of one worker was not recorded: its trip has a hole, the launch as a whole nearly none."""
    made = Sweeps(trips=60)
    blind = [row for row in made.rows if row[1] == SWEEP and row[0] == 1][30]
    verdict = judge(made.capture([row for row in made.rows if row != blind]), tag="hot")
    assert verdict.bracket is not Bracket.UNSUPPORTED, "coverage in all is above 0.95"
    assert [trip.number for trip in verdict.trips if trip.bracket is Bracket.UNSUPPORTED] == [31]
    tried("planted faults", 1)


def forget_pass(rows):
    passes = [row for row in rows if row[1] == MEET and row[0] == 1]
    return [row for row in rows if row != passes[4]]


def swap_arrivals(rows):
    """Worker 1 leaves its third pass before worker 0 has come."""
    first = [row for row in rows if row[:2] == (0, MEET)][2]
    gone = [row for row in rows if row[:2] == (1, MEET)][2]
    return [(1, MEET, gone[2], max(gone[2], first[2] - 1)) if row == gone else row for row in rows]


@pytest.mark.parametrize("fault", [forget_pass, swap_arrivals])
def test_planted_passes_that_do_not_meet_are_refused(fault, tried):
    made = Sweeps(workers=2, seed=next(s for s in range(50) if Sweeps(workers=2, seed=s).lasts[2] == 0))
    with pytest.raises(Unsupported, match=r"left pass \d+ of meet before worker \d came"):
        critical_path(account(made.capture(fault(made.rows))))
    tried("planted faults", 1)


def test_planted_stretches_that_are_not_those_of_the_sheet_are_refused(tried):
    capture = Sweeps().capture()
    assert capture.stretches is not None
    for field, change in (("ticks", -1), ("count", 1), ("worker", 50), ("region", -1), ("exit", -10_000)):
        wrong = capture.stretches.copy()
        wrong[field][7] += change
        with pytest.raises(BadInput):
            make_capture(capture.cells, SCHEMA, capture.about, stretches=wrong)
    with pytest.raises(BadInput, match="before the one before it ended"):
        twice = [(0, SWEEP, 10, 20), (0, SWEEP, 15, 25), (0, SWEEP, 40, 60)]
        Sweeps().capture(twice)
    tried("planted faults", 6)


def test_what_cannot_be_ordered_is_said_with_its_cure(tried):
    capture = Sweeps().capture()
    with pytest.raises(Unsupported, match="its arrival times are gone") as gone:
        critical_path(account(replace(capture, stretches=None)))
    assert "stretches" in gone.value.cure
    merged = capture.stretches.copy()
    mine = np.nonzero((merged["worker"] == 0) & (merged["region"] == MEET))[0]
    merged[mine[-2]]["exit"], merged[mine[-2]]["count"] = merged[mine[-1]]["exit"], 2
    merged[mine[-2]]["ticks"] += merged[mine[-1]]["ticks"]
    full = make_capture(capture.cells, SCHEMA, capture.about, stretches=np.delete(merged, mine[-1]))
    with pytest.raises(Unsupported, match="room for stretches"):
        critical_path(account(full))
    tried("planted faults", 2)


def test_two_barriers_in_one_round_close_it_once():
    events = []
    at = 1000
    for _ in range(10):
        for row, spent in ((0, 50), (1, 80)):
            events += [Event(row, "a", at, at + spent), Event(row, "first", at + spent, at + 90)]
            events += [Event(row, "b", at + 90, at + 90 + spent), Event(row, "second", at + 90 + spent, at + 180)]
        at += 180
    counted = account(from_events(events, waits=["first", "second"]))
    loop = find_loop(counted)
    assert loop is not None and loop.barrier == "second" and len(loop.trips) == 10
    assert all(trip.on_path == {"a": 80, "b": 80, "first": 10, "second": 10} for trip in loop.trips)
    assert loop.lasts == {1: 10}


def test_a_capture_keeps_its_stretches(tmp_path):
    capture = Sweeps().capture()
    again = load(save(capture, tmp_path / "loop.npz"))
    assert (again.stretches == capture.stretches).all()
    np.save(tmp_path / "bare.npy", capture.cells)
    np.save(tmp_path / "bare.npy.stretches.npy", capture.stretches)
    bare = load(tmp_path / "bare.npy", schema=SCHEMA, grid={"workers": 3})
    assert critical_path(account(bare)).ticks == critical_path(account(capture)).ticks
    np.save(tmp_path / "bare.npy.stretches.npy", capture.stretches[:-1])
    assert load_fails(tmp_path / "bare.npy")


def load_fails(path):
    with pytest.raises(BadInput, match="its stretches hold"):
        load(path, schema=SCHEMA, grid={"workers": 3})
    return True


def test_every_view_shows_the_trips(tmp_path):
    path = save(Sweeps().capture(), tmp_path / "loop.npz")
    runner = CliRunner()
    said = runner.invoke(command, ["reduce", str(path)], catch_exceptions=False)
    assert "21 trips by meet: median" in said.output and "last to come: worker" in said.output
    assert "each trip as a launch of its own: STRONG GO" in said.output
    shown = runner.invoke(command, ["show", str(path), "--trips"], catch_exceptions=False)
    assert len(shown.output.splitlines()) == 22 and "sweep" in shown.output
    told = runner.invoke(command, ["reduce", str(path), "--json"], catch_exceptions=False)
    assert '"barrier": "meet"' in told.output or '"barrier":"meet"' in told.output
    assert runner.invoke(command, ["predict", str(path), "--change", "region=sweep factor=2"]).exit_code == 0
    capture = load(path)
    assert "21 trips by meet" in fragment(account(capture), regions.reduce(capture))


def test_untagged_captures_show_their_preconditions(tmp_path):
    """Coverage 1.000 says nothing where the regions span 29 of 35 ms."""
    events = [Event(0, "work", 1000, 29_001_000), Event(1, "work", 1000, 28_001_000)]
    path = save(from_events(events, total_ns=35e6), tmp_path / "bare.npz")
    said = CliRunner().invoke(command, ["reduce", str(path), "--csv", str(tmp_path / "t.csv")], catch_exceptions=False)
    assert (
        "8 of 9 preconditions of a verdict hold" in said.output and "no verdict: no region carries a tag" in said.output
    )
    assert "- span: span 29000.000 us is -17.1% off the outside total 35000.000 us" in said.output
    header, row = ((tmp_path / "t.csv").read_text().splitlines())[:2]
    fraction = dict(zip(header.split(","), row.split(","), strict=True))["fraction"]
    assert float(fraction) == pytest.approx(28.5 / 35)


def test_python_records_a_barrier_in_a_loop():
    gate = threading.Barrier(3)
    with regions.recording("loop") as made:

        def body(worker):
            for trip in range(12):
                with regions.record("work", tags=("hot",)):
                    time.sleep(0.004 if worker == trip % 3 else 0.0)
                with regions.record("meet", role="wait"):
                    gate.wait(60)

        threads = [threading.Thread(target=body, args=(worker,)) for worker in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    capture = made.capture()
    assert capture.about.complete and capture.stretches is not None
    loop = find_loop(account(capture))
    assert loop is not None and 12 <= len(loop.trips) <= 13
    assert critical_path(account(capture)).length == account(capture).span


LIVE = """
import sys, threading, time
from whet import regions
gate = threading.Barrier(3)
stop = False
def body():
    while not stop:
        with regions.record("work"):
            sum(range(20000))
        with regions.record("meet", role="wait"):
            try:
                gate.wait(60)
            except threading.BrokenBarrierError:
                return
with regions.recording("live") as made, regions.on_request(made, sys.argv[1]) as asked:
    threads = [threading.Thread(target=body) for _ in range(3)]
    for thread in threads: thread.start()
    print("running", flush=True)
    want = int(sys.argv[2])
    end = time.monotonic() + 200
    while asked.answered < want and time.monotonic() < end:
        time.sleep(0.01)
    stop = True
    gate.abort()
    for thread in threads: thread.join()
print("answered", asked.answered, flush=True)
"""


def wait_for(condition, seconds=200):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "no answer"
        time.sleep(0.01)


def test_a_running_program_writes_its_sheet_when_asked(tmp_path, tried):
    """Three threads record as fast as they can; every file that comes is whole and in order."""
    target = tmp_path / "live.npz"
    program = subprocess.Popen([sys.executable, "-c", LIVE, target, "4"], stdout=subprocess.PIPE, text=True)
    try:
        assert program.stdout.readline() == "running\n"
        for ask in range(4):
            target.unlink(missing_ok=True)
            if ask % 2:
                (tmp_path / "live.npz.ask").touch()
            else:
                os.kill(program.pid, signal.SIGUSR1)
            wait_for(target.is_file)
            capture = load(target)
            assert not capture.about.complete
            assert capture.stretches is not None or capture.cells["count"].max() < 3
            critical_path(account(capture))
        assert program.wait(200) == 0
        assert "answered 4" in program.stdout.read()
    finally:
        program.kill()
        program.wait()
    tried("sheets of running programs", 4)


def test_what_cannot_be_written_is_told_and_the_program_goes_on(tmp_path, capfd):
    with regions.recording("empty") as made, regions.on_request(made, tmp_path / "x.npz") as asked:
        os.kill(os.getpid(), signal.SIGUSR1)
        (tmp_path / "x.npz.ask").touch()
        wait_for(lambda: not (tmp_path / "x.npz.ask").exists())
    assert asked.answered == 0 and "no region was recorded" in capfd.readouterr().err
    assert signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL
    with pytest.raises(WhetError):
        made.capture()
