"""`memory_budget`: the answer stays, the map is the ledger, and the ledger never passes the budget."""

from __future__ import annotations

import json
import threading
import tracemalloc

import numpy as np
import pytest
from whet._native import curve
from whet._native import msm as native

from whet.cli import app
from whet.errors import BadInput, Cancelled, Unsupported
from whet.msm import Engine, Scalars, Srs, inputs, msm
from whet.msm.budget import READ_AT_ONCE, READING_BYTES, BudgetedSums
from whet.msm.oracle import known_multiples
from whet.msm.points import msm_from_files, write_points, write_scalars
from whet.protocol import parse_bytes

N = 20_000
BACKENDS = native.backends()


@pytest.fixture(scope="module")
def logs():
    """With every tenth point at infinity, so that lists of those must follow the pieces."""
    made = inputs.logs("random", N, 5)
    made[::10] = 0
    return made


@pytest.fixture(scope="module")
def points(logs):
    return inputs.points_from_logs(logs)


def wanted(logs, scalars, offset=0):
    part = logs[offset : offset + len(scalars)]
    return known_multiples(inputs.to_ints(part), inputs.to_ints(scalars))


def engine_within(points, budget, **options) -> tuple[Engine, BudgetedSums]:
    engine = Engine(points, montgomery=True, check=False, threads=2, memory_budget=budget, **options)
    sums = engine._prepared
    assert isinstance(sums, BudgetedSums)
    return engine, sums


def total(engine: Engine, **options) -> int:
    return sum(row.size_bytes for row in engine.memory_map(**options))


@pytest.fixture(scope="module")
def unlimited(points) -> int:
    return total(Engine(points, montgomery=True, check=False, threads=2))


@pytest.fixture(scope="module")
def problem(points, logs, unlimited):
    return points, logs, unlimited


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("share", [1.3, 0.9, 0.5, 0.2])
def test_the_sum_is_right_and_memory_is_what_the_map_says(backend, share, problem, tried):
    points, logs, unlimited = problem
    budget = int(share * unlimited)
    for number, profile in enumerate(("random", "bits32", "edges")):
        engine, sums = engine_within(points, budget, backend=backend)
        assert sums.resident == (share > 0.4)
        scalars = inputs.scalars(profile, N, number)
        assert engine.compute(scalars) == wanted(logs, scalars), profile
        reading = READING_BYTES * min(sums.piece, READ_AT_ONCE)
        assert sums.native._native.peak_bytes() + reading <= budget
        bits = max(v.bit_length() for v in inputs.to_ints(scalars))
        assert total(engine, scalar_bits=bits) <= budget
        rows = {row.name: row.size_bytes for row in engine.memory_map(scalar_bits=bits) if row.lifetime != "read"}
        if sums.resident and scalars.any(axis=1).all():  # zeros, and a shorter last piece, make the plan smaller
            assert rows == engine.ledger()
        tried("budgets kept", 1)


