"""The columns and the arithmetic of the published 11-region table, kept to the byte. No precondition is asked here.

It differs from `reduce` on purpose: lengths of zero are dropped from the statistics, so "below the clock's step" and
"did not run" look alike, and a slot that was overwritten in a loop counts as if it held the whole loop.
"""

from __future__ import annotations

import io

import msgspec
import numpy as np

from whet.errors import BadInput
from whet.regions.capture import Capture
from whet.regions.schema import Schema
from whet.regions.verdict import Bracket, Thresholds

COLUMNS = (
    "region_id,region,n_active_ctas,cta_class,tick_source,mean_ticks,median_ticks,p99_ticks,raw_total_ticks,"
    "median_us,frac_of_kernel"
)
CALIBRATED = "globaltimer"


class LegacyRow(msgspec.Struct, frozen=True):
    region_id: int
    region: str
    n_active_ctas: int
    cta_class: str
    tick_source: str
    mean_ticks: float
    median_ticks: float
    p99_ticks: float
    raw_total_ticks: int
    median_us: float | None
    frac_of_kernel: float | None


def reduce_legacy(capture: Capture, total_us: float | None) -> list[LegacyRow]:
    """Per region over the workers of its rule with a positive length; fractions are medians over an outside total."""
    source = capture.about.tick_source
    if source not in (CALIBRATED, "clock64"):
        raise BadInput(f"the legacy table has no tick source {source!r}", cure="use globaltimer or clock64")
    masks = capture.schema.masks(capture.grid)
    calibrated = source == CALIBRATED and total_us is not None and total_us > 0
    rows = []
    for region in capture.schema.regions:
        lengths = capture.cells["ticks"][masks[:, region.id], region.id]
        lengths = lengths[lengths > 0]
        mean = median = p99 = 0.0
        if lengths.size:
            mean, median, p99 = float(lengths.mean()), float(np.median(lengths)), float(np.percentile(lengths, 99))
        share = calibrated and region.role != "wait" and not region.elected
        rows.append(
            LegacyRow(
                region.id,
                region.name,
                int(lengths.size),
                region.group,
                source,
                mean,
                median,
                p99,
                sum(lengths.tolist()),
                median / 1000 if calibrated else None,
                median / (total_us * 1000) if share and total_us is not None else None,
            )
        )
    return rows


def legacy_csv(rows: list[LegacyRow]) -> str:
    out = io.StringIO()
    out.write(COLUMNS + "\n")
    for row in rows:
        values = msgspec.structs.astuple(row)
        out.write(",".join("" if v is None else repr(v) if isinstance(v, float) else str(v) for v in values) + "\n")
    return out.getvalue()


class LegacyVerdict(msgspec.Struct, frozen=True, kw_only=True):
    bracket: Bracket
    fraction: float
    dominant: str


def legacy_verdict(
    rows: list[LegacyRow], schema: Schema, *, tag: str = "k_reducible", thresholds: Thresholds | None = None
) -> LegacyVerdict:
    """Sums the fractions of the tagged regions. Without calibrated fractions there is none: ticks are no substitute."""
    tagged = [rows[region.id] for region in schema.tagged(tag)]
    absent = [row.region for row in tagged if row.n_active_ctas == 0]
    if absent:
        raise BadInput(f"no data for {', '.join(absent)}: that is no zero", cure="capture a launch that runs it")
    fractions = [row.frac_of_kernel for row in tagged if row.frac_of_kernel is not None]
    if len(fractions) != len(tagged):
        raise BadInput(
            "the legacy verdict needs a fraction of every tagged region",
            cure="give --tick-source globaltimer and --total-us; shares of another denominator cannot stand in",
        )
    dominant = max(tagged, key=lambda row: row.median_ticks)
    total = float(sum(fractions))
    limits = thresholds or Thresholds()
    return LegacyVerdict(
        bracket=limits.bracket(total), fraction=total, dominant=schema.regions[dominant.region_id].title
    )
