"""The terminal view: a tree of regions with bars, what nothing explains, and who waited for whom."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table as Grid
from rich.text import Text

from whet.errors import WhetError
from whet.regions.accounting import Account
from whet.regions.critical import CriticalPath, critical_path
from whet.regions.findings import findings
from whet.regions.reducer import Row, Table
from whet.regions.ticks import tick_time
from whet.regions.trips import Loop
from whet.units import percent

BAR_WIDTH = 24
FILL = {"work": "█", "wait": "░", "boundary": "▒", "hole": "·"}
STYLE = {"work": "cyan", "wait": "yellow", "boundary": "blue", "hole": "bold red"}
EIGHTHS = " ▏▎▍▌▋▊▉"


def bar(share: float, role: str) -> Text:
    """A bar of `BAR_WIDTH` cells; work ends in eighths of a cell, waits and holes in whole ones."""
    share = min(1.0, max(0.0, share))
    eighths = round(share * BAR_WIDTH * 8)
    if role != "work":
        return Text(FILL[role] * max(1 if share > 0 else 0, round(share * BAR_WIDTH)), STYLE[role])
    text = FILL[role] * (eighths // 8) + EIGHTHS[eighths % 8].strip()
    return Text(text or ("▏" if share > 0 else ""), STYLE[role])


def render(table: Table, counted: Account) -> RenderableType:
    """Shares of worker time add up to 100 %, the unexplained part included; shares of the path add up to the span."""
    try:
        path: CriticalPath | None = critical_path(counted)
    except WhetError:
        path = None
    grid = Grid(box=None, pad_edge=False, header_style="bold")
    grid.add_column("region", no_wrap=True)
    grid.add_column("share of worker time", width=BAR_WIDTH, no_wrap=True)
    along = "on path" if table.rows_are == "workers" else "middle one"
    for heading in ("", "median", "p99", table.rows_are, along):
        grid.add_column(heading, justify="right", no_wrap=True)
    grid.add_column("", overflow="fold")
    all_time = sum(row.span for row in counted.rows) or 1
    for row, indent in _tree(table):
        share = row.total_ticks / all_time
        on_path = path.ticks.get(row.region_id) if path else None
        grid.add_row(
            Text(indent) + Text(row.region, STYLE[row.role]),
            bar(share, row.role) if row.active_workers else Text("did not run", "dim"),
            percent(share) if row.active_workers else "",
            tick_time(row.median_ticks, table.tick_source),
            tick_time(row.p99_ticks, table.tick_source),
            f"{row.active_workers}/{row.declared}",
            percent(on_path / counted.span) if on_path and counted.span else "",
            Text(_notes(row, counted), "dim"),
        )
    missing = sum(hole.missing for row in counted.rows for hole in row.holes)
    if missing:
        rest = path.unexplained / counted.span if path and counted.span else None
        share = missing / all_time
        grid.add_row(Text("unexplained", STYLE["hole"]), bar(share, "hole"), percent(share), "", "", "", percent(rest))
    tail = [Text(finding.text, STYLE["hole"] if finding.bad else "") for finding in findings(counted)]
    return Group(*_head(table), Text(), grid, Text(), *tail)


def render_trips(loop: Loop | None, counted: Account) -> RenderableType:
    """A row for each trip: its length, how much of it is explained, who came last and what the path did in it."""
    if loop is None:
        return Text("no barrier was passed twice: the launch is one trip")
    source = counted.capture.about.tick_source
    grid = Grid(box=None, pad_edge=False, header_style="bold")
    for heading in ("trip", "length", "coverage", "last to come"):
        grid.add_column(heading, justify="right", no_wrap=True)
    grid.add_column("on path")
    for trip in loop.trips:
        parts = sorted(trip.on_path.items(), key=lambda item: -item[1])[:3]
        spent = ", ".join(f"{name} {percent(ticks / trip.ticks)}" for name, ticks in parts) if trip.ticks else ""
        last = "" if trip.last is None else str(trip.last)
        grid.add_row(str(trip.number), tick_time(trip.ticks, source), f"{trip.coverage:.3f}", last, spent)
    return grid


def _tree(table: Table) -> Iterator[tuple[Row, str]]:
    """Rows in order of the tree, each with its indent."""

    def below(parent: int | None, prefix: str) -> Iterator[tuple[Row, str]]:
        rows = [row for row in table.rows if row.parent == parent]
        for index, row in enumerate(rows):
            last = index == len(rows) - 1
            branch = "" if parent is None else prefix + ("└ " if last else "├ ")
            yield row, branch
            yield from below(row.region_id, "" if parent is None else prefix + ("  " if last else "│ "))

    return below(None, "")


def _notes(row: Row, counted: Account) -> str:
    region = counted.capture.schema.regions[row.region_id]
    notes = list(row.tags)
    if region.keeps == "last":
        notes.append("last trip only")
    if row.below_tick:
        notes.append(f"{row.below_tick} below the clock's step")
    if row.zero_length:
        notes.append(f"{row.zero_length} of zero length")
    if row.not_run and not region.elected:
        notes.append(f"{row.not_run} did not run")
    if row.outsiders:
        notes.append(f"{row.outsiders} outside its rule")
    if row.trips > row.active_workers:
        notes.append(f"{row.trips:,} trips")
    return ", ".join(notes)


def _head(table: Table) -> Iterator[Text]:
    outside = f", outside total {table.total_us:,.3f} µs" if table.total_us else ""
    span = tick_time(table.span_ticks, table.tick_source)
    yield Text(f"{table.schema}: {table.workers} {table.rows_are}, span {span}{outside}")
    placed = "" if table.placement == "recorded" else "; places in time are assumed from the order of the stages"
    yield Text(f"clock {table.tick_source}, step {table.tick_step_text}; coverage {table.coverage:.3f}{placed}")
