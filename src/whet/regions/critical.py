"""The critical path of a launch, and what a change to one region can buy.

A wait is explained by its last arriver and is never added to its cause: the path leaves the waiting worker at the wait
and goes on with the worker that everybody waited for. What remains on the path adds up to the span of the launch, so
shares of it have one denominator.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property

from whet.errors import BadInput, Unsupported
from whet.regions.accounting import Account
from whet.regions.grid import MAX_WORKERS
from whet.regions.schema import Region


@dataclass(frozen=True)
class Leg:
    """A stretch of the path on one worker. `wait` names the wait whose release it is, None where it is work."""

    worker: int
    start: int
    end: int
    wait: int | None = None


@dataclass(frozen=True)
class Wait:
    """One worker's wait: when it came and left, who let it go, when, and the how-manieth of its region it was.

    meeting   those who waited for each other; known   how many of them had come before this one was let go
    """

    worker: int
    region: int
    entry: int
    exit: int
    cause: int
    released: int
    number: int
    meeting: tuple[int, int, int]
    known: int


@dataclass(frozen=True)
class CriticalPath:
    """From the start of the launch to its end, latest leg first."""

    legs: tuple[Leg, ...]
    ticks: dict[int, float]
    unexplained: float

    @property
    def length(self) -> int:
        return sum(leg.end - leg.start for leg in self.legs)

    @property
    def workers(self) -> set[int]:
        return {leg.worker for leg in self.legs}


class Barriers:
    """Every wait of a capture with its cause.

    A barrier in a loop is many meetings: the workers' first passes belong together, their second ones, and so on. That
    is checked: nobody leaves a meeting before the last of it came. Waits whose passes are not told apart, or do not
    meet, cannot be ordered: Unsupported.
    """

    def __init__(self, account: Account) -> None:
        self.account = account
        self.waits: dict[int, list[Wait]] = defaultdict(list)
        self.passes: dict[int, int] = {}
        self._arrivals: dict[tuple[int, int, int], list[tuple[int, int]]] = defaultdict(list)
        # Repeats come one after the other: nobody in one waits for another.
        together = account.capture.about.rows == "workers"
        for region in account.capture.schema.regions:
            if region.role == "wait" and together:
                self._add(region)
        for waits in self.waits.values():
            waits.sort(key=lambda wait: (wait.exit, wait.entry))
        self._exits = {worker: [wait.exit for wait in waits] for worker, waits in self.waits.items()}

    def _add(self, region: Region) -> None:
        capture = self.account.capture
        if capture.about.placement == "assumed" and capture.cells["written"][:, region.id].any():
            raise Unsupported(
                f"wait {region.name} is known by its length alone, not by its arrival times",
                cure="record entry and exit of the wait",
            )
        mine = {worker: capture.passes.get((worker, region.id), []) for worker in self.account.by_worker}
        if any(count > 1 for passes in mine.values() for *_, count in passes):
            raise self._untold(region)
        self.passes[region.id] = max((len(passes) for passes in mine.values()), default=0)
        group = capture.grid.groups(region.scope).tolist()
        looped = self.passes[region.id] > 1 and region.released_by is None
        source = region.id if region.released_by is None else region.released_by
        for worker in self.account.by_worker:
            for number, (entry, leave, *_) in enumerate(capture.passes.get((worker, source), [])):
                key = (region.id, group[worker], number if looped else -1)
                self._arrivals[key].append((entry if region.released_by is None else leave, worker))
        for arrivals in self._arrivals.values():
            arrivals.sort()
        for worker, passes in mine.items():
            for number, (entry, leave, *_) in enumerate(passes):
                key = (region.id, group[worker], number if looped else -1)
                arrivals = self._arrivals[key]
                known = self.arrived(arrivals, leave)
                if looped and known < len(arrivals):
                    raise self._unmet(region, worker, number, arrivals[-1])
                released, cause = arrivals[known - 1] if known else (entry, worker)
                wait = Wait(worker, region.id, entry, leave, cause, released, number, key, known)
                self.waits[worker].append(wait)

    def _untold(self, region: Region) -> Unsupported:
        if self.account.capture.stretches is None:
            return Unsupported(
                f"wait {region.name} ran several times per worker, so its arrival times are gone",
                cure="record it with stretches, as region.hpp and regions.recording() do",
            )
        return Unsupported(
            f"wait {region.name} ran more often than the sheet had room for stretches",
            cure="give the sheet more room: Sheet(name, workers, regions, Room{100000})",
        )

    def _unmet(self, region: Region, worker: int, number: int, last: tuple[int, int]) -> Unsupported:
        return Unsupported(
            f"worker {worker} left pass {number + 1} of {region.name} before worker {last[1]} came to its own:"
            " these passes are no barrier",
            cure="give waits for something else released_by, groups of workers a scope, different barriers a name each",
        )

    def arrived(self, arrivals: list[tuple[int, int]], until: int) -> int:
        """How many had come by then."""
        return bisect_right(arrivals, (until, MAX_WORKERS))

    def arrivals(self, wait: Wait) -> list[tuple[int, int]]:
        """(time, worker) of everything that the wait waited for, earliest first."""
        return self._arrivals[wait.meeting][: wait.known]

    def before(self, worker: int, time: int) -> Wait | None:
        """The last wait that the worker had left by `time`."""
        waits = self.waits[worker]
        at = bisect_right(self._exits.get(worker, []), time)
        while at and waits[at - 1].entry >= time:
            at -= 1
        return waits[at - 1] if at else None

    def circle(self, wait: Wait) -> BadInput:
        name = self.account.capture.schema.regions[wait.region].name
        return BadInput(
            f"the waits around {name} on worker {wait.worker} explain each other in a circle",
            cure="check released_by and scope in the schema",
        )


def critical_path(account: Account) -> CriticalPath:
    """Walks back from the last exit of the launch, from each wait to its last arriver."""
    if not account.rows:
        raise Unsupported("nothing was recorded", cure="capture a launch that ran")
    if account.capture.about.rows == "repeats":
        row = account.middle
        return _path(account, [Leg(row.worker, row.first, row.last)], row.first)
    barriers = Barriers(account)
    last = max(account.rows, key=lambda row: row.last)
    worker, time = last.worker, last.last
    legs: list[Leg] = []
    seen: set[tuple[int, int, int]] = set()
    while True:
        wait = barriers.before(worker, time)
        if wait is None:
            start = min(account.by_worker[worker].first, time)
            legs.append(Leg(worker, start, time))
            return _path(account, legs, account.first)
        if (worker, wait.region, wait.number) in seen:
            raise barriers.circle(wait)
        seen.add((worker, wait.region, wait.number))
        legs.append(Leg(worker, wait.exit, time))
        # Whoever came last was not held up by the others: the path stays with it.
        held = wait.released > wait.entry
        arrival = wait.released if held else wait.entry
        legs.append(Leg(worker, arrival, wait.exit, wait.region))
        worker, time = (wait.cause if held else worker), arrival


def ticks_of(account: Account, leg: Leg) -> dict[int, float]:
    """What a leg of the path was spent on, by region."""
    if leg.wait is not None:
        return {leg.wait: leg.end - leg.start}
    regions = account.capture.schema.regions
    found = account.self_ticks(leg.worker, leg.start, leg.end)
    return {region: spent for region, spent in found.items() if regions[region].role != "wait"}


def _path(account: Account, legs: list[Leg], start: int) -> CriticalPath:
    ticks: dict[int, float] = defaultdict(float)
    for leg in legs:
        for region, spent in ticks_of(account, leg).items():
            ticks[region] += spent
    length = account.span
    late = legs[-1].start - start
    if late > 0:
        legs.append(Leg(legs[-1].worker, start, legs[-1].start))
    return CriticalPath(tuple(legs), dict(ticks), length - sum(ticks.values()))


@dataclass(frozen=True)
class Change:
    """A region made `factor` times faster."""

    region: Region
    factor: float


def parse_change(account: Account, text: str) -> Change:
    """Reads `region=wo_gemv factor=8`."""
    given: dict[str, str] = {}
    for item in text.split():
        key, equals, value = item.partition("=")
        if not equals or not value or key not in ("region", "factor") or key in given:
            raise BadInput(f"{item!r} in change {text!r} makes no sense", cure='write "region=NAME factor=8"')
        given[key] = value
    if set(given) != {"region", "factor"}:
        raise BadInput(f"change {text!r} says too little", cure='write "region=NAME factor=8"')
    try:
        factor = float(given["factor"])
    except ValueError:
        factor = math.nan
    if not factor > 1:
        raise BadInput(f"factor {given['factor']!r} is not a number above 1", cure="factor=8 means eight times faster")
    change = Change(account.capture.schema.find(given["region"]), factor)
    _check_change(account, change)
    return change


def _check_change(account: Account, change: Change) -> None:
    region, capture = change.region, account.capture
    if region.role == "wait":
        causes = [w.cause for waits in Barriers(account).waits.values() for w in waits if w.region == region.id]
        who = f"worker {max(set(causes), key=causes.count)}" if causes else "nobody seen here"
        raise BadInput(
            f"{region.name} is a wait: it ends when its last arriver, {who}, comes", cure="name the work that causes it"
        )
    if not capture.cells["written"][:, region.id].any():
        raise BadInput(f"region {region.name} never ran in {capture.origin}", cure="name a region that did")
    if region.keeps == "last":
        raise Unsupported(
            f"region {region.name} holds only the last trip of its loop: its share is unknown",
            cure="accumulate it over all trips and capture again, or name the region that sums it",
        )


class Replay:
    """The launch replayed with some regions faster: workers keep their order, waits end with their new last arriver."""

    def __init__(self, account: Account, changes: list[Change]) -> None:
        self.account = account
        self.barriers = Barriers(account)
        self.kept = {change.region.id: 1 / change.factor for change in changes}
        self._left: dict[tuple[int, int, int], float | None] = {}
        self._released: dict[tuple[tuple[int, int, int], int], float] = {}
        # In the order in which they ended, each wait needs only waits that are known already.
        for wait in sorted((w for ws in self.barriers.waits.values() for w in ws), key=lambda w: (w.exit, w.entry)):
            self.left(wait)

    def saved(self, worker: int, start: int, end: int) -> float:
        spent = self.account.by_worker[worker].spent
        return sum(spent[r].between(start, end) * (1 - kept) for r, kept in self.kept.items() if r in spent)

    def moved(self, worker: int, time: int) -> float:
        """When the worker now reaches the point that it reached at `time`."""
        wait = self.barriers.before(worker, time)
        if wait is None:
            start = self.account.by_worker[worker].first
            return time - self.saved(worker, start, time)
        return self.left(wait) + (time - wait.exit) - self.saved(worker, wait.exit, time)

    def left(self, wait: Wait) -> float:
        """When the worker now leaves the wait."""
        key = (wait.worker, wait.region, wait.number)
        if key in self._left:
            found = self._left[key]
            if found is None:
                raise self.barriers.circle(wait)
            return found
        self._left[key] = None
        came = self.moved(wait.worker, wait.entry)
        together = (wait.meeting, wait.known)
        if together not in self._released:
            arrivals = self.barriers.arrivals(wait)
            self._released[together] = max((self.moved(w, time) for time, w in arrivals), default=came)
        released = self._released[together]
        self._left[key] = leave = max(came, released) + (wait.exit - max(wait.entry, wait.released))
        return leave

    @cached_property
    def span(self) -> float:
        rows = [self.account.middle] if self.account.capture.about.rows == "repeats" else self.account.rows
        first = min(row.first for row in rows)
        return max(self.moved(row.worker, row.last) for row in rows) - first
