"""What a reader should hear beside a verdict, in the same words on the terminal and on the page.

The noise floor, an isolation weaker than usual, tails that say the opposite, a variant with nothing left to gain, how
much of the output the oracle saw. A run of an older version has fewer of these; each is then None or empty.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from whet import units
from whet.evidence import statistics
from whet.evidence.record import Gate, Run, Tails, Verdict, Warning
from whet.evidence.verdict import AGAINST
from whet.protocol import Array

# A median within this factor of the floor has nothing left to gain that the clock could show.
NEAR_FLOOR = 1.15
# Below this nobody waits.
SLOW_ORACLE_S = 2.0
NAMES = {"median": "median", "mean": "mean", "p90": "90th percentile", "p99": "99th percentile"}


def clock_of(run: Run) -> str:
    return run.verdicts[0].clock if run.verdicts else "wall"


def times_of(run: Run, arm: str) -> Array:
    """Nanoseconds per call of one arm, in the order in which it ran."""
    return statistics.call_times([sample for sample in run.samples if sample.variant == arm], clock_of(run))


def tails_of(run: Run, arm: str) -> Tails | None:
    """As recorded; from the samples where the record has none. None without samples."""
    if arm in run.tails:
        return run.tails[arm]
    values = times_of(run, arm)
    return statistics.tails(values) if len(values) else None


def rounds(run: Run) -> int:
    """Rounds of which at least one time was kept."""
    return len({sample.round for sample in run.samples})


def checked(gate: Gate) -> str:
    """`29 of 163 outputs`: those that the oracle judged, of all that were judged."""
    total = max(gate.full_checks, gate.digest_checks)
    return f"{gate.full_checks:,} of {units.count(total, 'output')}"


def opposite(verdict: Verdict) -> list[str]:
    """Those of its reasons that say the opposite: another statistic of the same trial disagrees."""
    return [reason for reason in verdict.reasons if reason.startswith(AGAINST)]


def control_in_words(run: Run) -> str:
    """What the baseline against itself came to in this very trial."""
    if run.control is None:
        return ""
    span = f"{units.ratio(run.control.ratio)} ({units.interval(run.control.low, run.control.high)})"
    return f"{run.baseline} against itself: {span}; a ratio inside that interval may be noise"


def weaker_isolation(run: Run) -> list[str]:
    """One line for each thing that should have kept the variants apart and did not."""
    if run.isolation is None:
        return []
    return [f"{what}: {why}" for what, why in run.isolation.missing.items()]


def warnings_by_kind(run: Run) -> list[list[Warning]]:
    """One group per kind and advice, so that five noisy variants are one warning with five lines."""
    groups: dict[tuple[str, str, str], list[Warning]] = {}
    for warning in run.warnings:
        groups.setdefault((warning.kind, warning.why, warning.advice), []).append(warning)
    return list(groups.values())


def slow_oracle(run: Run) -> str:
    """Said where much of the time was the oracle's; a trial lets it have half, what comes before the trial does not."""
    if run.oracle_s < max(SLOW_ORACLE_S, run.elapsed_s / 3):
        return ""
    return (
        f"took {units.duration(1e9 * run.oracle_s)} of the run's {units.duration(1e9 * run.elapsed_s)}; "
        "a faster one, or a smaller case, makes the run shorter"
    )


def percentile(run: Run, arm: str, which: str) -> str:
    """`p90` or `p99` of the turns; nothing where there are too few for one of them to lie beyond it."""
    tails = tails_of(run, arm)
    turns = sum(sample.variant == arm for sample in run.samples)
    if tails is None or turns < statistics.rounds_per_value(which):
        return units.NOTHING
    return units.duration(getattr(tails, which))


def at_floor(run: Run, arm: str) -> str:
    """Said of a variant that is as fast as anything can be here."""
    tails = tails_of(run, arm)
    if run.floor is None or tails is None:
        return ""
    floor_ns, what = max((run.floor.empty_ns, "an empty call"), (run.floor.read_ns, "reading the inputs once"))
    if floor_ns <= 0 or tails.median > NEAR_FLOOR * floor_ns:
        return ""
    return f"at the floor: nothing left to gain ({what} takes {units.duration(floor_ns)})"


def error_share(run: Run, arm: str) -> str:
    """The largest error that the oracle saw, as a share of what is allowed; empty where none was recorded."""
    share = run.errors.get(arm)
    if share is None:
        return ""
    return "none" if share == 0 else units.percent(share)


def tolerance_in_words(run: Run) -> str:
    return "" if run.tolerance is None else run.tolerance.in_words()


def cores_in_words(cores: Sequence[int]) -> str:
    numbers = sorted(set(cores))
    if not numbers:
        return "cores chosen by the system"
    return f"core{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


def never_examined(run: Run) -> str:
    """How to find out whether the task tells right from wrong; by the name under which it can be loaded again."""
    return f"never examined: whet check {shlex.quote(run.engine_ref)} --task tries answers that cost nothing"
