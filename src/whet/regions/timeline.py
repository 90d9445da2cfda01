"""The timeline: workers x time as HTML that needs nothing else, for the report and as a page of its own.

Every row is a strip; a piece fills the share of the strip's height that it filled of its stretch, so a loop's regions
stack up to what they explain and the rest of the strip stays open. Waits are hatched, holes are ruled in red.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from html import escape
from importlib import resources

from whet.errors import WhetError
from whet.regions.accounting import Account, Piece, WorkerTime
from whet.regions.critical import Leg, critical_path
from whet.regions.findings import findings
from whet.regions.reducer import Table
from whet.regions.ticks import tick_time
from whet.units import percent

MAX_ROWS = 96
LAST_MARK = 0.93  # of the width: a mark further right ends at its place instead of standing over it
MIN_SHARE = 0.0004  # of the width: narrower pieces cannot be seen and only weigh the page down
PALETTE = (
    "#3b6fb6",
    "#d9812e",
    "#4b9b5f",
    "#b3527a",
    "#7a65b5",
    "#2f9aa0",
    "#a5823a",
    "#8a5a44",
    "#5f7f2f",
    "#c25b4e",
    "#4f5d73",
    "#c9a227",
)


def fragment(
    counted: Account,
    table: Table,
    *,
    workers: frozenset[int] | None = None,
) -> str:
    """One `<div class="whet-regions">` with its own style."""
    capture = counted.capture
    rows = counted.rows
    if not rows:
        return '<div class="whet-regions"><p>Nothing was recorded.</p></div>'
    try:
        legs = critical_path(counted).legs
    except WhetError:
        legs = ()
    shown = _choose([row for row in rows if workers is None or row.worker in workers], {leg.worker for leg in legs})
    repeats = capture.about.rows == "repeats"
    # Repeats come one after the other: each strip starts at its own beginning.
    length = max(row.span for row in rows) if repeats else counted.last - counted.first
    height = 16 if len(shown) <= 24 else 10 if len(shown) <= 64 else 8
    strips = []
    for row in shown:
        start = row.first if repeats else counted.first
        on_path = [leg for leg in legs if leg.worker == row.worker]
        strips.append(f'<span class="wr-who{" wr-path" if on_path else ""}">{row.worker}</span>')
        strips.append(_strip(counted, row, (start, length or 1), on_path, height))
    facts = [
        f"<b>{capture.workers}</b> {capture.about.rows}",
        f"span <b>{tick_time(counted.span, table.tick_source)}</b>",
        f"coverage <b>{table.coverage:.3f}</b>",
        f"clock {escape(table.tick_source)}, step {escape(table.tick_step_text)}",
    ]
    if len(shown) < len(rows):
        facts.append(f"{len(shown)} of {len(rows)} rows shown")
    if table.placement != "recorded":
        facts.append("places in time assumed from the order of the stages")
    marks = axis_marks(length, table.tick_source)
    axis = "".join(
        f'<span style="left:{100 * share:.3f}%"{" class=wr-end" if share > LAST_MARK else ""}>{label}</span>'
        for share, label in marks
    )
    lines = "".join(f'<p class="wr-note{" wr-bad" if f.bad else ""}">{escape(f.text)}</p>' for f in findings(counted))
    return (
        f'<div class="whet-regions"><style>{_style()}</style><p class="wr-facts">{" · ".join(facts)}</p>'
        f'<div class="wr-chart">{"".join(strips)}<span></span><div class="wr-axis">{axis}</div></div>'
        f'<ul class="wr-keys">{_keys(counted, table)}</ul>{lines}</div>'
    )


def page(
    counted: Account,
    table: Table,
    *,
    title: str = "Regions",
    workers: frozenset[int] | None = None,
) -> str:
    """The fragment as a page that opens offline."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<title>{escape(title)}</title></head><body class="whet-regions-page"><h1>{escape(title)}</h1>'
        f"{fragment(counted, table, workers=workers)}</body></html>\n"
    )


@cache
def _style() -> str:
    return resources.files("whet.regions").joinpath("timeline.css").read_text(encoding="utf-8")


