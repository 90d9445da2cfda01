"""Region tables: where the time goes, and whether the table can be believed."""

from __future__ import annotations

from whet.regions.accounting import Account, account
from whet.regions.capture import Capture, load, save
from whet.regions.checks import Limits
from whet.regions.header import include_dir
from whet.regions.on_request import on_request
from whet.regions.prediction import check_prediction, predict
from whet.regions.recorder import record, recording
from whet.regions.reducer import State, Table, reduce
from whet.regions.schema import Region, Schema, load_schema
from whet.regions.sources import Event, from_counters, from_events, from_phases, from_stages, from_tasks
from whet.regions.tax import Tax, measure_tax, recorder_tax
from whet.regions.trips import Loop, Trip, find_loop
from whet.regions.verdict import Bracket, RegionVerdict, Thresholds, judge

__all__ = [
    "Account",
    "Bracket",
    "Capture",
    "Event",
    "Limits",
    "Loop",
    "Region",
    "RegionVerdict",
    "Schema",
    "State",
    "Table",
    "Tax",
    "Thresholds",
    "Trip",
    "account",
    "check_prediction",
    "find_loop",
    "from_counters",
    "from_events",
    "from_phases",
    "from_stages",
    "from_tasks",
    "include_dir",
    "judge",
    "load",
    "load_schema",
    "measure_tax",
    "on_request",
    "predict",
    "record",
    "recorder_tax",
    "recording",
    "reduce",
    "save",
    "timeline_fragment",
]


def timeline_fragment(capture: Capture) -> str:
    """A self-contained HTML fragment of the capture, for a report."""
    from whet.regions.timeline import fragment

    counted = account(capture)
    return fragment(counted, reduce(capture, counted=counted))
