"""Sums over files: commitments, streaming, writing; against Python integers."""

from __future__ import annotations

import random
import threading
import tracemalloc

import numpy as np
import pytest

import point_files as pf
from whet.errors import BadInput, ExitCode, WhetError
from whet.msm import Point, Scalars, Srs, msm
from whet.msm.points import msm_from_files, write_points, write_scalars

N = 300
POINTS = pf.multiples(N)  # point i is (i + 1) G


def expected(scalars, offset: int = 0) -> Point:
    total = sum(s * (offset + i + 1) for i, s in enumerate(scalars)) % pf.R
    result, base = None, (1, 2)
    while total:
        if total & 1:
            result = pf.add(result, base)
        base, total = pf.add(base, base), total >> 1
    return Point(*(result or (0, 0)))


@pytest.fixture
def srs(tmp_path):
    path = tmp_path / "srs.bin"
    path.write_bytes(b"".join(pf.affine(point, "little", montgomery=True) for point in POINTS))
    with Srs.open(path, "raw-le-mont") as opened:
        yield opened


def scalars(count: int, seed: int = 1) -> list[int]:
    rng = random.Random(seed)
    return [rng.randrange(pf.R) for _ in range(count)]


def test_commitments_with_fewer_scalars_and_offsets(srs):
    for count, offset in ((N, 0), (1, 0), (0, 0), (17, 100), (1, N - 1), (0, N)):
        values = scalars(count, count)
        assert srs.commit(values, offset=offset) == expected(values, offset)
    vectors = [scalars(n, n) for n in (3, 0, 40)]
    assert srs.commit_many(vectors, offset=5) == [expected(values, 5) for values in vectors]
    big_endian = b"".join(value.to_bytes(32, "big") for value in scalars(9))
    assert srs.commit(big_endian, endian="big") == expected(scalars(9))
    for count, offset in ((N + 1, 0), (1, N), (0, -1), (2, N - 1)):
        with pytest.raises(BadInput):
            srs.commit([1] * count, offset=offset)


def test_views_compose(srs):
    with Srs.open(srs.path, "raw-le-mont", offset=50, n=100) as view:
        assert len(view) == 100
        assert view.commit([7, 9], offset=3) == expected([7, 9], 53)
        with pytest.raises(BadInput):
            view.commit([1], offset=100)