def _choose(rows: list[WorkerTime], on_path: set[int]) -> list[WorkerTime]:
    """All rows, or those on the path and an even choice of the others."""
    if len(rows) <= MAX_ROWS:
        return rows
    room = MAX_ROWS - len(on_path)
    even = {rows[i * len(rows) // room].worker for i in range(max(1, room))}
    return [row for row in rows if row.worker in on_path or row.worker in even][: MAX_ROWS + len(on_path)]


def _colour(counted: Account, region: int) -> str:
    declared = counted.capture.schema.regions[region]
    if declared.role != "work":
        return ""
    if declared.keeps == "last" and declared.parent is not None:
        return _colour(counted, declared.parent)
    regions = counted.capture.schema.regions
    work = [r.id for r in regions if r.role == "work" and not (r.keeps == "last" and r.parent is not None)]
    return f"background:{PALETTE[work.index(region) % len(PALETTE)]}"


def _strip(counted: Account, row: WorkerTime, scale: tuple[int, int], on_path: list[Leg], height: int) -> str:
    start, length = scale
    source = counted.capture.about.tick_source
    boxes = []

    def box(begin: int, end: int, style: str, kind: str, title: str) -> None:
        share = (end - begin) / length
        if share >= MIN_SHARE:
            place = f"left:{100 * (begin - start) / length:.3f}%;width:{100 * share:.3f}%"
            boxes.append(f'<i class="wr-{kind}" style="{place};{style}" title="{escape(title)}"></i>')

    for hole in row.holes:
        title = f"worker {row.worker}: {tick_time(hole.missing, source)} unexplained"
        box(hole.start, hole.end, "top:0;height:100%", "hole", title)
    for piece, base, share in _stacked(counted, row):
        region = counted.capture.schema.regions[piece.region]
        title = f"worker {row.worker}: {region.name} {tick_time(piece.ticks, source)}"
        if not piece.placed:
            title += ", a sum without a place in time"
        style = f"bottom:{100 * base:.1f}%;height:{100 * share:.1f}%;{_colour(counted, piece.region)}"
        box(piece.start, piece.end, style, region.role, title)
    for leg in on_path:
        box(leg.start, leg.end, "", "path", "critical path")
    return f'<div class="wr-strip" style="height:{height}px">{"".join(boxes)}</div>'


def _stacked(counted: Account, row: WorkerTime) -> Iterator[tuple[Piece, float, float]]:
    """(piece, where it stands, how tall it is) in shares of the strip: a part covers its parent from below."""
    regions = counted.capture.schema.regions
    tops: dict[int | None, list[tuple[Piece, float]]] = {}
    bases: dict[int, float] = {}
    nested = sorted(row.nested, key=lambda piece: (_depth(counted, piece.region), piece.start))
    for at, piece in enumerate((*row.roots, *nested)):
        parent = regions[piece.region].parent if at >= len(row.roots) else None
        floor = bases.get(parent, 0.0) if parent is not None else 0.0
        # Pieces come in the order of their start: one that has ended stands beside nothing that follows.
        beside = tops[parent] = [(other, top) for other, top in tops.get(parent, []) if other.end > piece.start]
        base = max([floor, *(top for other, top in beside if other.start < piece.end and piece.start < other.end)])
        share = min(piece.ticks / (piece.end - piece.start) if piece.end > piece.start else 0.0, max(0.0, 1 - base))
        beside.append((piece, base + share))
        bases[piece.region] = base
        yield piece, base, share


def _depth(counted: Account, region: int | None) -> int:
    return 0 if region is None else 1 + _depth(counted, counted.capture.schema.regions[region].parent)


def _keys(counted: Account, table: Table) -> str:
    all_time = sum(row.span for row in counted.rows) or 1
    items = []
    for row in table.rows:
        if not row.active_workers:
            continue
        region = counted.capture.schema.regions[row.region_id]
        name = escape(region.name) + (" (last trip)" if region.keeps == "last" else "")
        colour = _colour(counted, region.id)
        numbers = f"{tick_time(row.median_ticks, table.tick_source)} × {row.active_workers}"
        items.append(
            f'<li><i class="wr-{region.role}" style="{colour}"></i><span class="wr-name">{name}</span>'
            f'<span class="wr-num">{numbers} · {percent(row.total_ticks / all_time)}</span></li>'
        )
    missing = sum(hole.missing for row in counted.rows for hole in row.holes)
    if missing:
        items.append(
            '<li><i class="wr-hole"></i><span class="wr-name">unexplained</span>'
            f'<span class="wr-num">{percent(missing / all_time)}</span></li>'
        )
    items.append('<li><i class="wr-path"></i><span class="wr-name">critical path</span></li>')
    return "".join(items)


def axis_marks(length: int, source: str) -> list[tuple[float, str]]:
    """(share of the length, label) at round numbers, four to eight of them, the zero included."""
    if length <= 0:
        return [(0.0, "0")]
    step = 10.0 ** math.floor(math.log10(length))
    step = next(step * part for part in (1, 0.5, 0.25, 0.2) if length / (step * part) >= 4 or part == 0.2)
    return [(i * step / length, tick_time(i * step, source) if i else "0") for i in range(int(length / step) + 1)]
