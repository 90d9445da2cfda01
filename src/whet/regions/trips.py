"""A launch that passes a barrier again and again, as many small launches: each from one release to the next.

The parts add up to the launch: what the critical path spent in each, how much of each worker's time in it the regions
explain, and who came last.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from statistics import median

import msgspec

from whet.regions.accounting import Account
from whet.regions.critical import Barriers, CriticalPath, Leg, critical_path, ticks_of
from whet.regions.ticks import tick_time


class Trip(msgspec.Struct, frozen=True, kw_only=True):
    """One round of the loop, up to the release of its barrier. `on_path` is ticks by region, by name.

    number     from 1; the part after the last release is the last
    coverage   of the worst worker in this trip
    last       the worker that came last to the barrier; None after the last release
    """

    number: int
    ticks: int
    coverage: float
    last: int | None
    on_path: dict[str, float]


class Loop(msgspec.Struct, frozen=True, kw_only=True):
    """The trips between releases of one barrier."""

    barrier: str
    trips: tuple[Trip, ...]

    @property
    def worst_covered(self) -> Trip:
        return min(self.trips, key=lambda trip: trip.coverage)

    @property
    def longest(self) -> Trip:
        return max(self.trips, key=lambda trip: trip.ticks)

    @property
    def lasts(self) -> Counter[int]:
        return Counter(trip.last for trip in self.trips if trip.last is not None)


def find_loop(counted: Account, path: CriticalPath | None = None) -> Loop | None:
    """The trips of a launch; None where no barrier was passed twice. Raises where there is no critical path.

    The barrier is the one that was passed most often; of several in one round the last.
    """
    if not counted.rows or counted.capture.about.rows == "repeats":
        return None
    barriers = Barriers(counted)
    first_exits = {
        region: min(wait.exit for waits in barriers.waits.values() for wait in waits if wait.region == region)
        for region, passes in barriers.passes.items()
        if passes > 1 and counted.capture.schema.regions[region].released_by is None
    }
    if not first_exits:
        return None
    closing = max(first_exits, key=lambda region: (barriers.passes[region], first_exits[region]))
    path = path or critical_path(counted)
    exits = {
        worker: [wait.exit for wait in waits if wait.region == closing] for worker, waits in barriers.waits.items()
    }
    trips: list[Trip] = []
    legs: list[Leg] = []
    for leg in reversed(path.legs):
        legs.append(leg)
        if leg.wait == closing:
            trips.append(_trip(counted, len(trips) + 1, legs, exits))
            legs = []
    if any(leg.end > leg.start for leg in legs):
        trips.append(_trip(counted, len(trips) + 1, legs, exits))
    return Loop(barrier=counted.capture.schema.regions[closing].name, trips=tuple(trips))


def _trip(counted: Account, number: int, legs: list[Leg], exits: dict[int, list[int]]) -> Trip:
    spent: dict[int, float] = defaultdict(float)
    for leg in legs:
        for region, ticks in ticks_of(counted, leg).items():
            spent[region] += ticks
    names = counted.capture.schema.regions
    closed = legs[-1].wait is not None and names[legs[-1].wait].role == "wait"
    # The path reaches a barrier with whoever came last to it.
    last = legs[-2].worker if closed and len(legs) > 1 else legs[-1].worker
    return Trip(
        number=number,
        ticks=sum(leg.end - leg.start for leg in legs),
        coverage=_coverage(counted, number, exits),
        last=last if closed else None,
        on_path={names[region].name: ticks for region, ticks in spent.items() if ticks},
    )


def _coverage(counted: Account, number: int, exits: dict[int, list[int]]) -> float:
    """Of the worst worker, each between its own exits from the barrier."""
    found = [1.0]
    for row in counted.rows:
        mine = exits.get(row.worker, [])
        if number > len(mine) + 1:
            continue
        start = mine[number - 2] if number > 1 else row.first
        end = mine[number - 1] if number <= len(mine) else row.last
        if end > start:
            found.append(row.covered_between(start, end) / (end - start))
    return min(found)


def say_loop(loop: Loop, source: str) -> str:
    """The trips in one sentence."""
    middle = tick_time(median(trip.ticks for trip in loop.trips), source)
    longest, worst = loop.longest, loop.worst_covered
    text = f"{len(loop.trips)} trips by {loop.barrier}: median {middle}, longest {tick_time(longest.ticks, source)}"
    text += f" (trip {longest.number}); coverage at least {worst.coverage:.3f} (trip {worst.number})"
    if loop.lasts:
        worker, often = loop.lasts.most_common(1)[0]
        text += f"; last to come: worker {worker} in {often}"
    return text