def test_a_smaller_budget_takes_fewer_windows_at_once_before_it_takes_pieces(points, unlimited):
    scalars = inputs.scalars("random", N, 1)
    at_once = []
    for share in (1.3, 1.0, 0.9, 0.85):
        engine, sums = engine_within(points, int(share * unlimited))
        at_once.append(engine.answer(scalars).work["windows_at_once"])
        assert sums.resident
    assert at_once == sorted(at_once, reverse=True) and at_once[-1] < at_once[0]
    pieces = engine_within(points, unlimited // 8)[0].answer(scalars).work["pieces"]
    assert pieces == -(-N // engine_within(points, unlimited // 8)[1].piece) > 4


def test_plans_of_different_shape_do_not_add_up(points, unlimited):
    """Blocks of an earlier call are given up when those of the next would not fit beside them."""
    budget = int(0.9 * unlimited)
    engine, sums = engine_within(points, budget)
    for profile, n in [("random", N), ("bits32", N), ("random", 100), ("E", N), ("random", N), ("bits01", 7)]:
        engine.view(0, n)(inputs.scalars(profile, n, 3))
        assert sums.native._native.peak_bytes() <= budget - READING_BYTES * READ_AT_ONCE


def test_a_budget_that_is_too_small_names_the_floor(points):
    with pytest.raises(BadInput, match="50,000 bytes is too small for sums over 20,000 points") as caught:
        engine_within(points, 50_000)
    floor = int(caught.value.cure.split("at least ")[1].split(" bytes")[0].replace(",", ""))
    scalars = inputs.scalars("random", N, 2)
    engine, _ = engine_within(points, floor)
    assert engine.compute(scalars) == Engine(points, montgomery=True, check=False).compute(scalars)
    with pytest.raises(BadInput, match="too small"):
        engine_within(points, floor - 1)
    for nonsense in (0, -5):
        with pytest.raises(BadInput, match="budget"):
            engine_within(points, nonsense)
    with pytest.raises(Unsupported, match="plain takes no memory budget"):
        Engine([(1, 2)], variant="plain", memory_budget=10**9)


@pytest.mark.parametrize("budget", [10**9, 2_000_000])
def test_views_batches_forms_and_small_sizes(budget, points, logs):
    engine, _ = engine_within(points, budget)
    scalars = inputs.scalars("random", N, 4)
    for offset, size in ((0, N), (0, 0), (N, 0), (17, 15_000), (N - 1, 1)):
        assert engine.view(offset, size)(scalars[:size]) == wanted(logs, scalars[:size], offset)
    assert engine.batch([scalars, scalars]) == [wanted(logs, scalars)] * 2
    assert msm([], [], memory_budget=budget).is_infinity
    few = [None, (1, 2), (1, 2)]
    assert msm(few, [5, 3, 4], memory_budget=budget) == msm([(1, 2)], [7])
    big_endian = b"".join(v.to_bytes(32, "big") for v in (1, 2, 1, 2))
    for given in (big_endian, bytearray(big_endian), np.frombuffer(big_endian, np.uint8).reshape(2, 64)):
        engine = Engine(given, endian="big", memory_budget=budget)
        assert engine([3, 4]) == msm([(1, 2)], [7])


@pytest.mark.parametrize("budget", [10**9, 2_000_000])
def test_bad_points_are_named_by_their_place_in_the_whole(budget):
    many = np.tile(np.array([[1, 0, 0, 0, 2, 0, 0, 0]], np.uint64), (20_000, 1))
    many[17_003, 4] = 3
    with pytest.raises(BadInput, match="point 17003 is not on the curve") as caught:
        Engine(many, memory_budget=budget)
    assert caught.value.index == 17_003
    pairs = [(1, 2)] * 9_000
    pairs[8_500] = (1, -2)
    with pytest.raises(BadInput, match="y of point 8500 is negative"):
        Engine(pairs, memory_budget=budget)
    with pytest.raises(BadInput, match="not a multiple of 64"):
        Engine(bytes(100), memory_budget=budget)


def test_reading_takes_no_more_than_the_map_says(points, tmp_path):
    """numpy tells tracemalloc what it allocates; both kinds of source are held to the stated bytes."""
    path = tmp_path / "points"
    write_points(path, curve.write_points(points))
    scalars = inputs.scalars("random", N, 4)
    with Srs.open(path, "raw-le") as srs:
        engines = [engine_within(points, 2_000_000)[0], Engine.streaming(srs, memory_budget=2_000_000, threads=2)]
        for engine in engines:
            row = next(row for row in engine.memory_map() if row.lifetime == "read")
            engine.compute(scalars)
            tracemalloc.start()
            engine.compute(scalars)
            peak_bytes = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert peak_bytes <= row.size_bytes + 65_536, (peak_bytes, row)


def test_a_batch_reads_each_piece_once(points, logs, monkeypatch):
    engine, sums = engine_within(points, 2_000_000)
    read = []
    limbs = sums._source.limbs
    monkeypatch.setattr(sums._source, "limbs", lambda start, stop: read.append(stop - start) or limbs(start, stop))
    vectors = [inputs.scalars(profile, N, 1) for profile in ("random", "bits32", "E")]
    assert engine.batch(vectors) == [wanted(logs, scalars) for scalars in vectors]
    assert sum(read) == N
    assert engine.batch([]) == [] and engine.view(3, 0).batch([[], []]) == [engine.view(0, 0)([])] * 2


def test_streamed_calls_take_turns_and_can_be_cancelled(points, logs):
    engine, sums = engine_within(points, 2_000_000, backend="portable")
    assert not sums.resident
    jobs = [inputs.scalars("bits32", N, seed) for seed in range(4)]
    got = {}
    threads = [threading.Thread(target=lambda i=i: got.update({i: engine.compute(jobs[i])})) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == {i: wanted(logs, job) for i, job in enumerate(jobs)}
    stop, seen = threading.Event(), []

    def progress(done: float) -> None:
        seen.append(done)
        if done > 0.5:
            stop.set()

    with pytest.raises(Cancelled):
        engine(jobs[0], cancel=stop, progress=progress)
    assert 0.5 < seen[-1] < 0.9 and seen == sorted(seen)

    def cancel_soon(done: float) -> None:
        engine.cancel()

    with pytest.raises(Cancelled):
        engine(jobs[0], progress=cancel_soon)
    assert engine(jobs[0]) == wanted(logs, jobs[0])


def test_files_larger_than_the_budget(points, logs, tmp_path):
    scalars = inputs.scalars("C", N, 8)
    write_points(tmp_path / "points", curve.write_points(points))
    write_scalars(tmp_path / "scalars", scalars)
    budget = 1_700_000
    assert (tmp_path / "points").stat().st_size + (tmp_path / "scalars").stat().st_size > budget
    told = []
    with Srs.open(tmp_path / "points", "raw-le") as srs, Scalars.open(tmp_path / "scalars", "raw-le") as given:
        point = msm_from_files(srs, given, memory_budget=budget, threads=2, progress=told.append)
        assert point == wanted(logs, scalars)
        assert sum(told) == N and len(told) > 3
        srs.prepare(memory_budget=budget)
        assert srs.commit(scalars[:1000], offset=19_000) == wanted(logs, scalars[:1000], 19_000)
    with pytest.raises(BadInput, match="closed"):
        srs.prepare().compute(scalars)


def test_mapped_points_leave_the_budget_to_the_call(points, logs, tmp_path):
    path = tmp_path / "srs.whet"
    saved = Engine(points, montgomery=True, check=False)
    saved.save(path)
    scalars = inputs.scalars("random", N, 8)
    with pytest.raises(BadInput, match="give at least") as caught:
        Engine.open(path, copy=False, memory_budget=1_000, threads=2)
    budget = int(caught.value.cure.split()[3].replace(",", ""))
    with Engine.open(path, copy=False, memory_budget=budget, threads=2) as engine:
        assert engine(scalars) == wanted(logs, scalars)
        assert sum(engine.ledger().values()) == total(engine) <= budget
    engine, _ = engine_within(points, 2_000_000)
    with pytest.raises(Unsupported, match="do not fit"):
        engine.save(path)


def test_budgets_in_words():
    assert [parse_bytes(t) for t in ("100MB", "64MiB", "1.5 GB", "2kB", "1KiB", "4096", "2^20", "12B")] == [
        100_000_000, 64 << 20, 1_500_000_000, 2_000, 1_024, 4_096, 1 << 20, 12,
    ]  # fmt: skip
    for text in ("", "MB", "-1MB", "1XB", "1.5e0", "nan", "1.5", "9" * 40 + "GB"):
        with pytest.raises(BadInput):
            parse_bytes(text)


def memory_told(capsys, *arguments: str) -> dict:
    assert app.invoke(["memory", "msm", "--variant", "affine:threads=2", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_memory_command_shows_the_map_of_the_engine(points, capsys):
    told = memory_told(capsys, "--n", str(N), "--budget", "4MB")
    engine, sums = engine_within(points, 4_000_000)
    rows = [{"name": r.name, "size_bytes": r.size_bytes, "lifetime": r.lifetime} for r in engine.memory_map()]
    assert told["map"] == rows and told["pieces"] == -(-N // sums.piece)
    assert told["total_bytes"] == sum(row["size_bytes"] for row in rows) <= 4_000_000
    engine_within(points, told["floor_bytes"])
    with pytest.raises(BadInput):
        engine_within(points, told["floor_bytes"] - 1)
    totals = [cut["total_bytes"] for cut in told["frontier"]]
    assert totals == sorted(totals, reverse=True) and told["frontier"][0]["budget_bytes"] is None
    assert all(cut["total_bytes"] <= (cut["budget_bytes"] or totals[0]) for cut in told["frontier"])


def test_the_memory_command_measures_and_refuses(capsys):
    assert all(cut["measured_ns"] > 0 for cut in memory_told(capsys, "--n", "2^12", "--measure")["frontier"])
    assert app.invoke(["memory", "msm", "--variant", "affine", "--n", "2^12", "--budget", "3MB"]) == 0
    assert "budget 3.0 MB: kept" in capsys.readouterr().out
    with pytest.raises(BadInput, match="give at least"):
        app.invoke(["memory", "msm", "--variant", "affine", "--budget", "1kB"])
    with pytest.raises(BadInput, match="outside"):
        app.invoke(["memory", "msm", "--variant", "affine", "--n", "2^40"])


def test_a_budget_is_a_knob(points, capsys):
    """So that budgets can be compared as any other variants can, and `--measure` times them behind the gate."""
    told = memory_told(capsys, "--n", str(N), "--budget", "4MB")
    whole, within = (
        Engine(points, montgomery=True, variant=text) for text in ("affine", "affine:memory_budget=4000000")
    )
    scalars = inputs.scalars("random", N, 3)
    assert within.compute(scalars).to_bytes() == whole.compute(scalars).to_bytes()
    assert sum(row.size_bytes for row in within.memory_map()) == told["total_bytes"] <= 4_000_000
    with pytest.raises(BadInput, match="too small"):
        Engine(points, montgomery=True, variant="affine:memory_budget=1000")
    with pytest.raises(BadInput, match="too small"):
        app.invoke(["memory", "msm", "--variant", "affine:memory_budget=1000", "--n", str(N)])
