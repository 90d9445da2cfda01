"""The same table from other clocks: an engine's stage times, GPU pass timestamps, per-thread counters of a runtime.

Durations alone have no place in time. They are laid one after the other in the order given, and the capture says
`placement = "assumed"`, which every view repeats.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

import numpy as np

from whet.errors import BadInput
from whet.regions.capture import CELL, About, Capture, LaunchValue, make_capture
from whet.regions.grid import Axis
from whet.regions.schema import Region, Schema, check

ORIGIN = 1  # tick 0 is no place in time


@dataclass(frozen=True)
class Pass:
    """One GPU pass between two timestamps of the device."""

    name: str
    begin_ns: int
    end_ns: int


def from_stages(
    repeats: Mapping[str, int] | Sequence[Mapping[str, int]],
    *,
    total_ns: int | Sequence[int],
    tags: Mapping[str, Sequence[str]] | None = None,
    schema: Schema | None = None,
    name: str = "stages",
    launch: Mapping[str, LaunchValue] | None = None,
) -> Capture:
    """Stage times of one call, or of several: one row per repeat, so medians are over repeats.

    `total_ns` is the time of each call by a clock around it; what the stages leave of it shows as a hole.
    """
    rows = [repeats] if isinstance(repeats, Mapping) else list(repeats)
    totals = [total_ns] if isinstance(total_ns, int) else list(total_ns)
    if not rows or len(rows) != len(totals):
        raise BadInput(f"{len(rows)} repeats with {len(totals)} totals", cure="give one total per repeat")
    return _durations(rows, totals, "repeats", tags=tags, schema=schema, name=name, launch=launch)


def from_counters(
    workers: Sequence[Mapping[str, int]],
    *,
    spans_ns: Sequence[int],
    waits: Iterable[str] = (),
    tags: Mapping[str, Sequence[str]] | None = None,
    name: str = "counters",
    launch: Mapping[str, LaunchValue] | None = None,
) -> Capture:
    """Per-thread counters of a runtime: nanoseconds by name and thread, and how long each thread lived."""
    if not workers or len(workers) != len(spans_ns):
        raise BadInput(f"{len(workers)} threads with {len(spans_ns)} spans", cure="give one span per thread")
    return _durations(
        workers, list(spans_ns), "workers", tags=tags, schema=None, name=name, launch=launch, waits=frozenset(waits)
    )


def from_passes(
    repeats: Sequence[Sequence[Pass]],
    *,
    quantum_ns: int | None = None,
    total_ns: float | None = None,
    tags: Mapping[str, Sequence[str]] | None = None,
    name: str = "passes",
    launch: Mapping[str, LaunchValue] | None = None,
) -> Capture:
    """GPU pass timestamps: one row per repeat. A pass that runs several times in a repeat is summed."""
    if not repeats or not any(repeats):
        raise BadInput("no pass was given", cure="give at least one repeat with one pass")
    names = list(dict.fromkeys(p.name for passes in repeats for p in passes))
    schema = _schema(names, tags, "repeats", name, frozenset())
    cells = np.zeros((len(repeats), len(names)), dtype=CELL)
    for row, passes in enumerate(repeats):
        for item in passes:
            if not 0 < item.begin_ns <= item.end_ns:
                raise BadInput(
                    f"pass {item.name} of repeat {row} runs from {item.begin_ns} to {item.end_ns}",
                    cure="read the timestamps after the device has written them",
                    index=row,
                )
            cell = cells[row, names.index(item.name)]
            cell["entry"] = min(cell["entry"], item.begin_ns) if cell["written"] else item.begin_ns
            cell["exit"] = max(cell["exit"], item.end_ns)
            cell["ticks"] += item.end_ns - item.begin_ns
            cell["count"] += 1
            cell["written"] = 1
    about = About(
        tick_source="timestamp_query",
        tick_step=quantum_ns,
        grid={"repeats": len(repeats)},
        launch=dict(launch or {"name": name}),
        rows="repeats",
        total_ns=total_ns,
        created=_now(),
    )
    return make_capture(cells, schema, about, origin=name)


def _durations(
    rows: Sequence[Mapping[str, int]],
    totals: list[int],
    kind: Literal["workers", "repeats"],
    *,
    tags: Mapping[str, Sequence[str]] | None,
    schema: Schema | None,
    name: str,
    launch: Mapping[str, LaunchValue] | None,
    waits: frozenset[str] = frozenset(),
) -> Capture:
    names = [r.name for r in schema.regions] if schema else list(dict.fromkeys(key for row in rows for key in row))
    schema = schema or _schema(names, tags, kind, name, waits)
    cells = np.zeros((len(rows), len(names)), dtype=CELL)
    spans = []
    for index, (row, total) in enumerate(zip(rows, totals, strict=True)):
        at = ORIGIN
        for stage, length in row.items():
            if stage not in names:
                raise BadInput(f"schema {schema.name} has no stage {stage!r}", cure=f"stages: {', '.join(names)}")
            if length < 0:
                raise BadInput(f"stage {stage} of row {index} took {length} ns", cure="give lengths, not differences")
            cells[index, names.index(stage)] = (at, at + length, length, 1, 1)
            at += length
        if total <= 0:
            raise BadInput(f"row {index} has a total of {total} ns", cure="give the time of the call around its stages")
        spans.append((ORIGIN, ORIGIN + total))
    about = About(
        tick_source="monotonic",
        grid={kind: len(rows)},
        launch=dict(launch or {"name": name}),
        rows=kind,
        placement="assumed",
        spans=tuple(spans),
        total_ns=float(np.median(totals)),
        created=_now(),
    )
    return make_capture(cells, schema, about, origin=name)


def _schema(
    names: Sequence[str], tags: Mapping[str, Sequence[str]] | None, axis: str, name: str, waits: frozenset[str]
) -> Schema:
    unknown = sorted(set(tags or {}) - set(names))
    if unknown:
        raise BadInput(f"there is no stage {unknown[0]!r} to tag", cure=f"stages: {', '.join(names)}")
    regions = tuple(
        Region(
            id=i,
            name=stage,
            role="wait" if stage in waits else "work",
            tags=tuple((tags or {}).get(stage, ())),
            elected=True,
        )
        for i, stage in enumerate(names)
    )
    schema = Schema(name=name, regions=regions, axes=(Axis(axis[:-1] + "_index", axis),))
    check(schema, name)
    return schema


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