def test_the_points_are_prepared_once_by_many_threads(srs):
    values, engines, answers = scalars(N), set(), []
    start = threading.Barrier(8)

    def commit():
        start.wait()
        answers.append(srs.commit(values))
        engines.add(srs.prepare())

    threads = [threading.Thread(target=commit) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(engines) == 1 and answers == [expected(values)] * 8
    srs.close()
    with pytest.raises(BadInput, match="closed"):
        srs.commit(values)


@pytest.mark.parametrize("records", [1, 7, 64, N - 1, N, 10 * N])
def test_streaming_in_chunks_gives_the_same_sum(srs, tmp_path, records):
    values = [*scalars(N - 3), 0, pf.R, 2**256 - 1]
    write_scalars(tmp_path / "s", values, "big")
    heard = []
    with Scalars.open(tmp_path / "s", "raw-be") as file:
        assert msm_from_files(srs, file, records=records, progress=heard.append) == expected(values)
    assert sum(heard) == N and max(heard) <= records


def test_streaming_holds_one_chunk_at_a_time(tmp_path):
    points, values = pf.multiples(64), scalars(64)
    repeats, records = 256, 512  # 2^14 points: a megabyte of them and half of scalars
    (tmp_path / "p").write_bytes(b"".join(pf.affine(p, "big") for p in points) * repeats)
    write_scalars(tmp_path / "s", values * repeats)
    with Srs.open(tmp_path / "p", "eip196") as file, Scalars.open(tmp_path / "s", "raw-le") as scalar_file:
        msm_from_files(Srs.open(file.path, "eip196", n=1), Scalars.open(scalar_file.path, "raw-le", n=1))  # imports
        tracemalloc.start()
        try:
            total = msm_from_files(file, scalar_file, records=records)
            assert tracemalloc.get_traced_memory()[1] < 600_000
        finally:
            tracemalloc.stop()
    assert total == expected([value * repeats for value in values])


def test_closing_under_readers_gives_whole_answers_or_an_error(srs, tmp_path):
    """The number of a closed descriptor goes to the next file that is opened: no reader may see that one."""
    rows, wrong = srs.read(), []
    (tmp_path / "other").write_bytes(bytes(64 * N))

    def read(file: Srs) -> None:
        try:
            while True:
                if (file.read() != rows).any():
                    wrong.append(file)
        except BadInput as error:
            if "is closed" not in str(error):
                wrong.append(error)

    for _ in range(20):
        file = Srs.open(srs.path, "raw-le-mont")
        threads = [threading.Thread(target=read, args=(file,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        file.close()
        others = [Srs.open(tmp_path / "other", "raw-le") for _ in range(4)]
        for thread in threads:
            thread.join()
        for other in others:
            other.close()
    assert not wrong


def test_streaming_needs_equal_lengths_and_finds_bad_records(srs, tmp_path):
    write_scalars(tmp_path / "s", scalars(N - 1))
    with Scalars.open(tmp_path / "s", "raw-le") as short, pytest.raises(BadInput, match=r"300 points .* 299 scalars"):
        msm_from_files(srs, short)
    data = bytearray((tmp_path / "srs.bin").read_bytes())
    data[64 * 200] ^= 1
    (tmp_path / "bad.bin").write_bytes(data)
    write_scalars(tmp_path / "s", scalars(N))
    with (
        Srs.open(tmp_path / "bad.bin", "raw-le-mont") as bad,
        Scalars.open(tmp_path / "s", "raw-le") as file,
        pytest.raises(BadInput) as caught,
    ):
        msm_from_files(bad, file, records=32)
    assert caught.value.index == 200


def test_the_empty_sum(tmp_path, srs):
    (tmp_path / "s").write_bytes(bytes(32))
    with (
        Scalars.open(tmp_path / "s", "raw-le", n=0) as none,
        Srs.open(srs.path, "raw-le-mont", n=0) as nothing,
    ):
        assert msm_from_files(nothing, none) == Point.infinity()
        assert nothing.commit([]) == Point.infinity()
        assert nothing.read().shape == (0, 64) and none.read().shape == (0, 32)
        assert list(nothing.chunks()) == []


def test_what_is_written_is_read_again(srs, tmp_path):
    rows = srs.read()
    for endian, name in (("little", "raw-le"), ("big", "eip196")):
        write_points(tmp_path / "out", rows, endian)
        content = (tmp_path / "out").read_bytes()
        assert content == b"".join(pf.affine(point, endian) for point in POINTS)
        with Srs.open(tmp_path / "out", name) as back:
            assert (back.read() == rows).all()
    write_points(tmp_path / "out", [None, (1, 2), Point(1, 2)])
    assert (tmp_path / "out").read_bytes() == bytes(64) + 2 * pf.affine((1, 2), "little")
    assert msm(rows, [1] * N) == expected([1] * N)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "srs.bin"]  # no half-written files


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch, tried):
    target = tmp_path / "out"
    write_points(target, [(1, 2)])
    before = target.read_bytes()
    wrong = [[(1, 3)], [(1, 2), "x"], np.zeros((2, 63), np.uint8)]
    for points in wrong:
        with pytest.raises(BadInput):
            write_points(target, points)
    with pytest.raises(BadInput):
        write_points(target, [(1, 2)], "middle")
    for path in (tmp_path / "no" / "folder", tmp_path, "nul\0byte", tmp_path / ("x" * 300)):
        with pytest.raises(BadInput, match="cannot be written"):
            write_points(path, [(1, 2)])
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(WhetError, match="No space left") as caught:
        write_scalars(target, [5])
    assert caught.value.exit_code == ExitCode.ENVIRONMENT
    assert target.read_bytes() == before and [path.name for path in tmp_path.iterdir()] == ["out"]
    tried("malformed inputs", len(wrong) + 6)
