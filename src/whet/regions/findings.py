"""What a reader should take from a capture, in sentences: holes, and who waited for whom."""

from __future__ import annotations

from dataclasses import dataclass

from whet.errors import WhetError
from whet.regions.accounting import Account
from whet.regions.checks import describe_hole
from whet.regions.critical import critical_path
from whet.regions.prediction import explain_waits
from whet.regions.ticks import tick_time
from whet.regions.trips import find_loop, say_loop

WORTH_SAYING = 0.01  # of all worker time
MOST_HOLES = 3


@dataclass(frozen=True)
class Finding:
    text: str
    bad: bool


def findings(counted: Account) -> list[Finding]:
    """The costliest holes first, then every wait with its last arriver."""
    about = counted.capture.about
    all_time = sum(row.span for row in counted.rows)
    holes = [hole for hole in counted.widest_holes() if hole.total > WORTH_SAYING * all_time]
    found = []
    if not about.complete:
        found.append(
            Finding("written while the launch went on: regions that were not left yet are not in it", bad=False)
        )
    found += [Finding(f"hole: {describe_hole(counted, hole)}", bad=True) for hole in holes[:MOST_HOLES]]
    if not counted.rows or about.rows == "repeats":
        return found
    try:
        path = critical_path(counted)
    except WhetError as problem:
        return [*found, Finding(f"no critical path: {problem.cause}", bad=True)]
    for wait in explain_waits(counted):
        longest = sorted(wait.cause_regions.items(), key=lambda item: -item[1])[:2]
        spent = ", ".join(f"{name} {tick_time(ticks, about.tick_source)}" for name, ticks in longest)
        length = tick_time(wait.median_ticks, about.tick_source)
        whom = f"waiting for worker {wait.cause_worker}" + (f" ({spent})" if spent else "")
        often = f" × {wait.passes:,} passes" if wait.passes > 1 else ""
        found.append(Finding(f"{wait.wait}: {wait.workers} workers{often}, median {length}, {whom}", bad=False))
    loop = find_loop(counted, path)
    if loop is not None:
        found.append(Finding(say_loop(loop, about.tick_source), bad=False))
    return found
