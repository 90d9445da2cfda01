"""Where each worker's time went: pieces that regions explain, and holes that nothing explains.

Time is counted once. A nested region lies inside its parent and adds nothing to it; a slot that keeps only the last
trip of a loop adds nothing to the parent that summed all trips. A sum without a place in time is laid into the gap
where its sample was seen, or into the widest gap.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise

import numpy as np

from whet.regions.capture import Capture


@dataclass(frozen=True)
class Piece:
    """`ticks` of one region within start..end; fewer ticks than the stretch is long means a loop or a sum."""

    region: int
    start: int
    end: int
    ticks: int
    placed: bool = True

    def within(self, start: int, end: int) -> float:
        """The ticks that fall between two times, spread evenly over the stretch."""
        length = self.end - self.start
        if length == 0:
            return 0.0
        return self.ticks * max(0, min(end, self.end) - max(start, self.start)) / length


@dataclass(frozen=True)
class Hole:
    """Time without a region, between two regions; equal neighbours mean inside a loop of that region."""

    start: int
    end: int
    missing: int
    after: int | None
    before: int | None


@dataclass(frozen=True)
class HoleGroup:
    """The holes of several rows between the same two regions."""

    after: int | None
    before: int | None
    missing: tuple[int, ...]

    @property
    def total(self) -> int:
        return sum(self.missing)


class Spent:
    """The ticks of one region on one worker, by time: how many had passed at any moment."""

    def __init__(self, pieces: list[Piece]) -> None:
        self._pieces = sorted(pieces, key=lambda piece: piece.start)
        self._starts = [piece.start for piece in self._pieces]
        self._before = [0, *accumulate(piece.ticks for piece in self._pieces)]
        self._apart = all(a.end <= b.start for a, b in pairwise(self._pieces))

    def between(self, start: int, end: int) -> float:
        if not self._apart:
            return sum(piece.within(start, end) for piece in self._pieces)
        return self._until(end) - self._until(start) if end > start else 0.0

    def _until(self, time: int) -> float:
        at = bisect_right(self._starts, time)
        if at == 0:
            return 0.0
        last = self._pieces[at - 1]
        return self._before[at - 1] + last.within(last.start, time)


def _by_region(pieces: tuple[Piece, ...]) -> dict[int, Spent]:
    found: dict[int, list[Piece]] = defaultdict(list)
    for piece in pieces:
        found[piece.region].append(piece)
    return {region: Spent(each) for region, each in found.items()}


@dataclass(frozen=True)
class WorkerTime:
    """One row: its span, its pieces (all depths) and its holes. `doubled` is the most time that pieces claim twice."""

    worker: int
    first: int
    last: int
    roots: tuple[Piece, ...]
    nested: tuple[Piece, ...]
    holes: tuple[Hole, ...]
    doubled: int = 0

    @cached_property
    def spent(self) -> dict[int, Spent]:
        """By region, of all depths."""
        return _by_region((*self.roots, *self.nested))

    @cached_property
    def spent_inside(self) -> dict[int, Spent]:
        return _by_region(self.nested)

    @property
    def span(self) -> int:
        return self.last - self.first

    @cached_property
    def _outermost(self) -> dict[int, Spent]:
        return _by_region(self.roots)

    def covered_between(self, start: int, end: int) -> float:
        return sum(spent.between(start, end) for spent in self._outermost.values())

    @property
    def covered(self) -> int:
        return sum(piece.ticks for piece in self.roots)

    @property
    def coverage(self) -> float:
        return self.covered / self.span if self.span else 1.0


@dataclass(frozen=True)
class Account:
    """All rows of a capture. Workers that wrote nothing are not among them."""

    capture: Capture
    rows: tuple[WorkerTime, ...]

    @cached_property
    def by_worker(self) -> dict[int, WorkerTime]:
        return {row.worker: row for row in self.rows}

    @property
    def first(self) -> int:
        return min(row.first for row in self.rows)

    @property
    def last(self) -> int:
        return max(row.last for row in self.rows)

    @property
    def span(self) -> int:
        """Ticks of the whole launch; of the middle repeat where rows are repeats."""
        if self.capture.about.rows == "repeats":
            return self.middle.span
        return self.last - self.first

    @property
    def middle(self) -> WorkerTime:
        return sorted(self.rows, key=lambda row: row.span)[len(self.rows) // 2]

    @property
    def coverage(self) -> float:
        """Of the worst worker: one blind row is enough to hide a cost."""
        return min(row.coverage for row in self.rows)

    def self_ticks(self, worker: int, start: int, end: int) -> dict[int, float]:
        """Ticks per region between two times, each counted in the innermost region that recorded it."""
        row = self.by_worker[worker]
        found = {region: spent.between(start, end) for region, spent in row.spent.items()}
        for region, spent in row.spent_inside.items():
            parent = self.capture.schema.regions[region].parent
            if parent in found:
                found[parent] = max(0.0, found[parent] - spent.between(start, end))
        return found

    def widest_holes(self) -> list[HoleGroup]:
        """Holes at the same place in all rows together, the costliest first."""
        found: dict[tuple[int | None, int | None], list[int]] = defaultdict(list)
        for row in self.rows:
            for hole in row.holes:
                found[hole.after, hole.before].append(hole.missing)
        groups = [HoleGroup(after, before, tuple(each)) for (after, before), each in found.items()]
        return sorted(groups, key=lambda group: group.total, reverse=True)


def account(capture: Capture) -> Account:
    """Counts every row of a capture once."""
    rows = [_row(capture, worker) for worker in range(capture.workers) if capture.cells["written"][worker].any()]
    return Account(capture, tuple(row for row in rows if row is not None))


def is_sample(capture: Capture, worker: int, region: int) -> bool:
    """A slot that keeps the last trip only, under a parent that summed them all."""
    declared = capture.schema.regions[region]
    return (
        declared.keeps == "last"
        and declared.parent is not None
        and bool(capture.cells["written"][worker, declared.parent])
    )


def _row(capture: Capture, worker: int) -> WorkerTime | None:
    cells, placed = capture.cells[worker], capture.placed[worker]
    if capture.about.spans:
        first, last = capture.about.spans[worker]
    elif placed.any():
        first, last = int(cells["entry"][placed].min()), int(cells["exit"][placed].max())
    else:
        return None
    roots: list[Piece] = []
    nested: list[Piece] = []
    sums: list[int] = []
    nested_sums: list[int] = []
    samples: dict[int, int] = {}
    for region in np.nonzero(cells["written"])[0].tolist():
        parent = capture.schema.regions[region].parent
        if is_sample(capture, worker, region):
            if placed[region] and parent is not None:
                samples[parent] = int(cells["entry"][region])
            continue
        inside = parent is not None and bool(cells["written"][parent])
        if not placed[region]:
            (nested_sums if inside else sums).append(region)
            continue
        (nested if inside else roots).extend(_placed_pieces(capture, worker, region))
    roots.sort(key=lambda piece: (piece.start, piece.end))
    gaps, crowded = _gaps(roots, first, last)
    widest = max(gaps, key=lambda g: g.end - g.start, default=Hole(first, last, last - first, None, None))
    missing = {gap: gap.end - gap.start for gap in gaps}
    for region in sums:
        home = next((g for g in gaps if region in samples and g.start <= samples[region] < g.end), widest)
        ticks = int(cells["ticks"][region])
        missing[home] = missing.get(home, 0) - ticks
        roots.append(Piece(region, home.start, home.end, ticks, placed=False))
    stretches = {piece.region: (piece.start, piece.end) for piece in (*roots, *nested)}
    for region in nested_sums:
        parent = capture.schema.regions[region].parent
        start, end = stretches.get(parent, (first, last)) if parent is not None else (first, last)
        nested.append(Piece(region, start, end, int(cells["ticks"][region]), placed=False))
    holes = [Hole(g.start, g.end, left, g.after, g.before) for g, left in missing.items() if left > 0]
    holes += [hole for hole in crowded if hole.missing > 0]
    holes.sort(key=lambda hole: hole.start)
    beyond = sum(piece.ticks for piece in roots) - (last - first)
    doubled = max([0, beyond, *(-left for left in missing.values()), *(-hole.missing for hole in crowded)])
    return WorkerTime(worker, first, last, tuple(roots), tuple(nested), tuple(holes), doubled)


def _placed_pieces(capture: Capture, worker: int, region: int) -> list[Piece]:
    """One for the whole launch, or one for each stretch where the capture has them."""
    if capture.stretches is not None:
        return [Piece(region, entry, leave, ticks) for entry, leave, ticks, _ in capture.passes[worker, region]]
    cell = capture.cells[worker, region]
    return [Piece(region, int(cell["entry"]), int(cell["exit"]), int(cell["ticks"]))]


def _gaps(roots: list[Piece], first: int, last: int) -> tuple[list[Hole], list[Hole]]:
    """Stretches between pieces, and what loops leave unexplained inside their own stretch. `roots` is sorted."""
    gaps: list[Hole] = []
    crowded: list[Hole] = []
    at, after = first, None
    for cluster in _clusters(roots):
        start, end = cluster[0].start, max(piece.end for piece in cluster)
        if start > at:
            gaps.append(Hole(at, start, start - at, after, cluster[0].region))
        missing = (end - start) - sum(piece.ticks for piece in cluster)
        crowded.append(Hole(start, end, missing, cluster[0].region, cluster[-1].region))
        if end > at:
            at, after = end, max(cluster, key=lambda piece: piece.end).region
    if last > at:
        gaps.append(Hole(at, last, last - at, after, None))
    return gaps, crowded


def _clusters(roots: list[Piece]) -> Iterator[list[Piece]]:
    """Runs of pieces that overlap in time: the regions of one loop, say."""
    cluster: list[Piece] = []
    end = 0
    for piece in roots:
        if cluster and piece.start >= end:
            yield cluster
            cluster = []
        cluster.append(piece)
        end = max(end, piece.end)
    if cluster:
        yield cluster
