"""Capture files: both layouts read back, and whatever else is in the file is BadInput."""

from __future__ import annotations

import io
import json
import tomllib
import zipfile

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regions_launch import Launch, rich_schema_text
from whet.errors import BadInput, WhetError
from whet.regions.capture import CELL, About, from_legacy, load, make_capture, save
from whet.regions.reducer import State, reduce, states
from whet.regions.schema import builtin, parse
from whet.regions.verdict import judge

GRID = {"slice_ctas": 8, "num_k_tiles": 8, "num_seqs": 1}


@pytest.fixture(scope="module")
def launch():
    return Launch(trips=4)


@pytest.fixture(scope="module")
def schema():
    return parse(tomllib.loads(rich_schema_text()), where="test")


def about_of(launch, **changes):
    facts = {"tick_source": "globaltimer", "grid": {**launch.grid, "trips": launch.trips}, "launch": {"layer": 3}}
    return About(**{**facts, "total_ns": float(launch.span), **changes})


@pytest.fixture
def capture(launch, schema):
    return make_capture(launch.cells(CELL), schema, about_of(launch))


def test_a_capture_reads_back_as_it_was_written(capture, tmp_path):
    path = save(capture, tmp_path / "deep" / "a.npz")
    again = load(path)
    assert (again.cells == capture.cells).all() and again.schema == capture.schema and again.grid == capture.grid
    assert reduce(again) == reduce(capture)
    assert not list(tmp_path.rglob("*.part"))


def test_a_bare_structured_npy_reads_with_its_description_beside_it(capture, schema, launch, tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, capture.cells)
    grid = {**launch.grid, "trips": 4}
    assert (load(path, schema=schema, grid=grid, source="globaltimer").cells == capture.cells).all()
    with pytest.raises(BadInput, match="what its regions mean"):
        load(path, grid=grid)
    (tmp_path / "a.npy.json").write_bytes(msgspec.json.encode(about_of(launch, schema=schema)))
    assert judge(load(path)).share == judge(capture).share


def test_what_is_said_must_not_contradict_what_the_file_says(capture, tmp_path):
    path = save(capture, tmp_path / "a.npz")
    with pytest.raises(BadInput, match="recorded with globaltimer"):
        load(path, source="clock64")
    with pytest.raises(BadInput, match="recorded with num_seqs=1"):
        load(path, grid={"num_seqs": 2})


def test_pitfall_a_renamed_region_is_refused_and_not_dropped_from_the_sum(capture, tmp_path):
    """A renamed region once fell silently out of the verdict's sum: 10.6 % and NO-GO instead of 93 %."""
    path = save(capture, tmp_path / "a.npz")
    renamed = rich_schema_text({9: ("fc2_last_iter", "work", 'per = "trip"\ntrips = "trips"\ntags = ["k_reducible"]')})
    with pytest.raises(BadInput, match=r"region 9 was recorded as 'fc2'.*'fc2_last_iter'"):
        load(path, schema=parse(tomllib.loads(renamed), where="renamed"))


def test_pitfall_rows_of_other_launches_are_refused_and_not_sliced_off():
    schema = builtin("coop-11")
    buffer = np.concatenate([Launch(trips=1).legacy(11)] * 4)
    with pytest.raises(BadInput, match="rows of other launches"):
        from_legacy(buffer, schema, schema.grid(GRID), "globaltimer")


