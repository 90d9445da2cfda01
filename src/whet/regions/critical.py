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
    """One worker's wait: when it came and left, and who let it go, when."""

    worker: int
    region: int
    entry: int
    exit: int
    cause: int
    released: int


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
    """Every wait of a capture with its cause. Waits that ran in a loop keep no arrival times: Unsupported."""

    def __init__(self, account: Account) -> None:
        self.account = account
        self.waits: dict[int, list[Wait]] = defaultdict(list)
        self._arrivals: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
        self._group: dict[int, list[int]] = {}
        # Repeats come one after the other: nobody in one waits for another.
        together = account.capture.about.rows == "workers"
        for region in account.capture.schema.regions:
            if region.role == "wait" and together:
                self._add(region)
        for waits in self.waits.values():
            waits.sort(key=lambda wait: (wait.exit, wait.entry))

    def _add(self, region: Region) -> None:
        capture = self.account.capture
        cells = capture.cells[:, region.id]
        if capture.about.placement == "assumed" and cells["written"].any():
            raise Unsupported(
                f"wait {region.name} is known by its length alone, not by its arrival times",
                cure="record entry and exit of the wait",
            )
        if (cells["count"] > 1).any():
            raise Unsupported(
                f"wait {region.name} ran several times per worker, so its arrival times are gone",
                cure="record each barrier of the loop as a region of its own",
            )
        source, key = (region.id, "entry") if region.released_by is None else (region.released_by, "exit")
        group = self._group[region.id] = capture.grid.groups(region.scope).tolist()
        for worker in self.account.by_worker:
            if capture.placed[worker, source]:
                self._arrivals[region.id, group[worker]].append((int(capture.cells[key][worker, source]), worker))
        for arrivals in self._arrivals.values():
            arrivals.sort()
        for worker in self.account.by_worker:
            if capture.placed[worker, region.id]:
                entry, leave = int(cells["entry"][worker]), int(cells["exit"][worker])
                arrivals, known = self.arrivals(region.id, worker), self.arrived(region.id, worker, leave)
                released, cause = arrivals[known - 1] if known else (entry, worker)
                self.waits[worker].append(Wait(worker, region.id, entry, leave, cause, released))

    def arrivals(self, region: int, worker: int) -> list[tuple[int, int]]:
        """(time, worker) of everything that the worker's wait could have been waiting for, earliest first."""
        return self._arrivals[region, self._group[region][worker]]

    def arrived(self, region: int, worker: int, until: int) -> int:
        """How many of these there were by then."""
        return bisect_right(self.arrivals(region, worker), (until, MAX_WORKERS))

    def group(self, wait: Wait) -> int:
        return self._group[wait.region][wait.worker]

    def before(self, worker: int, time: int) -> Wait | None:
        """The last wait that the worker had left by `time`."""
        past = [wait for wait in self.waits[worker] if wait.exit <= time and wait.entry < time]
        return past[-1] if past else None

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
    seen: set[tuple[int, int]] = set()
    while True:
        wait = barriers.before(worker, time)
        if wait is None:
            start = min(account.by_worker[worker].first, time)
            legs.append(Leg(worker, start, time))
            return _path(account, legs, account.first)
        if (worker, wait.region) in seen:
            raise barriers.circle(wait)
        seen.add((worker, wait.region))
        legs.append(Leg(worker, wait.exit, time))
        # Whoever came last was not held up by the others: the path stays with it.
        held = wait.released > wait.entry
        arrival = wait.released if held else wait.entry
        legs.append(Leg(worker, arrival, wait.exit, wait.region))
        worker, time = (wait.cause if held else worker), arrival


def _path(account: Account, legs: list[Leg], start: int) -> CriticalPath:
    ticks: dict[int, float] = defaultdict(float)
    for leg in legs:
        if leg.wait is not None:
            ticks[leg.wait] += leg.end - leg.start
            continue
        for region, spent in account.self_ticks(leg.worker, leg.start, leg.end).items():
            if account.capture.schema.regions[region].role != "wait":
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
        self._left: dict[tuple[int, int], float | None] = {}
        self._released: dict[tuple[int, int, int], float] = {}
        # In the order in which they ended, each wait needs only waits that are known already.
        for wait in sorted((w for ws in self.barriers.waits.values() for w in ws), key=lambda w: (w.exit, w.entry)):
            self.left(wait)

    def saved(self, worker: int, start: int, end: int) -> float:
        row = self.account.by_worker[worker]
        pieces = (*row.roots, *row.nested)
        return sum(p.within(start, end) * (1 - self.kept[p.region]) for p in pieces if p.region in self.kept)

    def moved(self, worker: int, time: int) -> float:
        """When the worker now reaches the point that it reached at `time`."""
        wait = self.barriers.before(worker, time)
        if wait is None:
            start = self.account.by_worker[worker].first
            return time - self.saved(worker, start, time)
        return self.left(wait) + (time - wait.exit) - self.saved(worker, wait.exit, time)

    def left(self, wait: Wait) -> float:
        """When the worker now leaves the wait."""
        key = (wait.worker, wait.region)
        if key in self._left:
            found = self._left[key]
            if found is None:
                raise self.barriers.circle(wait)
            return found
        self._left[key] = None
        came = self.moved(wait.worker, wait.entry)
        known = self.barriers.arrived(wait.region, wait.worker, wait.exit)
        together = (wait.region, self.barriers.group(wait), known)
        if together not in self._released:
            arrivals = self.barriers.arrivals(wait.region, wait.worker)[:known]
            self._released[together] = max((self.moved(w, time) for time, w in arrivals), default=came)
        released = self._released[together]
        self._left[key] = leave = max(came, released) + (wait.exit - max(wait.entry, wait.released))
        return leave

    @cached_property
    def span(self) -> float:
        rows = [self.account.middle] if self.account.capture.about.rows == "repeats" else self.account.rows
        first = min(row.first for row in rows)
        return max(self.moved(row.worker, row.last) for row in rows) - first
