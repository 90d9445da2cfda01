"""Recording from Python, captures from other clocks, and what recording costs."""

from __future__ import annotations

import itertools
import threading
from pathlib import Path

import numpy as np
import pytest

from whet.cli.app import invoke
from whet.errors import BadInput, OracleMismatch, Unsupported
from whet.evidence.registry import Loaded
from whet.evidence.registry import load as load_engine
from whet.graph import Runtime
from whet.protocol import Case, Variant
from whet.regions import recorder as record_module
from whet.regions import recording
from whet.regions.accounting import account
from whet.regions.engine_run import capture_engine
from whet.regions.prediction import explain_waits
from whet.regions.recorder import OFF, record
from whet.regions.reducer import reduce
from whet.regions.sources import Event, from_counters, from_events, from_phases, from_stages, from_tasks
from whet.regions.tax import fingerprint, measure_tax, recorder_tax
from whet.regions.verdict import Bracket, judge


@pytest.fixture
def clock(monkeypatch):
    """A clock that moves by 10 ns at every reading, so that lengths are exact."""
    ticks = itertools.count(1000, 10)
    monkeypatch.setattr(record_module.time, "perf_counter_ns", lambda: next(ticks))


def test_pitfall_a_region_in_a_loop_adds_up_and_is_not_overwritten(clock):
    with recording("loop") as made:
        for _ in range(34):
            with record("body"):
                pass
    (row,) = reduce(made.capture()).rows
    assert row.trips == 34 and row.total_ticks == 34 * 10
    cell = made.capture().cells[0, 0]
    assert (cell["entry"], cell["exit"], cell["count"]) == (1010, 1010 + 20 * 33 + 10, 34)


def test_nesting_gives_parents_and_time_is_counted_once(clock):
    with recording("nest", layer=3) as made, record("step"):
        with record("load"):
            pass
        with record("work", tags=("hot",)):
            pass
    capture = made.capture()
    assert [(r.name, r.parent, r.tags) for r in capture.schema.regions] == [
        ("step", None, ()),
        ("load", 0, ()),
        ("work", 0, ("hot",)),
    ]
    row = account(capture).rows[0]
    assert row.covered == row.span == 50, "the parts lie inside the whole"
    assert capture.about.launch == {"layer": 3}


def test_the_same_name_in_two_places_is_two_regions(clock):
    with recording("twice") as made:
        for outer in ("a", "b"):
            with record(outer), record("load"):
                pass
    assert sorted(r.name for r in made.capture().schema.regions) == ["a", "a/load", "b", "b/load"]


def test_a_region_that_calls_itself_is_timed_once(clock):
    def descend(depth):
        with record("descend"):
            if depth:
                descend(depth - 1)

    with recording("deep") as made:
        descend(5)
    (row,) = reduce(made.capture()).rows
    assert row.trips == 1 and row.total_ticks == 10


def test_a_region_left_by_an_exception_is_still_written(clock):
    with recording("raise") as made:
        with pytest.raises(KeyError), record("outer"), record("inner"):
            raise KeyError
        with record("after"):
            pass
    assert [(r.name, r.parent) for r in made.capture().schema.regions] == [
        ("outer", None),
        ("after", None),
        ("inner", 0),
    ]


def test_threads_are_workers_and_do_not_mix():
    barrier = threading.Barrier(4)

    def work(number):
        barrier.wait()
        for _ in range(50 * (number + 1)):
            with record("spin"):
                pass

    with recording("threads") as made:
        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    capture = made.capture()
    assert sorted(capture.cells["count"][:, 0].tolist()) == [50, 100, 150, 200]


def test_off_is_one_shared_object_that_does_nothing():
    assert record("anything") is OFF is record("else", role="wait", tags=("a",))
    with record("x"):
        pass


def test_recordings_do_not_leak_into_each_other(clock):
    with recording("one") as first, record("a"):
        pass
    with recording("two") as second, record("b"):
        pass
    assert [r.name for r in first.capture().schema.regions] == ["a"]
    assert [r.name for r in second.capture().schema.regions] == ["b"]


def test_what_cannot_be_recorded_says_so():
    with pytest.raises(BadInput, match="still going on"), recording("open") as made, record("a"):
        made.capture()
    with recording("empty") as made:
        pass
    with pytest.raises(BadInput, match="no region was recorded"):
        made.capture()
    with recording("outer"), pytest.raises(BadInput, match="already"), recording("inner"):
        pass


