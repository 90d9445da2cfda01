"""Points in pieces: below the floor of points that stay on the device, within the budget to the byte, and right."""

from __future__ import annotations

from itertools import pairwise

import pytest
from msm_on_gpu import Subject

from whet.errors import DeviceOutOfMemory, WrongAnswer
from whet.msm.webgpu.knobs import Choice
from whet.msm.webgpu.memory import fit, ways
from whet.msm.webgpu.pieces import LEAST_POINTS, MOST_PIECES, cut, map_of, place, whole_frontier
from whet.msm.webgpu.request import Request
from whet.msm.webgpu.sizes import total_bytes
from whet.msm.webgpu.sums import WebGpuSums

CHOICES = {
    "walker": Choice(threads=64, batches=2),
    "glv": Choice(threads=64, batches=1, glv=True),
    "plain": Choice("gpu_plain", batches=1),
}


def floor_of(n, choice):
    """The fewest bytes with all points on the device, in as many batches as the choice says."""
    return min(way.total_bytes for way in ways(Request(n, choice, n, memory_budget=1 << 40)))


def test_a_million_points_are_within_64_megabytes():
    request = Request(1 << 20, Choice(), 1 << 20, memory_budget=64_000_000)
    placement = place(request)
    assert (placement.points, placement.pieces) == ("pieces", 2)
    piece = placement.piece
    assert total_bytes(fit(piece), piece.choice, piece.resident) <= 64_000_000 < floor_of(1 << 20, Choice())


def test_points_stay_where_the_budget_holds_them():
    for n in (1000, 1 << 17):
        floor = floor_of(n, Choice())
        assert place(Request(n, Choice(), n, memory_budget=floor)).points == "resident"
        assert place(Request(n, Choice(), n, memory_budget=floor - 1)).pieces == 2
        for points in ("resident", "auto"):
            assert place(Request(n, Choice(points=points), n)).points == "resident"
        with pytest.raises(DeviceOutOfMemory, match="at least"):
            place(Request(n, Choice(points="resident"), n, memory_budget=floor - 1))
    with pytest.raises(DeviceOutOfMemory, match="at least"):
        place(Request(1 << 17, Choice(), 1 << 17, memory_budget=100_000))


def test_pieces_by_hand_are_two_at_least():
    """Unless there are too few points; then each call brings all of them."""
    for points in ("pieces", "compressed"):
        assert place(Request(5000, Choice(points=points), 5000)).pieces == 2
        assert place(Request(5000, Choice(points=points), 5000, memory_budget=1 << 40)).pieces == 2
        assert place(Request(300, Choice(points=points), 300)).pieces == 1


@pytest.mark.parametrize("where", ["auto", "pieces", "compressed"])
@pytest.mark.parametrize("n", [300, 5000, 1 << 20])
def test_the_frontier_goes_on_below_the_floor_as_budgets_do(n, where, tried):
    """Every step is what its own bytes as the budget give, and what it costs rises with the pieces."""
    choice = Choice(points=where)
    points = whole_frontier(Request(n, choice, n))
    assert (points[-1].pieces > 1) == (n >= 2 * LEAST_POINTS)
    assert {point.points for point in points} <= ({"resident", "pieces"} if where == "auto" else {where})
    assert points[-1].pieces <= MOST_PIECES
    for before, after in pairwise(points):
        assert after.total_bytes < before.total_bytes and after.pieces >= before.pieces
    for point in points:
        request = Request(n, choice, n, memory_budget=point.total_bytes)
        assert place(request).point == point
        assert sum(row.size_bytes for row in map_of(request)) == point.total_bytes
        tried("memory budgets")
    first = {point.pieces: point.estimated_ns for point in reversed(points)}
    assert all(first[pieces] < first[2 * pieces] for pieces in first if 2 * pieces in first)


def test_pieces_are_even_and_cover_all_points():
    for n in (1, 7, 256, 1000):
        for most in (1, 3, 255, 1000):
            parts = cut(n, most)
            assert [begin for begin, _ in parts] == [0, *(end for _, end in parts[:-1])] and parts[-1][1] == n
            sizes = [end - begin for begin, end in parts]
            assert max(sizes) <= most and max(sizes) - min(sizes) <= 1


@pytest.mark.gpu
@pytest.mark.xdist_group("gpu")
@pytest.mark.parametrize("name", CHOICES)
def test_sums_in_pieces_are_right_and_the_map_is_the_ledger(device, name, tried):
    """Below the floor; from an offset on, several vectors, and again."""
    choice, n = CHOICES[name], 601
    subject = Subject.of("random", n)
    budget = floor_of(n, choice) - 1
    sums = WebGpuSums(subject.points, choice, memory_budget=budget)
    try:
        sums.device.ledger.peak_bytes = 0
        for _ in range(2):
            assert sums.compute(subject.limbs, 0).limbs.tobytes() == subject.expected
        rows = {row.name: row.size_bytes for row in sums.memory_map()}
        assert sums.device.ledger.peak == rows
        assert sums.device.ledger.peak_bytes <= budget
        assert rows["points_y"] == 32 * 301
        part = subject.part(190, 310)
        assert sums.compute(part.limbs, 190).limbs.tobytes() == part.expected
        vectors = [subject.limbs[::-1].copy(), subject.limbs]
        assert sums.batch(vectors)[1].limbs.tobytes() == subject.expected
        tried("sums on a GPU", 4)
    finally:
        sums.close()


@pytest.mark.gpu
@pytest.mark.xdist_group("gpu")
@pytest.mark.parametrize("fault", ["the first piece again", "a piece not brought", "another offset"])
def test_a_wrong_piece_shows(device, monkeypatch, fault, tried):
    subject = Subject.of("random", 600)
    choice = CHOICES["plain"]
    sums = WebGpuSums(subject.points, choice, memory_budget=floor_of(600, choice) - 1)
    bring = WebGpuSums._bring

    def wrong(self, device, first, size):
        if fault == "a piece not brought" and first:
            return
        bring(self, device, {"the first piece again": 0, "another offset": max(first, 1) - 1}.get(fault, first), size)

    try:
        monkeypatch.setattr(WebGpuSums, "_bring", wrong)
        with pytest.raises(WrongAnswer):
            sums.compute(subject.limbs, 0)
        monkeypatch.undo()
        assert sums.compute(subject.limbs, 0).limbs.tobytes() == subject.expected
        tried("planted faults")
    finally:
        sums.close()
