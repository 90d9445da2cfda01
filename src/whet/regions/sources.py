"""The same table from other clocks: an engine's stage times, GPU passes, the threads of a runtime.

Durations alone have no place in time. They are laid one after the other in the order given, and the capture says
`placement = "assumed"`, which every view repeats.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from whet.errors import BadInput, Unsupported
from whet.regions.capture import CELL, About, Capture, Cells, LaunchValue, make_capture, replace_about
from whet.regions.grid import Axis
from whet.regions.schema import Region, Schema, check
from whet.regions.stretches import MAX_STRETCHES, STRETCH

if TYPE_CHECKING:
    from whet.graph.observe import Span

ORIGIN = 1  # tick 0 is no place in time

RowKind = Literal["workers", "repeats"]
Tags = Mapping[str, Sequence[str]]
Launch = Mapping[str, LaunchValue]
# One row of durations: a table, or (name, ns) pairs in which a name may come again. None: the device has no clock.
Durations = Mapping[str, int] | Sequence[tuple[str, int | None]]


class Event(NamedTuple):
    """One stretch of a row: a task on a worker, a pass of a repeat."""

    row: int
    name: str
    begin_ns: int
    end_ns: int


def from_stages(
    repeats: Sequence[Durations],
    *,
    totals_ns: Sequence[int],
    waits: Iterable[str] = (),
    tags: Tags | None = None,
    tick_source: str = "monotonic",
    name: str = "stages",
    launch: Launch | None = None,
) -> Capture:
    """Stage times of one call after another: one row per repeat, so medians are over repeats.

    `totals_ns` is the time of each call by a clock around it; what the stages leave of it shows as a hole.
    """
    rows = _rows(repeats, totals_ns)
    schema = _schema([stage for row in rows for stage, _ in row], tags, "repeats", name, frozenset(waits))
    return _laid_out(rows, totals_ns, schema, "repeats", _about(tick_source, launch, name))


def from_counters(
    workers: Sequence[Durations],
    *,
    spans_ns: Sequence[int],
    waits: Iterable[str] = (),
    tags: Tags | None = None,
    name: str = "counters",
    launch: Launch | None = None,
) -> Capture:
    """Per-thread counters of a runtime: nanoseconds by name and thread, and how long each thread lived."""
    rows = _rows(workers, spans_ns)
    schema = _schema([counter for row in rows for counter, _ in row], tags, "workers", name, frozenset(waits))
    return _laid_out(rows, spans_ns, schema, "workers", _about("monotonic", launch, name))


def from_events(
    events: Sequence[Event],
    *,
    rows: RowKind = "workers",
    waits: Iterable[str] = (),
    tags: Tags | None = None,
    tick_source: str = "monotonic",
    quantum_ns: int | None = None,
    total_ns: float | None = None,
    name: str = "events",
    launch: Launch | None = None,
) -> Capture:
    """Stretches with both ends known, such as tasks on threads or GPU passes: a name that comes again is summed."""
    if not events or min(event.row for event in events) < 0:
        raise BadInput("no event, or a row below 0", cure="give at least one event; rows count from 0")
    schema = _schema([event.name for event in events], tags, rows, name, frozenset(waits))
    column = {region.name: region.id for region in schema.regions}
    count = max(event.row for event in events) + 1
    cells = np.zeros((count, len(column)), dtype=CELL)
    for event in events:
        if not 0 < event.begin_ns <= event.end_ns:
            raise BadInput(
                f"{event.name} of row {event.row} runs from {event.begin_ns} to {event.end_ns}",
                cure="read the times after they have been written",
                index=event.row,
            )
        _add(cells, (event.row, column[event.name]), event.begin_ns, event.end_ns)
    about = replace_about(
        _about(tick_source, launch, name), tick_step=quantum_ns, grid={rows: count}, rows=rows, total_ns=total_ns
    )
    return make_capture(cells, schema, about, origin=name, stretches=_stretches(events, schema, cells))


def _stretches(events: Sequence[Event], schema: Schema, cells: Cells) -> Cells | None:
    """Every event by itself, where a wait came again; None where its events overlap and so cannot be told apart."""
    waits = [region.id for region in schema.regions if region.role == "wait"]
    if not (cells["count"][:, waits] > 1).any() or len(events) > MAX_STRETCHES:
        return None
    column = {region.name: region.id for region in schema.regions}
    rows = sorted((e.row, column[e.name], e.begin_ns, e.end_ns) for e in events)
    if any(a[:2] == b[:2] and b[2] < a[3] for a, b in pairwise(rows)):
        return None
    rows.sort(key=lambda row: (row[0], row[2], row[3]))
    return np.array([(*row, row[3] - row[2], 1) for row in rows], dtype=STRETCH)


def from_tasks(spans: Iterable[Span], *, tags: Tags | None = None, name: str = "tasks") -> Capture:
    """Tasks of a graph runtime (`whet.graph.Runtime.spans()`) by name; what lies between them shows as holes."""
    events = [Event(span.worker, span.name or "task", span.begin_ns, span.end_ns) for span in spans]
    return from_events(events, tags=tags, name=name)


def from_phases(
    workers: Sequence[Mapping[str, tuple[int, int]]], *, tags: Tags | None = None, name: str = "phases"
) -> Capture:
    """Phases of a graph runtime's threads (`whet.graph.Runtime.phases()`), which fill each thread's whole time."""
    busy = [{phase: ns for phase, (ns, _) in row.items() if ns} for row in workers]
    lived = [row for row in busy if row]
    waits = {phase for row in lived for phase in row} & {"poll", "idle"}
    return from_counters(lived, spans_ns=[sum(row.values()) for row in lived], waits=waits, tags=tags, name=name)


def _rows(given: Sequence[Durations], totals: Sequence[int]) -> list[list[tuple[str, int]]]:
    """Every row as (name, ns) pairs, in order. A time that the device could not take is never read as 0."""
    if not given or len(given) != len(totals) or min(totals) <= 0:
        raise BadInput(
            f"{len(given)} rows of stages with the totals {list(totals)[:4]}", cure="give each row its time, above 0 ns"
        )
    rows: list[list[tuple[str, int]]] = []
    for row in given:
        rows.append([])
        for stage, length in row.items() if isinstance(row, Mapping) else row:
            if length is None:
                raise Unsupported(f"{stage} has no time", cure="use a device with timestamps")
            if length < 0:
                raise BadInput(f"{stage} took {length} ns", cure="give lengths, not differences of unrelated clocks")
            rows[-1].append((stage, int(length)))
    return rows


def _about(tick_source: str, launch: Launch | None, name: str) -> About:
    created = datetime.now(UTC).isoformat(timespec="seconds")
    return About(tick_source=tick_source, launch=dict(launch or {"name": name}), created=created)


def _laid_out(
    rows: list[list[tuple[str, int]]], totals: Sequence[int], schema: Schema, kind: RowKind, about: About
) -> Capture:
    column = {region.name: region.id for region in schema.regions}
    cells = np.zeros((len(rows), len(column)), dtype=CELL)
    for index, row in enumerate(rows):
        at = ORIGIN
        for stage, length in row:
            _add(cells, (index, column[stage]), at, at + length)
            at += length
    about = replace_about(
        about,
        grid={kind: len(rows)},
        rows=kind,
        placement="assumed",
        spans=tuple((ORIGIN, ORIGIN + total) for total in totals),
        total_ns=float(np.median(totals)),
    )
    return make_capture(cells, schema, about, origin=schema.name)


def _add(cells: Cells, at: tuple[int, int], begin: int, end: int) -> None:
    cell = cells[at]
    cell["entry"] = min(cell["entry"], begin) if cell["written"] else begin
    cell["exit"] = max(cell["exit"], end)
    cell["ticks"] += end - begin
    cell["count"] += 1
    cell["written"] = 1


def _schema(names: Iterable[str], tags: Tags | None, axis: str, name: str, waits: frozenset[str]) -> Schema:
    """What was seen, as a schema; which rows run a region is observed, not declared."""
    seen = list(dict.fromkeys(names))
    unknown = sorted((set(tags or {}) | waits) - set(seen))
    if unknown:
        raise BadInput(f"there is no {unknown[0]!r} among the regions", cure=f"regions: {', '.join(seen)}")
    regions = tuple(
        Region(
            id=index,
            name=stage,
            role="wait" if stage in waits else "work",
            tags=tuple((tags or {}).get(stage, ())),
            elected=True,
            per="trip",
        )
        for index, stage in enumerate(seen)
    )
    schema = Schema(name=name, regions=regions, axes=(Axis(axis[:-1] + "_index", axis),))
    check(schema, name)
    return schema
