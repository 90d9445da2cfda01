"""What stands beside a time where it is known: rates from the work that an engine states, and what a program took."""

from __future__ import annotations

from whet import units
from whet.evidence.record import Run
from whet.evidence.remarks import tails_of


def columns(run: Run) -> dict[str, dict[str, str]]:
    """By variant with a time: heading and value. All variants have the same headings, in the same order."""
    found = {gate.variant: _of(run, gate.variant) for gate in run.gates if gate.green}
    headings = dict.fromkeys(heading for some in found.values() for heading in some)
    some = {name: cells for name, cells in found.items() if cells}
    return {name: {one: cells.get(one, units.NOTHING) for one in headings} for name, cells in some.items()}


def _of(run: Run, name: str) -> dict[str, str]:
    tails = tails_of(run, name)
    if tails is None:
        return {}
    found: dict[str, str] = {}
    if run.work is not None:
        seconds = tails.median / 1e9
        if run.work.moved_bytes:
            found["moved"] = units.rate(run.work.moved_bytes / seconds, "B/s")
            if floor_ns := floor_of_work(run):
                found["of memory speed"] = units.percent(floor_ns / tails.median)
        if run.work.operations:
            unit = "FLOP/s" if run.work.operation == "FLOP" else f" {run.work.operation}/s"
            found["work"] = units.rate(run.work.operations / seconds, unit)
    if used := run.resources.get(name):
        found |= {"user": units.duration(used.user_ns), "system": units.duration(used.system_ns)}
        if used.peak_bytes:
            seen = used.peak_bytes > 1.02 * used.least_bytes
            found["peak memory"] = f"{'' if seen else 'below '}{units.size(used.peak_bytes)}"
    return found


def floor_of_work(run: Run) -> float | None:
    """Nanoseconds in which one core can move what a call has to move; None where that is not known."""
    if run.work is None or run.floor is None or not run.floor.bandwidth_bytes_per_s:
        return None
    return run.work.moved_bytes * 1e9 / run.floor.bandwidth_bytes_per_s or None
