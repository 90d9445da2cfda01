"""What the stages of a sum should leave behind, in Python's integers: for finding where a device went wrong.

Points are known multiples of the generator, so a bucket's sum is one more, and no group operation is needed to know it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from whet._native import curve
from whet.msm import inputs as make
from whet.msm.point import R
from whet.msm.webgpu.finish import upload_points
from whet.msm.webgpu.geometry import Batch, Geometry

SIGN = 1 << 31


class Piece(NamedTuple):
    """Points `first` up to `end` of a bucket, added up by one task. `kind` is whole, or head or tail of a split one."""

    task: int
    bucket: int
    first: int
    end: int
    kind: str


def tasks_of(counts: Sequence[int], most_tasks: int, least_additions: int = 16) -> Iterator[Piece]:
    """The walk of every task over buckets with these counts, each of two points or more.

    The first point of a bucket goes with the addition before it, so all tasks but the first begin inside a bucket.
    """
    starts, before = [], 0
    for count in counts:
        starts.append(before)
        before += count - 1
    tasks = min(-(-before // least_additions), most_tasks)
    if not tasks:
        return
    share, extra = divmod(before, tasks)
    for task in range(tasks):
        first = task * share + min(task, extra)
        left = (task + 1) * share + min(task + 1, extra) - first
        bucket = int(np.searchsorted(starts, first, side="right")) - 1
        split = task > 0
        point = first - starts[bucket] + 1 if split else 0
        ended = True
        while ended and bucket < len(counts):
            taken = min(left + (not split), counts[bucket] - point)
            left -= taken - (not split)
            end = point + taken
            kind = "whole" if not split else "head"
            ended = end == counts[bucket]
            yield Piece(task, bucket, point, end, kind if ended else "tail")
            bucket, point, split = bucket + 1, 0, False


@dataclass
class BucketModel:
    """Handles (index, sign in bit 31) and logarithm of every bucket that holds a point, by window and column."""

    geometry: Geometry
    handles: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    logs: dict[tuple[int, int], int] = field(default_factory=dict)

    @classmethod
    def of(cls, geometry: Geometry, logs: Sequence[int], scalars: Sequence[int]) -> BucketModel:
        """For one vector over all points. With GLV the second half of the rows are images of the points."""
        made = cls(geometry)
        rows, numbers = list(logs), [scalar % R for scalar in scalars]
        if geometry.glv:
            rows += [log * _eigenvalue() % R for log in logs]
            numbers = _halves(scalars)
        for row, (log, number) in enumerate(zip(rows, numbers, strict=True)):
            for window, digit in enumerate(digits(number, geometry.window_bits, geometry.vector_windows)):
                if digit:
                    place = (window, abs(digit) - 1)
                    made.handles.setdefault(place, []).append(row | (SIGN if digit < 0 else 0))
                    made.logs[place] = (made.logs.get(place, 0) + (log if digit > 0 else -log)) % R
        return made

    def places(self, batch: Batch) -> list[tuple[int, int]]:
        """Window and column of every bucket of a batch, in the order of the buffer."""
        windows = range(batch.first_window, batch.first_window + batch.windows)
        return [(window, column) for window in windows for column in range(self.geometry.columns)]

    def buckets(self, batch: Batch) -> npt.NDArray[np.uint32]:
        """The buffer `buckets` after accumulate, (buckets, 16) words."""
        return device_points([self.logs.get(place, 0) for place in self.places(batch)])

    def windows(self) -> npt.NDArray[np.uint32]:
        """The sum of each window, as (windows, 16) words."""
        totals = [0] * self.geometry.vector_windows
        for (window, column), log in self.logs.items():
            totals[window] += (column + 1) * log
        return device_points([total % R for total in totals])

    def counts(self, batch: Batch) -> list[int]:
        return [len(self.handles.get(place, ())) for place in self.places(batch)]

    def pieces(self, batch: Batch, place: tuple[int, int], least_additions: int) -> list[Piece]:
        """What the tasks do in one bucket; nothing in one of fewer than two points."""
        places = self.places(batch)
        dense = [at for at, count in enumerate(self.counts(batch)) if count > 1]
        wanted = places.index(place)
        if wanted not in dense:
            return []
        counts = self.counts(batch)
        walk = tasks_of([counts[at] for at in dense], self.geometry.max_tasks, least_additions)
        return [piece for piece in walk if dense[piece.bucket] == wanted]


def digits(number: int, c: int, windows: int) -> list[int]:
    """round(s / 2^(cw)) - 2^c round(s / 2^(c(w+1))), halves rounded up."""
    rounded = [((number << 1 >> c * window) + 1) >> 1 for window in range(windows + 1)]
    return [here - (above << c) for here, above in pairwise(rounded)]


def device_points(logs: Sequence[int]) -> npt.NDArray[np.uint32]:
    """k G in the device's own form, 16 words each."""
    points = make.points_from_logs(make.to_limbs(list(logs)))
    x, y = upload_points(points)
    return np.concatenate([x.reshape(-1, 8), y.reshape(-1, 8)], axis=1)


def _eigenvalue() -> int:
    """phi(P) = lambda P: the one of the two cube roots of one that the endomorphism belongs to."""
    root = pow(5, (R - 1) // 3, R)
    one = make.points_from_logs(make.to_limbs([1]))
    same = np.array_equal(curve.endomorphism(one), make.points_from_logs(make.to_limbs([root])))
    return root if same else root * root % R


def _halves(scalars: Sequence[int]) -> list[int]:
    """The first halves of all splits, then the second ones, with their signs."""
    split = curve.glv_split(make.to_limbs(list(scalars))).tolist()
    return [(-1 if row[at + 2] else 1) * (row[at] | row[at + 1] << 64) for at in (0, 3) for row in split]
