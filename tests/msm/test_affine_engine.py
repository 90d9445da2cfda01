"""The fast engine, on every backend of this CPU: right on adversarial cases, and its promises as a library."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from known_sums import known, right_on_adversarial_cases
from whet._native import msm as native

from whet.errors import BadInput, Cancelled, DeviceOutOfMemory, Unsupported
from whet.msm import Engine, Point, inputs, msm
from whet.msm.adversarial import KINDS, adversarial_case
from whet.msm.affine import OVERRIDE, Affine
from whet.msm.engine import MsmEngine
from whet.msm.oracle import known_multiples
from whet.msm.point import R
from whet.msm.validate import read_points
from whet.protocol import Case, parse_variant

BACKENDS = native.backends()
WINDOWS = (0, 8, 9, 11, 14, 19, 25, 31)


def fast(points: np.ndarray, **options) -> Engine:
    return Engine(points, montgomery=True, check=False, variant="affine", **options)


@pytest.mark.parametrize("backend", BACKENDS)
def test_adversarial_cases(backend, tried):
    def prepare(case):
        windows = WINDOWS[case.number % len(WINDOWS)]
        return Affine.prepared(read_points(case.points), backend, threads=1 + case.number % 3, windows=windows)

    right_on_adversarial_cases(prepare, 90_210, 800)
    tried("adversarial cases", 800)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("profile", inputs.PROFILES)
def test_profiles_at_a_size_with_full_chunks(backend, profile):
    points, scalars, expected = known(profile, 6_001)
    assert fast(points, backend=backend).compute(scalars) == expected


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_profile_runs_under_the_gate(backend):
    """Through the protocol: the answer, and stage times that cover the run."""
    engine, case = MsmEngine(), Case(sizes={"n": 513})
    variant = parse_variant(engine, f"affine:backend={backend},threads=2")
    fixed, scalars = engine.fixed(case, 1), engine.prepare(case, 2)
    state = engine.setup(variant, case, fixed, "cpu")
    out = {"point": np.zeros(8, np.uint64)}
    engine.run(variant, state, {**fixed, **scalars}, out)
    assert np.array_equal(out["point"], engine.oracle(case, 1, 2, {**fixed, **scalars})["point"])
    timing = engine.timing(state)
    assert timing is not None
    assert set(timing.regions_ns) == {"scan", "digits", "sort", "buckets", "rows", "bits", "finish"}
    assert timing.regions_ns["buckets"] > 0


def test_counters_say_what_was_done():
    points, scalars, _ = known("random", 4_096)
    work = fast(points).answer(scalars).work
    # Every digit that is not zero is one entry; a bucket's first point is not an addition, its row and column are two.
    buckets = 2 ** (work["window_bits"] - 1) * work["windows"]
    assert work["glv"] == 1 and 0.99 * 2 * 4_096 * work["windows"] < work["entries"] <= 2 * 4_096 * work["windows"]
    assert work["entries"] - buckets <= work["additions"] - work["reduction_additions"] <= 1.1 * work["entries"]
    assert 0 < work["reduction_additions"] <= 2.5 * buckets
    assert work["doublings"] == work["cancellations"] == 0
    engine = fast(np.tile(points[:1], (4_096, 1)))
    same = engine.answer(scalars).work
    assert same["doublings"] > 1_000
    # Only the vectors need a second pass for them.
    assert (same["slow_passes"] > 0) == (engine.backend in ("ifma", "avx2"))


def test_short_and_sparse_scalars_do_less():
    full = fast(known("random", 3_000)[0])
    work = {p: full.answer(inputs.scalars(p, 3_000, 9)).work for p in ("random", "bits32", "bits01", "sparse", "zeros")}
    assert work["bits32"]["additions"] < work["random"]["additions"] / 3
    assert work["bits01"]["additions"] < 3_000 < work["bits32"]["additions"]
    assert work["sparse"]["additions"] < work["random"]["additions"] / 5
    assert work["zeros"]["additions"] == 0


def test_views_batches_and_formats():
    points, scalars, expected = known("random", 1_000)
    engine = fast(points)
    logs = inputs.to_ints(inputs.logs("random", 1_000, 5))
    values = inputs.to_ints(scalars)
    for offset, size in ((0, 1_000), (0, 10), (7, 500), (999, 1), (1_000, 0)):
        want = known_multiples(logs[offset : offset + size], values[:size])
        assert engine.view(offset, size)(scalars[:size]) == want
    assert engine.batch([scalars, scalars, values]) == [expected] * 3
    assert engine(scalars.astype(">u8").tobytes()[:0] + scalars.tobytes()) == expected
    with pytest.raises(BadInput, match="1000 points but 1001"):
        engine([*values, 1])


def test_backends_are_forced_by_name_and_by_the_environment(monkeypatch):
    points, scalars, expected = known("random", 20)
    for backend in BACKENDS:
        engine = fast(points, backend=backend)
        assert engine.backend == backend and engine.compute(scalars) == expected
    assert fast(points).backend == BACKENDS[0]
    monkeypatch.setenv(OVERRIDE, "portable")
    assert fast(points).backend == "portable"
    monkeypatch.setenv(OVERRIDE, "quantum")
    with pytest.raises(Unsupported, match="no backend quantum") as caught:
        fast(points)
    assert "portable" in caught.value.cure
    with pytest.raises(BadInput):
        msm(points, scalars, backend="quantum")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("profile", ["random", "bits32"])
@pytest.mark.parametrize("n", [1, 100, 5_000, 70_000])
def test_memory_is_what_the_map_says(backend, profile, n):
    points = np.tile(inputs.points_from_logs(inputs.to_limbs([3])), (n, 1))
    engine = fast(points, backend=backend, threads=2)
    scalars = inputs.scalars(profile, n, 1)
    engine.compute(scalars)
    bits = max(v.bit_length() for v in inputs.to_ints(scalars))
    rows = {row.name: row.size_bytes for row in engine.memory_map(scalar_bits=bits)}
    assert rows == engine.ledger()
    assert rows["prepared points"] == 64 * n


def test_memory_stays_below_160_bytes_per_point():
    """By the closed form, whatever the scalars are; a small input has a floor of its own."""
    engine = fast(inputs.points_from_logs(inputs.to_limbs([3])), threads=2)
    for log_n in range(10, 23):
        for bits in (1, 32, 125, 126, 254, 256):
            rows = engine.memory_map(2**log_n, scalar_bits=bits)
            total = 64 * 2**log_n + sum(row.size_bytes for row in rows if row.name != "prepared points")
            assert total <= 160 * 2**log_n + (0 if log_n >= 20 else 24 * 2**20), (log_n, bits, total)


def test_failing_allocations_are_typed_and_leave_nothing():
    points, scalars, expected = known("random", 20)
    failures = 0
    for at in range(16):
        engine = Affine.prepared(points, windows=11)  # buckets, although there are few points
        engine._native.fail_allocation_after(at)
        try:
            engine.run(scalars, 0)
        except DeviceOutOfMemory as error:
            failures += 1
            assert "bytes" in error.cause and error.cure
            assert engine.ledger() == {"prepared points": 20 * 64}
        engine._native.fail_allocation_after(-1)
        assert Point.from_bytes(engine.run(scalars, 0)[0].tobytes()) == expected
    assert failures == 16
    engine = Affine.prepared(points)
    engine._native.fail_allocation_after(0)
    with pytest.raises(DeviceOutOfMemory):
        engine.run(scalars, 0)
    assert engine.ledger() == {"prepared points": 20 * 64}


# Lowers the address space under a running process, so that the system itself refuses.
STARVED = """
import resource, sys
import numpy as np
from whet.errors import DeviceOutOfMemory
from whet.msm import Engine, inputs

