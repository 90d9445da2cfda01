"""What must hold before a table may lead to a verdict. Each check can fail, and says what it saw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from whet.errors import BadInput, WhetError
from whet.regions.accounting import Account, HoleGroup, is_sample
from whet.regions.critical import critical_path
from whet.regions.reducer import State, states, tick_step
from whet.regions.schema import Region
from whet.regions.ticks import tick_source, tick_time


class Limits(msgspec.Struct, frozen=True):
    """How much may be missing or off."""

    coverage: float = 0.95
    span: float = 0.10

    def __post_init__(self) -> None:
        if not (0 < self.coverage <= 1 and 0 < self.span < 1):
            raise BadInput(f"limits {self.coverage} and {self.span} are not shares", cure="give numbers within 0..1")


class Check(msgspec.Struct, frozen=True):
    name: str
    held: bool
    detail: str


def preconditions(
    counted: Account,
    tagged: Sequence[Region] = (),
    *,
    limits: Limits | None = None,
    total_us: float | None = None,
    launch: Mapping[str, str] | None = None,
) -> tuple[Check, ...]:
    """All of them, in the order in which a reader should look."""
    limits = limits or Limits()
    if not counted.rows:
        return (Check("coverage", False, "nothing was written: no worker recorded any region"),)
    return (
        _coverage(counted, limits),
        _loops(counted),
        _one_denominator(counted),
        _span(counted, limits, total_us),
        _launch(counted, launch),
        _window(counted),
        _workers(counted),
        _nesting(counted),
        *([_tag_measured(counted, tagged)] if tagged else []),
        _path(counted),
    )


def _long(counted: Account, ticks: float) -> str:
    return tick_time(ticks, counted.capture.about.tick_source)


def describe_hole(counted: Account, group: HoleGroup) -> str:
    """One hole, in words: its median length, or the longest where they differ much."""
    names, after, before = counted.capture.schema.regions, group.after, group.before
    left = "the start" if after is None else f"region {after} ({names[after].name})"
    right = "the end" if before is None else f"region {before} ({names[before].name})"
    where = f"inside {left}" if after == before and after is not None else f"between {left} and {right}"
    median, longest = float(np.median(group.missing)), max(group.missing)
    length = _long(counted, median) if longest <= 2 * median else f"up to {_long(counted, longest)}"
    return f"{length} {where} on {len(group.missing)} of {len(counted.rows)} {counted.capture.about.rows}"


def _coverage(counted: Account, limits: Limits) -> Check:
    lowest, worst = counted.coverage, max(counted.rows, key=lambda row: row.doubled)
    detail = f"coverage {lowest:.3f} (needs {limits.coverage})"
    holes = counted.widest_holes()
    if lowest < limits.coverage and holes:
        detail += f"; largest hole: {describe_hole(counted, holes[0])}"
    # Entry and exit are each known to one step of the clock.
    if worst.doubled > 2 * tick_step(counted.capture).step * len(worst.roots):
        twice = _long(counted, worst.doubled)
        return Check("coverage", False, f"regions overlap on worker {worst.worker}: {twice} would be counted twice")
    return Check("coverage", lowest >= limits.coverage, detail)


def _loops(counted: Account) -> Check:
    capture = counted.capture
    lost, short = [], []
    for region in capture.schema.regions:
        if region.per != "trip":
            continue
        ran = [row.worker for row in counted.rows if capture.cells["written"][row.worker, region.id]]
        if region.keeps == "last":
            if any(not is_sample(capture, worker, region.id) for worker in ran):
                lost.append(str(region.id))
            continue
        trips = capture.schema.trips(region, capture.grid)
        counts = capture.cells["count"][ran, region.id]
        if trips is not None and region.slots == "interval" and (counts != trips).any():
            short.append(f"region {region.id} ({region.name}) counts {counts.min()}..{counts.max()} of {trips} trips")
    if lost:
        detail = f"regions {', '.join(lost)} sit in a loop and keep only their last trip"
        return Check("loops accumulated", False, detail)
    return Check("loops accumulated", not short, "; ".join(short) or "every loop region sums its trips")


def _one_denominator(counted: Account) -> Check:
    about = counted.capture.about
    source = tick_source(about.tick_source)
    others = sorted({name for name in about.region_tick_source.values() if name != about.tick_source})
    if others:
        return Check("one denominator", False, f"regions were timed by {about.tick_source} and by {', '.join(others)}")
    if source.ns_per_tick is None:
        return Check("one denominator", False, f"{source.name} ticks are no time: they share no unit with the total")
    if not source.shared and about.rows == "workers" and len(counted.rows) > 1:
        return Check(
            "one denominator", False, f"workers read {source.name} each for itself: their ticks do not compare"
        )
    return Check("one denominator", True, f"all shares are of one span, by {source.name}")


def _span(counted: Account, limits: Limits, total_us: float | None) -> Check:
    about = counted.capture.about
    total_ns = total_us * 1000 if total_us is not None else about.total_ns
    ns = tick_source(about.tick_source).ns_per_tick
    if total_ns is None or not total_ns > 0 or ns is None:
        return Check("span", False, "no total from an outside clock to compare the span with (--total-us)")
    span_ns = counted.span * ns
    off = span_ns / total_ns - 1
    detail = f"span {span_ns / 1000:.3f} us is {off:+.1%} off the outside total {total_ns / 1000:.3f} us"
    return Check("span", abs(off) <= limits.span, f"{detail} (allowed {limits.span:.0%})")


def _launch(counted: Account, described: Mapping[str, str] | None) -> Check:
    recorded = {key: str(value) for key, value in counted.capture.about.launch.items()}
    if not recorded and not described:
        return Check("launch", False, "nothing says which launch this is (--launch key=value)")
    wrong = [
        f"{key} is {recorded.get(key, 'not recorded')}, described as {value}"
        for key, value in (described or {}).items()
        if recorded and recorded.get(key) != value
    ]
    if wrong:
        return Check("launch", False, f"another launch was captured: {'; '.join(wrong)}")
    listed = ", ".join(f"{k}={v}" for k, v in {**recorded, **(described or {})}.items())
    return Check("launch", True, listed if recorded else f"{listed} (said by hand; the capture does not record it)")


def _window(counted: Account) -> Check:
    """Ticks of an earlier launch show as cells outside the window, or elected cells outside everybody else's time."""
    capture = counted.capture
    placed = capture.placed
    entry, leave = capture.cells["entry"], capture.cells["exit"]
    fixed = placed.copy()
    for region in capture.schema.regions:
        if region.elected:
            fixed[:, region.id] = False
    if capture.about.window is not None:
        first, last = capture.about.window
    elif fixed.any():
        first, last = int(entry[fixed].min()), int(leave[fixed].max())
    else:
        return Check("nothing stale", True, "no cell has a place in time")
    stale = placed & ((entry < first) | (leave > last))
    if stale.any():
        worker, index = (int(i[0]) for i in np.nonzero(stale))
        name = capture.schema.regions[index].name
        detail = f"{int(stale.sum())} cells lie outside the launch, such as {name} on worker {worker}: stale ticks"
        return Check("nothing stale", False, detail)
    return Check("nothing stale", True, "every tick lies within the launch")