def test_a_region_has_one_role_on_all_threads():
    caught = []

    def other():
        try:
            record("a", role="wait")
        except BadInput as problem:
            caught.append(problem.cause)

    with recording("mixed"):
        with record("a"):
            pass
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert caught == ["region a is declared twice, differently"]


def test_a_recorded_barrier_is_explained_by_the_thread_that_came_last():
    gate, arrived = threading.Barrier(2), threading.Event()

    def early():
        with record("work"):
            pass
        with record("barrier", role="wait"):
            arrived.set()
            gate.wait(30)

    def late():
        with record("work"):
            arrived.wait(30)
        with record("barrier", role="wait"):
            gate.wait(30)

    with recording("pair") as made:
        threads = [threading.Thread(target=early), threading.Thread(target=late)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    capture = made.capture()
    (wait,) = explain_waits(account(capture))
    entries = capture.cells["entry"][:, capture.schema.find("barrier").id]
    assert wait.workers == 2 and wait.cause_worker == int(np.argmax(entries))


def test_stage_times_make_the_same_table():
    rows = [{"sort": 300, "sum": 600}, {"sort": 310, "sum": 640}, {"sort": 290, "sum": 610}]
    capture = from_stages(rows, totals_ns=[1000, 1000, 1000], tags={"sum": ["hot"]})
    table = reduce(capture)
    assert [r.median_ticks for r in table.rows] == [300, 610]
    assert table.rows_are == "repeats" and table.placement == "assumed"
    assert table.coverage == pytest.approx(0.9)
    verdict = judge(capture, tag="hot")
    assert verdict.bracket is Bracket.UNSUPPORTED and "100 ns" in verdict.reasons[0]
    whole = judge(from_stages(rows, totals_ns=[901, 951, 901], tags={"sum": ["hot"]}), tag="hot")
    assert whole.bracket is Bracket.STRONG_GO and whole.share == pytest.approx(600 / 901, abs=0.02)


def test_stages_longer_than_their_call_are_refused():
    capture = from_stages([{"a": 900, "b": 800}], totals_ns=[1000], tags={"a": ["hot"]})
    assert any("counted twice" in reason for reason in judge(capture, tag="hot").reasons)


def test_gpu_passes_are_summed_by_name_and_a_missing_clock_is_no_zero():
    passes = [
        Event(r, name, 1000 * r + b, 1000 * r + e)
        for r in (1, 2)
        for name, b, e in (("p", 10, 40), ("q", 50, 90), ("p", 100, 110))
    ]
    capture = from_events(
        [Event(e.row - 1, *e[1:]) for e in passes], rows="repeats", tick_source="timestamp_query", quantum_ns=10
    )
    assert [r.median_ticks for r in reduce(capture).rows] == [40, 40]
    assert [r.trips for r in reduce(capture).rows] == [4, 2]
    twice = from_stages([[("p", 30), ("q", 40), ("p", 10)]], totals_ns=[80], tick_source="timestamp_query")
    assert [r.median_ticks for r in reduce(twice).rows] == [40, 40]
    with pytest.raises(Unsupported, match="q has no time"):
        from_stages([[("p", 30), ("q", None)]], totals_ns=[80])


def test_thread_counters_make_a_table_without_a_made_up_critical_path():
    threads = [{"body": 700, "poll": 200, "idle": 100}, {"body": 400, "poll": 300, "idle": 300}]
    capture = from_counters(threads, spans_ns=[1000, 1000], waits=["idle"], tags={"body": ["hot"]})
    assert reduce(capture).coverage == 1
    verdict = judge(capture, tag="hot")
    assert verdict.reasons == ["wait idle is known by its length alone, not by its arrival times"]


def test_the_threads_of_the_graph_runtime_make_the_same_table():
    with Runtime(workers=2, trace="tasks") as runtime:
        for number in range(40):
            runtime.submit(lambda: sum(range(2000)), name="even" if number % 2 == 0 else "odd")
        runtime.wait()
        tasks, phases = from_tasks(runtime.spans()), from_phases(runtime.phases())
    trips = {row.region: row.trips for row in reduce(tasks).rows}
    assert trips == {"even": 20, "odd": 20}
    assert reduce(phases).coverage == 1
    roles = {row.region: row.role for row in reduce(phases).rows}
    assert roles["body"] == "work" and roles.get("idle", "wait") == roles.get("poll", "wait") == "wait"


@pytest.mark.parametrize(
    "call",
    [
        lambda: from_stages([], totals_ns=[]),
        lambda: from_stages([{"a": 1}], totals_ns=[1, 2]),
        lambda: from_stages([{"a": 1}], totals_ns=[0]),
        lambda: from_stages([{"a": -1}], totals_ns=[5]),
        lambda: from_stages([{"a": 1}], totals_ns=[5], tags={"b": ["x"]}),
        lambda: from_stages([{"a": 1}], totals_ns=[5], tick_source="sundial"),
        lambda: from_stages([{}], totals_ns=[5]),
        lambda: from_counters([{"a": 1}], spans_ns=[5], waits=["b"]),
        lambda: from_events([]),
        lambda: from_events([Event(-1, "a", 1, 2)]),
        lambda: from_events([Event(0, "a", 5, 2)]),
        lambda: from_events([Event(0, "a", 0, 2)]),
    ],
)
def test_junk_from_another_clock_is_refused(call, tried):
    with pytest.raises(BadInput):
        call()
    tried("malformed inputs", 1)


def staged(name: str) -> Loaded:
    return load_engine(f"{Path(__file__).with_name('staged_engines.py')}:{name}")


def test_an_engine_is_captured_by_its_own_stage_times():
    capture = capture_engine(staged("Staged"), Variant("plain"), Case(sizes={"n": 8}), repeats=3)
    table = reduce(capture)
    assert table.workers == 3 and [r.median_ticks for r in table.rows] == [60, 39]
    assert table.coverage == pytest.approx(0.99)
    assert capture.about.launch["case"] == "n=8 profile=random"


def test_pitfall_an_engine_without_regions_is_not_given_any():
    """No silent way round: where the regions did not run there is no table."""
    with pytest.raises(Unsupported, match="reports no regions"):
        capture_engine(staged("Silent"), Variant("plain"), Case(sizes={"n": 8}))


@pytest.mark.parametrize("variant", ["wrong", "wrong-later", "raises"])
def test_a_red_variant_has_no_regions(variant, tmp_path, monkeypatch, capsys):
    """Wrong at once, wrong from the fourth call on, or unable to start: exit code 3, no table, no file."""
    monkeypatch.chdir(tmp_path)
    kept = tmp_path / "kept.npz"
    engine = f"{Path(__file__).with_name('staged_engines.py')}:Staged"
    with pytest.raises(OracleMismatch, match="is refused") as caught:
        invoke(["regions", "capture", engine, variant, "--n", "8", "--out", str(kept)])
    assert caught.value.exit_code == 3 and "whet check" in caught.value.cure
    assert not kept.exists() and capsys.readouterr().out == ""


def test_outputs_are_compared_to_the_bit():
    same = np.array([0.0, np.nan])
    assert fingerprint(same) == fingerprint(same.copy())
    different = [
        np.array([-0.0, np.nan]),
        same.astype(np.float32),
        same.reshape(2, 1),
        [0.0, float("nan")],
        {"a": same},
    ]
    prints = {fingerprint(value) for value in different} | {fingerprint(same)}
    assert len(prints) == 6
    with pytest.raises(BadInput):
        fingerprint(object())


def test_the_tax_is_measured_against_the_spread_of_the_runs_themselves():
    """A made-up clock: off takes 100 +- 4, on takes 110."""
    now = [0]
    lengths = itertools.cycle([100, 104, 96])

    def off():
        now[0] += next(lengths)
        return 1

    def on():
        now[0] += 110
        return 1

    tax = measure_tax(off, on, rounds=9, clock=lambda: now[0])
    assert 0.05 < tax.tax < 0.15 and 0 < tax.spread < 0.09 and not tax.within_spread
    assert tax.outputs_compared == 27
    cheap = measure_tax(off, off, rounds=9, clock=lambda: now[0])
    assert cheap.within_spread


def test_planted_fault_timing_that_changes_the_answer_is_caught(tried):
    with pytest.raises(OracleMismatch, match="timing on differs"):
        measure_tax(lambda: np.zeros(3), lambda: np.array([0.0, 0.0, -0.0]), rounds=5)
    answers = itertools.count()
    with pytest.raises(OracleMismatch):
        measure_tax(lambda: next(answers), lambda: 0, rounds=5)
    with pytest.raises(BadInput):
        measure_tax(lambda: 0, lambda: 0, rounds=1)
    tried("planted faults", 2)


def test_a_recorded_function_gives_the_same_bits_on_and_off():
    data = np.random.default_rng(3).random(1000)

    def work():
        total = np.zeros(1000)
        for _ in range(5):
            with record("scale"):
                total += data * 1.5
            with record("sum"):
                total -= data.mean()
        return total

    tax = recorder_tax(work, rounds=5)
    assert tax.outputs_compared == 15