n = 200_000
points = np.tile(inputs.points_from_logs(inputs.to_limbs([3])), (n, 1))
scalars = inputs.scalars("random", n, 1)
engine = Engine(points, montgomery=True, check=False, threads=2)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
free = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (used + (8 << 20), free[1]))
try:
    engine.compute(scalars)
    print("there was enough")
except DeviceOutOfMemory as error:
    print("typed", "no memory for" in error.cause, bool(error.cure), sorted(engine.ledger()))
resource.setrlimit(resource.RLIMIT_AS, free)
print("then right", engine.compute(scalars) == Engine(points[:1], montgomery=True)([sum(inputs.to_ints(scalars)) % R]))
"""


def test_out_of_memory_by_the_system_is_typed_and_survived():
    done = subprocess.run(
        [sys.executable, "-c", f"R = {R}\n{STARVED}"], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stdout.splitlines() == ["typed True True ['prepared points']", "then right True"], done.stderr


def test_sixteen_threads_at_once():
    points, _, _ = known("random", 700)
    engine = fast(points, threads=2)
    logs = inputs.to_ints(inputs.logs("random", 700, 5))
    jobs = [inputs.scalars(profile, 700, seed) for seed, profile in enumerate(["random", "D", "bits01", "equal"] * 4)]
    wanted = [known_multiples(logs, inputs.to_ints(job)) for job in jobs]
    got: list[list[Point]] = [[] for _ in jobs]
    barrier = threading.Barrier(len(jobs))

    def call(index: int) -> None:
        barrier.wait()
        for _ in range(3):
            got[index].append(engine.compute(jobs[index]))

    threads = [threading.Thread(target=call, args=(i,)) for i in range(len(jobs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == [[want] * 3 for want in wanted]


def test_cancelled_half_way_by_an_event():
    points, scalars, expected = known("random", 20_000)
    engine = fast(points, threads=2, backend="portable")
    stop, seen = threading.Event(), []

    def progress(done: float) -> None:
        seen.append(done)
        if done > 0.3:
            stop.set()

    with pytest.raises(Cancelled):
        engine(scalars, cancel=stop, progress=progress)
    assert seen == sorted(seen) and 0.3 < seen[-1] < 0.9
    seen.clear()
    assert engine(scalars, progress=seen.append) == expected
    assert seen == sorted(seen) and seen[-1] <= 1


def test_cancel_reaches_running_and_waiting_calls():
    points, scalars, expected = known("random", 30_000)
    engine = fast(points, threads=1, backend="portable")
    started, outcomes = threading.Event(), []

    def call() -> None:
        try:
            outcomes.append(engine(scalars, progress=lambda done: started.set()))
        except Cancelled as error:
            outcomes.append(error)

    threads = [threading.Thread(target=call) for _ in range(3)]
    for thread in threads:
        thread.start()
    started.wait(60)
    while any(thread.is_alive() for thread in threads):
        engine.cancel()  # again and again: a thread may not have got as far as its call
        time.sleep(0.005)
    assert len(outcomes) == 3 and all(isinstance(outcome, Cancelled) for outcome in outcomes)
    assert engine(scalars) == expected


def test_an_exception_in_the_callback_comes_out():
    points, scalars, _ = known("random", 20_000)

    def progress(done: float) -> None:
        raise LookupError("from the callback")

    with pytest.raises(LookupError, match="from the callback"):
        fast(points, backend="portable")(scalars, progress=progress)


@pytest.mark.parametrize("writer", BACKENDS)
def test_saved_points_open_on_every_backend(tmp_path, writer):
    points, scalars, expected = known("collide", 999)
    path = tmp_path / "srs.whet"
    fast(points, backend=writer).save(path)
    assert path.stat().st_size == 4096 + 64 * 999 + 4 * int(np.sum(~points.any(axis=1)))
    for reader in BACKENDS:
        for verify in (True, False):
            with Engine.open(path, backend=reader, verify=verify) as engine:
                assert len(engine) == 999 and engine.backend == reader
                assert engine(scalars) == expected
    assert [entry.name for entry in tmp_path.iterdir()] == ["srs.whet"]


def test_bad_files_are_refused(tmp_path, tried):
    points, _, _ = known("collide", 50)
    path = tmp_path / "srs.whet"
    fast(points).save(path)
    good = path.read_bytes()
    rng = np.random.default_rng(3)
    bad = [good[:size] for size in (0, 1, 63, 4095, 4096, len(good) - 1)] + [good + b"\0", b"x" * len(good)]
    header = bytes(range(56))
    for at in (*header, *(int(i) for i in rng.integers(4096, len(good), 60))):
        flipped = bytearray(good)
        flipped[at] ^= 1 << int(rng.integers(0, 8))
        bad.append(bytes(flipped))
    newer = bytearray(good)
    newer[12] = 4
    older = bytearray(good)
    older[12] = 1
    other_endian = bytearray(good)
    other_endian[8:12] = good[8:12][::-1]
    for content in (*bad, newer, older, other_endian):
        path.write_bytes(content)
        with pytest.raises(BadInput) as caught:
            Engine.open(path)
        assert caught.value.cure
    for content, version in ((newer, 4), (older, 1)):
        path.write_bytes(content)
        with pytest.raises(BadInput, match=f"has version {version} and this build reads 2 and 3"):
            Engine.open(path)
    with pytest.raises(BadInput, match="other byte order"):
        path.write_bytes(other_endian)
        Engine.open(path)
    for missing in (tmp_path / "absent", tmp_path):
        with pytest.raises(BadInput):
            Engine.open(missing)
    with pytest.raises(BadInput):
        fast(points).save(tmp_path / "no folder" / "srs.whet")
    tried("malformed inputs", len(bad) + 6)


def test_a_file_truncated_under_its_map_is_refused(tmp_path):
    points, scalars, expected = known("collide", 50)
    path = tmp_path / "srs.whet"
    fast(points).save(path)
    engine = Engine.open(path, copy=False)
    assert engine(scalars) == expected
    whole = path.read_bytes()
    with path.open("r+b") as file:
        file.truncate(4096 + 64)
    for attempt in (lambda: engine(scalars), lambda: engine.save(tmp_path / "copy"), lambda: Engine.open(path)):
        with pytest.raises(BadInput):
            attempt()
    path.write_bytes(whole)  # the same file again, as long as it was
    assert engine(scalars) == expected


@pytest.mark.parametrize("options", [{}, {"check": "on-curve"}, {"verify": False}])
def test_a_copy_outlives_its_file(options, tmp_path):
    points, scalars, expected = known("collide", 50)
    path = tmp_path / "srs.whet"
    for backend in BACKENDS:  # a file for another Montgomery form is converted where it was read to
        fast(points).save(path)
        with Engine.open(path, backend=backend, **options) as engine:
            path.write_bytes(bytes(5000))
            os.truncate(path, 0)
            assert engine(scalars) == expected
            assert engine.ledger()["prepared points"] == 64 * 50 == engine.memory_map()[0].size_bytes
            engine.save(tmp_path / "again")
        assert Engine.open(tmp_path / "again")(scalars) == expected
    with pytest.raises(BadInput, match="too short"):
        Engine.open(path)


CUT_SHORT = """
import os, sys, threading
from whet.msm import Engine
path = sys.argv[1]
engine = Engine.open(path, backend="portable")
scalars = [3] * len(engine)
expected = engine(scalars)
cut = []
def progress(done):
    if not cut:
        cut.append(os.truncate(path, 4096))
