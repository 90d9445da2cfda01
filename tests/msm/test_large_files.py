"""Files of more points than an engine prepares: commitments read what they need, and no size is a MemoryError."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import point_files as pf
from whet.errors import BadInput, DeviceOutOfMemory
from whet.msm import Engine, Point, Scalars, Srs, msm
from whet.msm.points import msm_from_files, write_scalars
from whet.msm.points.source import Source

POWER = 23
COUNT = (2 << POWER) - 1
FIRST_BYTES = 12 + 12 + 44 + 12  # magic, version, count; the header section; the head of section 2
TERABYTE = 1 << 40


def sum_of(multiples: dict[int, int]) -> Point:
    """sum scalar * (multiple of G), by Python integers."""
    total = sum(scalar * multiple for multiple, scalar in multiples.items())
    result = None
    for bit in reversed(range(total.bit_length())):
        result = pf.add(result, result)
        if total >> bit & 1:
            result = pf.add(result, (1, 2))
    return Point(*(result or (0, 0)))


@pytest.fixture
def ptau(tmp_path) -> Path:
    """Power 23, section 2 alone: a gigabyte by its headers and three pages on the disk. Points i and COUNT - 5 + i are
    (i + 1) G for i below 5; the others are infinity."""
    path = tmp_path / "power23.ptau"
    header = pf.u32(32) + pf.P.to_bytes(32, "little") + pf.u32(POWER) + pf.u32(POWER)
    head = b"ptau" + pf.u32(1) + pf.u32(2) + pf.section(1, header) + pf.u32(2) + pf.u64(64 * COUNT)
    assert len(head) == FIRST_BYTES
    few = pf.lem(pf.multiples(5))
    with path.open("wb") as file:
        file.write(head + few)
        file.truncate(FIRST_BYTES + 64 * COUNT)
        file.seek(-len(few), 2)
        file.write(few)
    assert path.stat().st_blocks * 512 < 1 << 20
    return path


@pytest.fixture
def read_bytes(monkeypatch) -> list[int]:
    """What is read of records, as it is read."""
    sizes: list[int] = []
    records = Source.records

    def counted(self, offset, record_bytes, count):
        sizes.append(record_bytes * count)
        return records(self, offset, record_bytes, count)

    monkeypatch.setattr(Source, "records", counted)
    return sizes


def test_a_few_scalars_read_a_few_points(ptau, read_bytes):
    with Srs.open(ptau) as srs:
        assert len(srs) == COUNT
        assert srs.commit([1]) == Point(1, 2)
        assert srs.commit([3, 4], offset=2) == sum_of({3: 3, 4: 4})
        assert srs.commit([7, 8], offset=COUNT - 2) == sum_of({4: 7, 5: 8})
        assert srs.commit_many([[1], [2, 3], []]) == [sum_of({1: 1}), sum_of({1: 2, 2: 3}), Point.infinity()]
        assert sum(read_bytes) < 64 * 200
        with pytest.raises(BadInput):
            srs.commit([1], offset=COUNT)


def test_points_that_were_read_are_kept_for_the_next_commitment(ptau, read_bytes):
    with Srs.open(ptau) as srs:
        first = srs.commit([5, 6, 7])
        before = sum(read_bytes)
        assert srs.commit([5, 6, 7]) == first and srs.commit([6, 7], offset=1) == sum_of({2: 6, 3: 7})
        assert sum(read_bytes) == before
        sizes = range(1, 300)
        for size in sizes:  # one point more each time: not all of them again each time
            srs.commit([1] * size)
        assert sum(read_bytes) < 64 * 2000
    with pytest.raises(BadInput, match="closed"):
        srs.commit([5])


def test_more_points_than_an_engine_prepares_are_summed_in_pieces(ptau, tmp_path):
    size = (1 << 22) + 5
    with Srs.open(ptau, offset=COUNT - size) as srs:
        scalars = np.zeros((size, 4), np.uint64)
        scalars[-3:, 0] = (7, 8, 9)
        assert srs.commit(scalars) == sum_of({3: 7, 4: 8, 5: 9})
    with Srs.open(ptau) as srs:
        write_scalars(tmp_path / "s", [1, 2])
        with Scalars.open(tmp_path / "s", "raw-le") as few, pytest.raises(BadInput, match="16777215 points"):
            msm_from_files(srs, few)


def test_a_file_of_a_terabyte_is_a_typed_error(tmp_path):
    path = tmp_path / "terabyte"
    with path.open("wb") as file:
        file.write(pf.affine((1, 2), "little"))
        try:
            file.truncate(TERABYTE)
        except OSError:
            pytest.skip("the file system has no files of that size")
    with Srs.open(path, "raw-le") as srs:
        for attempt in (srs.limbs, srs.read):
            with pytest.raises(DeviceOutOfMemory, match="17179869184 points") as caught:
                attempt()
            assert "chunks" in caught.value.cure
        assert srs.commit([5]) == sum_of({1: 5})
        assert len(next(srs.chunks(10))) == 10
        with pytest.raises(BadInput, match="scalars from point"):
            srs.commit([1, 1], offset=(1 << 34) - 1)
    with Scalars.open(path, "raw-le") as scalars, pytest.raises(DeviceOutOfMemory, match="34359738368 scalars"):
        scalars.limbs()
    with pytest.raises(BadInput):
        Engine.open(path)
    with pytest.raises(BadInput), Scalars.open(path, "text"):
        pass


def test_a_small_commitment_takes_little_memory(ptau):
    with Srs.open(ptau) as srs:
        srs.commit([1])
        tracemalloc.start()
        try:
            assert srs.commit([2, 3], offset=3) == sum_of({4: 2, 5: 3})
            assert tracemalloc.get_traced_memory()[1] < 1 << 20
        finally:
            tracemalloc.stop()
    assert msm([(1, 2)], [2]) == sum_of({1: 2})
