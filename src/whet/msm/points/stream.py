"""One MSM over files of any size: a chunk of points and scalars is in memory at a time."""

from __future__ import annotations

from collections.abc import Callable

from whet.errors import BadInput
from whet.msm.api import msm
from whet.msm.budget import BudgetedSums, prepare_within
from whet.msm.options import read_count, shown
from whet.msm.point import Point
from whet.msm.points.files import MOST_RECORDS, RECORDS_PER_CHUNK, Scalars
from whet.msm.points.srs import Srs
from whet.msm.variants import choose


def msm_from_files(
    points: Srs,
    scalars: Scalars,
    *,
    records: int = RECORDS_PER_CHUNK,
    variant: str = "auto",
    threads: int | None = None,
    memory_budget: int | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> Point:
    """The sum over both files, which must agree in length. `progress` hears how many points each chunk had.

    Memory: about 100 bytes for each of `records` points in the reader, and what the variant needs for as many. With a
    `memory_budget` in bytes that decides how many records are in memory at a time, and `records` does not count.
    """
    for given, kind in ((points, Srs), (scalars, Scalars)):
        if not isinstance(given, kind):
            raise BadInput(f"{shown(given)} is no open file", cure=f"give what {kind.__name__}.open returns")
    if not callable(progress):
        raise BadInput(f"progress={shown(progress)} cannot be called", cure="give a function of the points done")
    if len(points) != len(scalars):
        raise BadInput(
            f"{len(points)} points in {points.path} but {len(scalars)} scalars in {scalars.path}",
            cure="take a part of the longer one with offset and n",
        )
    if memory_budget is not None:
        sums = prepare_within(memory_budget, choose(variant), points, threads, scalars_too=True)
        try:
            return _told(sums, scalars, progress)
        finally:
            sums.close()
    records = read_count(records, "the number of records in a chunk", least=1, most=MOST_RECORDS)
    partial: list[Point] = []
    for start in range(0, len(points), records):
        stop = min(start + records, len(points))
        chunk = points.limbs(start, stop)
        partial.append(
            msm(
                chunk,
                scalars.limbs(start, stop),
                points_montgomery=True,
                check=False,
                variant=variant,
                threads=threads,
            )
        )
        progress(stop - start)
    return partial[0] if len(partial) == 1 else msm(partial, [1] * len(partial))


def _told(sums: BudgetedSums, scalars: Scalars, progress: Callable[[int], None]) -> Point:
    """The sum; `progress` hears of points where the engine tells of shares."""
    told = 0

    def tell(share: float) -> None:
        nonlocal told
        done = int(share * len(scalars))
        progress(done - told)
        told = done

    answer = sums.compute(scalars, 0, progress=tell)
    tell(1.0)
    return Point.from_bytes(answer.limbs.tobytes())