print(engine(scalars, progress=progress) == expected, len(cut))
"""


def test_a_file_that_is_cut_short_in_the_middle_of_a_call(tmp_path):
    """With `copy=False` in CUT_SHORT the child ends by SIGBUS."""
    points = inputs.points_from_logs(inputs.logs("random", 200, 1)).repeat(30, axis=0)
    # For the same kernel, or the points would be converted, and a map would be left at once.
    Engine(points, montgomery=True, check=False, backend="portable").save(tmp_path / "srs.whet")
    command = [sys.executable, "-c", CUT_SHORT, str(tmp_path / "srs.whet")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "True 1\n", (done.returncode, done.stderr)


def test_inputs_are_left_alone_and_read_in_place():
    case = adversarial_case(4, list(KINDS).index("near_r"))
    points, scalars = case.points.copy(), case.scalars.copy()
    points.setflags(write=False)
    scalars.setflags(write=False)
    assert msm(points, scalars) == case.expected
    assert np.array_equal(points, case.points) and np.array_equal(scalars, case.scalars)


def test_other_variants_say_that_they_cannot(tmp_path):
    engine = Engine([(1, 2)], variant="plain")
    for attempt in (lambda: engine.save(tmp_path / "x"), engine.cancel, engine.memory_map, engine.ledger):
        with pytest.raises(Unsupported, match="plain"):
            attempt()
