"""Multiples kept of each point: the same answers everywhere, the memory that is promised, files that can be checked."""

from __future__ import annotations

import json

import pytest
from known_sums import known, right_on_adversarial_cases
from test_prepared_files import DATA, HEADER, checksum
from whet._native import curve
from whet._native import msm as native

from whet.cli import app
from whet.errors import BadInput, Unsupported
from whet.msm import Engine, Point, inputs
from whet.msm.affine import Affine
from whet.msm.oracle import known_multiples
from whet.msm.points import Srs
from whet.msm.validate import read_points

BACKENDS = native.backends()
FACTORS = (1, 2, 4, 8, 16)
WINDOWS = (0, 1, 2, 5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_adversarial_cases(backend, tried):
    def prepare(case):
        windows, precompute = WINDOWS[case.number // 5 % len(WINDOWS)], FACTORS[case.number % 5]
        return Affine.prepared(read_points(case.points), backend, 1, windows, precompute)

    right_on_adversarial_cases(prepare, 77_120, 400)
    tried("adversarial cases", 400)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("precompute", FACTORS[1:])
def test_profiles(backend, precompute, tried):
    for profile in inputs.PROFILES:
        points, scalars, expected = known(profile, 701)
        assert Engine(points, montgomery=True, check=False, backend=backend, precompute=precompute)(scalars) == expected
    tried("profiles with multiples", len(inputs.PROFILES))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("precompute", FACTORS[1:])
def test_sizes_around_the_edges(backend, precompute):
    """Of small sums, of vectors, of lists that are split; and with fewer scalars than points."""
    points, scalars, _ = known("random", 1025)
    logs = inputs.to_ints(inputs.logs("random", 1025, 5))
    engine = Engine(points, montgomery=True, check=False, backend=backend, precompute=precompute)
    for n in (0, 1, 2, 3, 8, 12, 13, 36, 37, 255, 256, 257, 1023, 1024, 1025):
        for offset in {0, (1025 - n) // 2}:
            want = known_multiples(logs[offset : offset + n], inputs.to_ints(scalars[:n]))
            assert engine.view(offset, n)(scalars[:n]) == want


def test_short_scalars_use_the_blocks_that_they_reach():
    points, _, _ = known("random", 300)
    logs = inputs.to_ints(inputs.logs("random", 300, 5))
    engine = Affine.prepared(points, precompute=8)
    blocks = []
    for bits in (1, 15, 16, 17, 40, 64, 100, 123, 124, 125, 126, 127, 128, 200, 254):
        values = [((1 << bits) - 1) >> (i % 3) for i in range(300)]
        sum_, work = engine.run(inputs.to_limbs(values), 0)
        assert Point.from_bytes(sum_.tobytes()) == known_multiples(logs, values)
        blocks.append(work["blocks"])
    assert blocks[0] == 1 and blocks == sorted(blocks) and blocks[-1] == engine.multiples > 1


@pytest.mark.parametrize("n", [20, 1000, 5000])
def test_the_map_equals_the_ledger(n):
    points, scalars, _ = known("random", n)
    plain = Engine(points, montgomery=True, check=False, variant="affine")
    with Engine(points, montgomery=True, check=False, precompute=8) as engine:
        engine(scalars)
        multiples = engine._affine().native.multiples
        rows = {row.name: row.size_bytes for row in engine.memory_map()}
        assert rows == engine.ledger() and rows["prepared points"] == 64 * multiples * n
        assert 1 < multiples <= 8
        assert plain.memory_map()[0].size_bytes == 64 * n


def test_batches_and_srs_files(tmp_path):
    points, scalars, expected = known("random", 400)
    engine = Engine(points, montgomery=True, check=False, precompute=4)
    assert engine.batch([scalars, scalars]) == [expected, expected]
    path = tmp_path / "points.raw"
    path.write_bytes(curve.write_points(points).tobytes())
    with Srs.open(path, "raw-le") as srs:
        assert len(srs.prepare(precompute=4)) == 400
        assert srs.commit(scalars) == expected
        assert srs.prepare()._affine().native.multiples == 4


def test_a_budget_holds_all_multiples_or_is_refused():
    points, scalars, expected = known("random", 3000)

    def engine(budget: int) -> Engine:
        return Engine(points, montgomery=True, check=False, precompute=8, memory_budget=budget)

    with pytest.raises(BadInput, match="too small") as refused:
        engine(1_000_000)
    least = int(str(refused.value.cure).split("at least ")[1].split(" bytes")[0].replace(",", ""))
    made = engine(least)
    assert made(scalars) == expected
    assert sum(made.ledger().values()) <= least
    assert made.ledger()["prepared points"] == 64 * 3000 * made._affine().native.multiples
    with pytest.raises(BadInput, match="too small"):
        engine(least - 1)


@pytest.mark.parametrize("precompute", [0, -1, 17, 2.0, "4", True, int])
def test_other_numbers_are_refused(precompute):
    with pytest.raises(BadInput, match="precompute="):
        Engine([(1, 2)], precompute=precompute)


def test_who_cannot_keep_multiples_says_so():
    for options in ({"variant": "plain"}, {"variant": "walker"}):
        with pytest.raises(BadInput, match="precompute"):
            Engine([(1, 2)], precompute=2, **options)
    with pytest.raises((BadInput, Unsupported)):
        Engine([(1, 2)], precompute=2, device="webgpu")


# Files: version 2 is one multiple of each point, version 3 has more.


@pytest.fixture(params=BACKENDS)
def saved(request, tmp_path):
    logs = inputs.logs("random", 120, 1)
    logs[[7, 9]] = 0
    path = tmp_path / "srs.whet"
    Engine(inputs.points_from_logs(logs), montgomery=True, backend=request.param, precompute=4).save(path)
    return path


def header(content: bytes) -> list:
    return list(HEADER.unpack_from(content))


def forged(content: bytes, body: bytes, **fields: int) -> bytes:
    """The file with another body or header, and right checksums."""
    values = header(content)
    for name, value in fields.items():
        values[{"version": 2, "bytes_per_point": 4, "points": 5}[name]] = value
    values[7] = checksum(body)
    values[8] = checksum(HEADER.pack(*values)[:-8])
    return HEADER.pack(*values) + content[HEADER.size : DATA] + body


def test_a_file_keeps_the_multiples(saved):
    fields = header(saved.read_bytes())
    assert fields[2] == 3 and fields[4] == 64 * 4
    scalars = inputs.scalars("random", 120, 2)
    logs = inputs.to_ints(inputs.logs("random", 120, 1))
    logs[7] = logs[9] = 0
    want = known_multiples(logs, inputs.to_ints(scalars))
    for backend in BACKENDS:  # whichever wrote it
        for options in ({}, {"copy": True}, {"check": "on-curve"}):
            with Engine.open(saved, backend=backend, **options) as engine:
                assert engine(scalars) == want
                assert engine._affine().native.multiples == 4 and "precompute=4" in str(engine.variant)


def test_one_multiple_is_the_file_that_it_was(tmp_path):
    points, scalars, expected = known("random", 120)
    for options in ({}, {"precompute": 1}):
        path = tmp_path / "one.whet"
        Engine(points, montgomery=True, **options).save(path)
        assert header(path.read_bytes())[2] == 2 and header(path.read_bytes())[4] == 64
        assert Engine.open(path, check="on-curve")(scalars) == expected


def test_a_wrong_multiple_is_found_on_every_backend(saved):
    """Each point of it is on the curve, and the checksum fits."""
    content = saved.read_bytes()
    body = bytearray(content[DATA:])
    rows = 64 * 120
    body[rows + 64 * 50 : rows + 64 * 51], body[rows + 64 * 51 : rows + 64 * 52] = (
        body[rows + 64 * 51 : rows + 64 * 52],
        body[rows + 64 * 50 : rows + 64 * 51],
    )
    saved.write_bytes(forged(content, bytes(body)))
    for backend in BACKENDS:
        Engine.open(saved, backend=backend).close()
        with pytest.raises(BadInput, match="a multiple of point 50 is wrong"):
            Engine.open(saved, backend=backend, check="on-curve")
    for block, row, bytes_ in ((3, 119, b"\xff" * 64), (1, 7, b"\x01" * 64), (2, 0, bytes(64))):
        wrong = bytearray(content[DATA:])
        wrong[block * rows + 64 * row : block * rows + 64 * row + 64] = bytes_
        saved.write_bytes(forged(content, bytes(wrong)))
        with pytest.raises(BadInput, match=f"a multiple of point {row} is wrong"):
            Engine.open(saved, check="on-curve")


def test_headers_that_make_no_sense(saved):
    content = saved.read_bytes()
    body = content[DATA:]
    for fields in (
        {"version": 2},
        {"version": 3, "bytes_per_point": 64},
        {"bytes_per_point": 0},
        {"bytes_per_point": 64 * 4 + 8},
        {"bytes_per_point": 64 * 17, "points": 28},
        {"bytes_per_point": 1 << 31},
        {"version": 4},
    ):
        saved.write_bytes(forged(content, body, **fields))
        with pytest.raises(BadInput, match=r"makes no sense|this build reads 2 and 3|bytes long"):
            Engine.open(saved)


# The command line.


def test_the_command_line(capsys):
    assert app.invoke(["msm", "--n", "300", "--seed", "3", "--precompute", "8", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert "precompute=8" in json.dumps(told)
    for wrong in (["--precompute", "17"], ["--precompute", "2", "--variant", "plain"]):
        with pytest.raises(BadInput, match="precompute"):
            app.invoke(["msm", "--n", "300", *wrong])


def test_the_frontier_offers_multiples_and_times_them(capsys):
    assert app.invoke(["memory", "msm", "--variant", "affine:precompute=8", "--n", "2^12", "--measure", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    offered = [row["multiples"] for row in told["frontier"]]
    assert max(offered) > 8 and {1, 2, 4} <= set(offered) and offered[-1] == 1
    assert all(row["measured_ns"] > 0 for row in told["frontier"])
    prepared = next(row for row in told["map"] if row["name"] == "prepared points")
    assert prepared["size_bytes"] == 64 * told["multiples"] << 12 and 1 < told["multiples"] <= 8
    with pytest.raises(BadInput, match="too small"):
        app.invoke(["memory", "msm", "--variant", "affine:precompute=8", "--n", "2^12", "--budget", "1MB"])