def test_pitfall_an_error_message_is_no_capture(tmp_path, tried):
    junk = {
        "text.npy": b"docker: command not found\n",
        "empty.npy": b"",
        "cut.npy": b"\x93NUMPY\x01\x00",
        "zip.npz": b"PK\x03\x04 not a zip",
    }
    for name, content in junk.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(BadInput):
            load(tmp_path / name, schema=builtin("coop-11"), grid=GRID)
    with pytest.raises(BadInput, match="cannot be read"):
        load(tmp_path / "absent.npy")
    with pytest.raises(BadInput):
        load(tmp_path)
    pickled = io.BytesIO()
    np.save(pickled, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    (tmp_path / "pickle.npy").write_bytes(pickled.getvalue())
    with pytest.raises(BadInput):
        load(tmp_path / "pickle.npy", schema=builtin("coop-11"), grid=GRID)
    tried("malformed inputs", len(junk) + 3)


def cell(worker, region, **values):
    def change(cells):
        for name, value in values.items():
            cells[name][worker, region] = value

    return change


BAD_CELLS = {
    "negative entry": (cell(3, 5, entry=-1), "negative"),
    "negative ticks": (cell(3, 5, ticks=-32), "negative"),
    "negative count": (cell(3, 5, count=-1), "negative"),
    "huge tick": (cell(3, 5, exit=2**63 - 1), "too large"),
    "flag of two": (cell(3, 5, written=2), "written flag"),
    "never written, but numbers": (cell(3, 5, written=0), "never written"),
    "exit before entry": (cell(3, 5, entry=2**50), "exit before its entry"),
    "ticks without a trip": (cell(3, 5, count=0), "no trip"),
    "more ticks than time": (cell(3, 5, ticks=10**9), "more ticks than lie between"),
}


@pytest.mark.parametrize("what", BAD_CELLS)
def test_junk_in_a_cell_names_the_worker_and_the_region(what, launch, schema, tried):
    change, said = BAD_CELLS[what]
    cells = launch.cells(CELL)
    change(cells)
    with pytest.raises(BadInput, match=said) as caught:
        make_capture(cells, schema, about_of(launch), origin="junk.npy")
    assert "junk.npy: worker 3, region 5" in caught.value.cause and caught.value.index == 3
    tried("planted faults", 1)


@pytest.mark.parametrize(
    ("slot", "value", "said"),
    [
        (0, 0, "without an exit"),
        (1, 0, "without an exit"),
        (1, 1, "exit before"),
        (0, -5, "negative"),
        (1, 2**63 - 1, "too large"),
    ],
)
def test_a_half_written_legacy_slot_is_refused(slot, value, said, tried):
    buffer = Launch(trips=1).legacy(11)
    buffer[7, 5, slot] = value
    schema = builtin("coop-11")
    with pytest.raises(BadInput, match=said):
        from_legacy(buffer, schema, schema.grid(GRID), "globaltimer")
    tried("planted faults", 1)


def test_a_sum_slot_with_a_timestamp_in_it_is_refused():
    buffer = Launch(trips=1).legacy(20)
    buffer[7, 16, 0] = buffer[7, 7, 0]
    schema = builtin("coop-20")
    with pytest.raises(BadInput, match="sum with an entry tick"):
        from_legacy(buffer, schema, schema.grid(GRID), "globaltimer")


def test_three_kinds_of_nothing_stay_apart(launch, schema):
    cells = launch.cells(CELL)
    cells[5, 5] = (0, 0, 0, 0, 0)
    cells[6, 5] = (0, 0, 0, 0, 1)
    cells["exit"][7, 5], cells["ticks"][7, 5] = cells["entry"][7, 5], 0
    cells["ticks"][9, 7] = cells["count"][9, 7] * 32 - 32
    made = make_capture(cells, schema, about_of(launch))
    kinds = states(made, 32)
    assert [State(kinds[w, 5]).name for w in (5, 6, 7, 8)] == ["NOT_RUN", "ZERO_LENGTH", "BELOW_TICK", "MEASURED"]
    assert kinds[9, 7] == State.BELOW_TICK, "34 trips in fewer than 34 steps are below the step as well"
    row = reduce(made).row(5)
    assert (row.active_workers, row.not_run, row.zero_length, row.below_tick) == (63, 1, 1, 1)


def test_a_description_with_junk_in_it_is_refused(capture, tmp_path, tried):
    about = json.loads(msgspec.json.encode(about_of(Launch(trips=1), schema=capture.schema)))
    broken = [
        {**about, "colour": 1},
        {**about, "tick_source": "sundial"},
        {**about, "grid": {"bx": "eight"}},
        {**about, "grid": {}},
        {**about, "rows": "columns"},
        {**about, "format": 2},
        {**about, "window": [1]},
        {**about, "spans": [[5, 1]]},
        {**about, "tick_step": 0},
        {**about, "tick_step": 2**70},
        {**about, "total_ns": float("nan")},
        {**about, "total_ns": -1.0},
        {**about, "grid": {**about["grid"], "trips": 2**70}},
        {**about, "regions": ["a", "b"]},
        {**about, "region_tick_source": {"fc1": "sundial"}},
        {**about, "schema": {"name": "x", "region": []}},
        {**about, "schema": 3},
        [],
        None,
        "text",
    ]
    for document in broken:
        np.save(tmp_path / "a.npy", capture.cells)
        (tmp_path / "a.npy.json").write_text(json.dumps(document))
        with pytest.raises(BadInput):
            load(tmp_path / "a.npy")
    tried("malformed inputs", len(broken))


def test_huge_lengths_add_up_without_wrapping(launch, schema):
    cells = launch.cells(CELL)
    cells["exit"][:, 14] = 2**62
    cells["ticks"][:, 14] = 2**62 - cells["entry"][:, 14]
    assert reduce(make_capture(cells, schema, about_of(launch))).row(14).total_ticks > 2**67


def test_a_zip_that_unpacks_to_too_much_or_holds_other_things_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("cells.npy", b"x")
    with pytest.raises(BadInput, match="not a whet capture"):
        load(tmp_path / "a.npz")


@pytest.fixture(scope="module")
def saved(tmp_path_factory, launch, schema):
    folder = tmp_path_factory.mktemp("saved")
    good = make_capture(launch.cells(CELL), schema, about_of(launch))
    np.save(folder / "legacy.npy", launch.legacy(11))
    return folder, [save(good, folder / "a.npz").read_bytes(), (folder / "legacy.npy").read_bytes()]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_file_never_gets_past_the_loader_unseen(data, saved):
    """Flipped bytes and cuts: a typed error, or a capture that can be judged without one of another kind."""
    folder, originals = saved
    raw = bytearray(data.draw(st.sampled_from(originals)))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        raw = raw[: data.draw(st.integers(0, len(raw)))]
    path = folder / "damaged.bin"
    path.write_bytes(bytes(raw))
    legacy_grid = GRID if raw[:2] != b"PK" else {}
    try:
        judge(load(path, grid=legacy_grid), total_us=1000.0)
    except WhetError as problem:
        assert problem.cure


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 19), st.sampled_from(CELL.names), st.integers(-3, 2**62)),
        max_size=6,
    )
)
def test_cells_with_anything_in_them_are_refused_or_judged(changes):
    launch = Launch(slices=2, tiles=2, trips=2)
    schema = parse(tomllib.loads(rich_schema_text()), where="test")
    cells = launch.cells(CELL)
    for worker, region, name, value in changes:
        cells[name][worker, region] = value
    try:
        verdict = judge(make_capture(cells, schema, about_of(launch)))
    except BadInput as problem:
        assert problem.cure
        return
    assert verdict.share is None or 0 <= verdict.share <= 1 + 1e-9