def _workers(counted: Account) -> Check:
    capture = counted.capture
    masks = capture.schema.masks(capture.grid)
    ran = states(capture, tick_step(capture).step) != State.NOT_RUN
    wrong = []
    for region in capture.schema.regions:
        outside = np.nonzero(ran[:, region.id] & ~masks[:, region.id])[0]
        absent = np.nonzero(~ran[:, region.id] & masks[:, region.id])[0]
        if outside.size:
            wrong.append(f"{region.name} ran on {outside.size} workers outside its rule, such as worker {outside[0]}")
        if absent.size and not region.elected:
            wrong.append(f"{region.name} did not run on {absent.size} workers of its rule, such as worker {absent[0]}")
    return Check("workers as declared", not wrong, "; ".join(wrong) or "every region ran where its rule says")


def _nesting(counted: Account) -> Check:
    """A part lies inside its parent and all parts together are no longer than it."""
    capture = counted.capture
    step = tick_step(capture).step
    wrong = []
    for row in counted.rows:
        parts: dict[int, int] = {}
        cells = capture.cells[row.worker]
        for piece in row.nested:
            parent = capture.schema.regions[piece.region].parent
            if parent is None:
                continue
            parts[parent] = parts.get(parent, 0) + piece.ticks
            outside = capture.placed[row.worker, parent] and (
                piece.start < cells["entry"][parent] or piece.end > cells["exit"][parent]
            )
            if outside:
                wrong.append(f"{capture.schema.regions[piece.region].name} leaves its parent on worker {row.worker}")
        for parent, ticks in parts.items():
            if ticks > cells["ticks"][parent] + step * max(1, int(cells["count"][parent])):
                wrong.append(f"parts of {capture.schema.regions[parent].name} exceed it on worker {row.worker}")
    return Check("nesting", not wrong, wrong[0] if wrong else "parts lie within their parents")


def _tag_measured(counted: Account, tagged: Sequence[Region]) -> Check:
    written = counted.capture.cells["written"]
    absent = [region.name for region in tagged if not written[:, region.id].any()]
    return Check(
        "tag measured", not absent, f"no data for {', '.join(absent)}" if absent else "every tagged region ran"
    )


def _path(counted: Account) -> Check:
    try:
        critical_path(counted)
    except WhetError as problem:
        return Check("critical path", False, problem.cause)
    return Check("critical path", True, "waits are explained by their last arrivers")
