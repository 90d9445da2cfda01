"""How points are cut: shards that follow each other, as long as their workers are fast."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

from whet.errors import BadInput


def borders_by_speed(points: int, speeds: Sequence[float]) -> list[tuple[int, int]]:
    """One (start, stop) per worker, in proportion to its speed. Rounded at the borders, so the sizes add up."""
    total = sum(speeds)
    if not total > 0 or min(speeds) < 0:
        speeds, total = [1.0] * len(speeds), float(len(speeds))
    cuts = [0, *(min(points, round(points * reached / total)) for reached in accumulate(speeds))]
    cuts[-1] = points
    return list(pairwise(cuts))


def borders_by_size(points: int, sizes: Sequence[int], workers: int) -> list[tuple[int, int]]:
    """The sizes that the caller asked for."""
    if len(sizes) != workers or min(sizes) < 0 or sum(sizes) != points:
        raise BadInput(
            f"shards of {', '.join(map(str, sizes)) or 'nothing'} for {points} points on {workers} workers",
            cure="give one size per worker, none negative, that add up to the points",
        )
    return list(pairwise([0, *accumulate(sizes)]))
