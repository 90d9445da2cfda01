"""The table: per region who ran it, how long it took and what part of the launch that is."""

from __future__ import annotations

import csv
import io
import math
from enum import IntEnum

import msgspec
import numpy as np
import numpy.typing as npt

from whet.errors import BadInput
from whet.regions.accounting import Account, account
from whet.regions.capture import Capture
from whet.regions.schema import Region
from whet.regions.ticks import TickStep, detect_step, tick_source


class State(IntEnum):
    """What a cell says. Three kinds of nothing, and a measurement."""

    NOT_RUN = 0
    ZERO_LENGTH = 1
    BELOW_TICK = 2
    MEASURED = 3


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One region. Statistics are over the workers that ran it and that its rule includes.

    declared    workers that the rule includes        outsiders  workers that ran it against the rule
    zero_length ran with no trip at all               below_tick ran in less than one step of the clock per trip
    """

    region_id: int
    region: str
    role: str
    group: str
    parent: int | None
    tags: tuple[str, ...]
    declared: int
    active_workers: int
    not_run: int
    zero_length: int
    below_tick: int
    outsiders: int
    trips: int
    mean_ticks: float | None
    median_ticks: float | None
    p99_ticks: float | None
    total_ticks: int
    median_us: float | None
    fraction: float | None


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """Rows in region order, with what is needed to believe them."""

    schema: str
    workers: int
    rows_are: str
    placement: str
    tick_source: str
    tick_step: int
    tick_step_detected: int | None
    tick_step_text: str
    span_ticks: int
    span_us: float | None
    total_us: float | None
    coverage: float
    rows: tuple[Row, ...]

    def row(self, region: int) -> Row:
        return self.rows[region]


def tick_step(capture: Capture) -> TickStep:
    """The step of the capture's clock, from every tick it holds."""
    placed = capture.placed
    ticks = np.concatenate([capture.cells["entry"][placed], capture.cells["exit"][placed]])
    return detect_step(ticks, capture.about.tick_step)


def states(capture: Capture, step: int) -> npt.NDArray[np.int64]:
    """(workers, regions) of `State`."""
    cells = capture.cells
    found = np.full(cells.shape, int(State.MEASURED), dtype=np.int64)
    found[cells["ticks"] < cells["count"].astype(np.float64) * step] = State.BELOW_TICK
    found[cells["count"] == 0] = State.ZERO_LENGTH
    found[cells["written"] == 0] = State.NOT_RUN
    return found


def reduce(capture: Capture, *, total_us: float | None = None, counted: Account | None = None) -> Table:
    """Makes the table. `total_us` is the length of the launch by a clock outside; the capture's own is the default."""
    counted = counted or account(capture)
    step = tick_step(capture)
    if total_us is not None and not 0 < total_us < math.inf:
        raise BadInput(f"a total of {total_us} us makes no sense", cure="give the length of the launch, or nothing")
    if total_us is None and capture.about.total_ns is not None:
        total_us = capture.about.total_ns / 1000
    ns_per_tick = tick_source(capture.about.tick_source).ns_per_tick
    span = counted.span if counted.rows else 0
    masks = capture.schema.masks(capture.grid)
    kinds = states(capture, step.step)
    return Table(
        schema=capture.schema.name,
        workers=capture.workers,
        rows_are=capture.about.rows,
        placement=capture.about.placement,
        tick_source=capture.about.tick_source,
        tick_step=step.step,
        tick_step_detected=step.detected,
        tick_step_text=str(step),
        span_ticks=span,
        span_us=span * ns_per_tick / 1000 if ns_per_tick else None,
        total_us=total_us,
        coverage=counted.coverage if counted.rows else 0.0,
        rows=tuple(_row(capture, region, masks, kinds, total_us) for region in capture.schema.regions),
    )


def _row(
    capture: Capture,
    region: Region,
    masks: npt.NDArray[np.bool_],
    kinds: npt.NDArray[np.int64],
    total_us: float | None,
) -> Row:
    mask, kinds, cells = masks[:, region.id], kinds[:, region.id], capture.cells[:, region.id]
    ns_per_tick = tick_source(capture.about.tick_source).ns_per_tick
    ran = mask & (kinds != State.NOT_RUN)
    ticks = cells["ticks"][ran]
    mean = median = p99 = median_us = fraction = None
    if ticks.size:
        mean, median, p99 = float(ticks.mean()), float(np.median(ticks)), float(np.percentile(ticks, 99))
        median_us = median * ns_per_tick / 1000 if ns_per_tick else None
    if total_us and median_us is not None and region.role != "wait":
        fraction = median_us / total_us
    return Row(
        region_id=region.id,
        region=region.name,
        role=region.role,
        group=region.group,
        parent=region.parent,
        tags=region.tags,
        declared=int(mask.sum()),
        active_workers=int(ran.sum()),
        not_run=int((mask & (kinds == State.NOT_RUN)).sum()),
        zero_length=int((mask & (kinds == State.ZERO_LENGTH)).sum()),
        below_tick=int((mask & (kinds == State.BELOW_TICK)).sum()),
        outsiders=int((~mask & (kinds != State.NOT_RUN)).sum()),
        trips=sum(cells["count"][ran].tolist()),
        mean_ticks=mean,
        median_ticks=median,
        p99_ticks=p99,
        total_ticks=sum(ticks.tolist()),
        median_us=median_us,
        fraction=fraction,
    )


def to_csv(table: Table) -> str:
    """The table as CSV: shortest floats that read back equal; nothing where there is no number."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    names = [name for name in Row.__struct_fields__ if name != "tags"]
    writer.writerow([*names, "tags", "tick_source"])
    for row in table.rows:
        writer.writerow([*(_cell(getattr(row, n)) for n in names), " ".join(row.tags), table.tick_source])
    return out.getvalue()


def _cell(value: object) -> object:
    if value is None:
        return ""
    return repr(value) if isinstance(value, float) else value
