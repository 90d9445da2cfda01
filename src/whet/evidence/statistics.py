"""Everything statistical about a trial and between runs. Nothing here knows a process, a clock or a word of a verdict.

A trial has blocks of fresh processes. One block gives one value per candidate: the statistic, over its rounds, of
log(candidate / baseline). What a process keeps for its life (layout, pages, core, the mode it fell into) is the same in
all rounds of a block and new in the next, so rounds of one block are no independent evidence and blocks are. The
interval is Student's t over block values, on the scale of logarithms.

The stopping rule looks at planned numbers of blocks. Every look spends a share of the error that the confidence allows,
and so does every candidate: by the union bound all intervals of all looks cover together, whichever look is the last.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from whet.evidence.record import Outcome, Sample, Tails
from whet.evidence.student import t_quantile
from whet.protocol import Array

Judge = Literal["median", "mean", "p90", "p99"]
JUDGES: tuple[Judge, ...] = get_args(Judge)
QUANTILES: dict[Judge, float] = {"p90": 0.9, "p99": 0.99}

CONFIDENCE = 0.99
EFFECT = 0.02
# With fewer, processes of two modes all fall into the same one too often: 3 % of triples, 0.2 % of fives.
LEAST_BLOCKS = 5
# A block that was cut short counts from this share of the rounds of a whole one.
WHOLE_BLOCK = 0.5
LOOK_GROWTH = 1.5
# Shares of the allowed error: for the first look, for all others before the end, and the rest for the last.
FIRST_LOOK = 0.1
LATER_LOOKS = 0.3
# A point estimate this many standard errors beyond the effect is worth a word beside the verdict.
WORTH_A_WORD = 2.0
# What runs of one thing differ by where nobody has repeated them: one standard deviation. The second is for runs
# beside other programs, which come and go between runs, and for runs without blocks, whose processes kept for life the
# core that the scheduler gave them.
BETWEEN_RUNS = 0.05
BETWEEN_DISTURBED_RUNS = 0.2
# Repeated runs tell the spread from this many degrees of freedom on; below, their t is wider than the assumption.
LEAST_REPEATS = 5


@dataclass(frozen=True)
class Times:
    """Nanoseconds per call of one arm, one entry per round, in the order of rounds."""

    ns: Array
    rounds: Array
    blocks: Array


@dataclass(frozen=True)
class Interval:
    """Candidate time / baseline time. `error` is the standard error of the logarithm."""

    ratio: float
    low: float
    high: float
    blocks: int
    rounds: int
    confidence: float = CONFIDENCE
    error: float = 0.0

    @property
    def half_width(self) -> float:
        """On the scale of logarithms, on which the interval is symmetric: 0.02 is about 2 %."""
        return math.log(self.high / self.low) / 2

    @property
    def distance(self) -> float:
        """How far from 1, either way: 0.02 for a ratio of 1.02 and of 1 / 1.02."""
        return max(self.ratio, 1 / self.ratio) - 1


def times(samples: Sequence[Sample], clock: str = "wall") -> Times:
    return Times(
        call_times(samples, clock),
        np.asarray([sample.round for sample in samples], dtype=np.int64),
        np.asarray([sample.block for sample in samples], dtype=np.int64),
    )


def call_times(samples: Sequence[Sample], clock: str = "wall") -> Array:
    """Nanoseconds per call, one entry per round."""
    total = [(s.device_ns if clock == "device" else s.wall_ns) or 0 for s in samples]
    found: Array = np.maximum(np.asarray(total, dtype=np.float64), 1.0) / np.asarray([s.calls for s in samples])
    return found


def median(values: Array | Sequence[float]) -> float:
    return float(np.median(np.asarray(values, dtype=np.float64)))


def spread(values: Array) -> float:
    """The width of the middle half over the median."""
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    return float((high - low) / middle) if middle > 0 else 0.0


def tails(values: Array) -> Tails:
    p90, p99 = np.quantile(values, [0.9, 0.99])
    return Tails(
        median=median(values), mean=float(np.mean(values)), p90=float(p90), p99=float(p99), spread=spread(values)
    )


def interval(
    candidate: Times,
    baseline: Times,
    *,
    judge: Judge = "median",
    confidence: float = CONFIDENCE,
    share: float = 1.0,
    comparisons: int = 1,
    least_error: float = 0.0,
) -> Interval | None:
    """None where there are too few blocks. `share` is this look's part of the allowed error.

    `least_error` is the standard error of the control: a handful of candidate's processes that happen to be in one mode
    must not look more certain than the baseline against itself.
    """
    top, bottom, blocks = paired(candidate, baseline)
    values = block_values(top, bottom, blocks, judge)
    if len(values) < LEAST_BLOCKS:
        return None
    allowed = (1 - confidence) * share / max(1, comparisons)
    centre, error = float(np.mean(values)), float(np.std(values, ddof=1)) / math.sqrt(len(values))
    error = max(error, least_error)
    reach = t_quantile(1 - allowed / 2, len(values) - 1) * error
    return Interval(
        math.exp(centre),
        math.exp(centre - reach),
        math.exp(centre + reach),
        len(np.unique(blocks)),
        len(blocks),
        confidence,
        error,
    )


def own_half_width(one: Times, *, confidence: float = CONFIDENCE, share: float = 1.0) -> float | None:
    """How well the median of one arm is known, relative to it; None where there are too few blocks."""
    ones = Times(np.ones_like(one.ns), one.rounds, one.blocks)
    found = interval(one, ones, confidence=confidence, share=share)
    return None if found is None else found.half_width


def paired(candidate: Times, baseline: Times) -> tuple[Array, Array, Array]:
    """Both times of every round in which both ran, and its block. Blocks that were cut short are left out."""
    _, mine, its = np.intersect1d(candidate.rounds, baseline.rounds, assume_unique=True, return_indices=True)
    top, bottom, blocks = candidate.ns[mine], baseline.ns[its], candidate.blocks[mine]
    if len(blocks):
        _, place, counts = np.unique(blocks, return_inverse=True, return_counts=True)
        whole = (counts >= WHOLE_BLOCK * counts.max())[place]
        top, bottom, blocks = top[whole], bottom[whole], blocks[whole]
    return top, bottom, blocks


def block_values(top: Array, bottom: Array, blocks: Array, judge: Judge) -> Array:
    """One independent value per block; for a far quantile one per group of neighbouring blocks, see `group`."""
    if not len(blocks):
        return np.empty(0)
    starts = np.flatnonzero(np.diff(blocks, prepend=blocks[0] - 1))
    rounds = len(blocks) / len(starts)
    step = group(judge, rounds)
    # A last group that is not full joins the one before it.
    edges = [*starts[::step][: max(1, len(starts) // step)], len(blocks)]
    if len(set(np.diff(edges))) == 1:
        return _values(top.reshape(len(edges) - 1, -1), bottom.reshape(len(edges) - 1, -1), judge)
    spans = [slice(begin, end) for begin, end in itertools.pairwise(edges)]
    return np.asarray([float(_values(top[span], bottom[span], judge)) for span in spans])


def group(judge: Judge, rounds: float) -> int:
    """Blocks that have to be pooled before the quantile is no longer merely the largest of them: 100 rounds for p99."""
    return max(1, math.ceil(rounds_per_value(judge) / rounds))


def rounds_per_value(judge: str) -> int:
    """Rounds that one value takes: as many as have one of them beyond the quantile."""
    return next((round(1 / (1 - quantile)) for name, quantile in QUANTILES.items() if name == judge), 1)


def _values(top: Array, bottom: Array, judge: Judge) -> Array:
    """Along the last axis."""
    found: Array
    if judge == "median":
        found = np.median(np.log(top / bottom), axis=-1)
    elif judge == "mean":
        found = np.log(np.mean(top, axis=-1) / np.mean(bottom, axis=-1))
    else:
        quantile = QUANTILES[judge]
        found = np.log(np.quantile(top, quantile, axis=-1) / np.quantile(bottom, quantile, axis=-1))
    return found


def ratios(candidate: Times, baseline: Times) -> dict[str, float]:
    """The ratio by every statistic that so many rounds can tell, as point estimates."""
    top, bottom, blocks = paired(candidate, baseline)
    found: dict[str, float] = {}
    for judge in JUDGES:
        values = block_values(top, bottom, blocks, judge)
        if len(values) and len(blocks) >= rounds_per_value(judge):
            found[judge] = math.exp(float(np.mean(values)))
    return found


def outcome(found: Interval | None, effect: float, floor: float = 0.0) -> Outcome:
    """The whole interval must lie on one side of a threshold. `floor` is what the control arm leaves in doubt."""
    if found is None:
        return Outcome.UNDECIDED
    limit = max(effect, floor)
    if found.high < 1 - limit:
        return Outcome.FASTER
    if found.low > 1 + limit:
        return Outcome.SLOWER
    if found.low >= 1 - effect and found.high <= 1 + effect and floor <= effect:
        return Outcome.SAME
    return Outcome.UNDECIDED


def control_floor(control: Interval | None, effect: float) -> float:
    """A control that is not SAME allows no verdict below its distance from 1."""
    if control is None or outcome(control, effect) is Outcome.SAME:
        return 0.0
    return control.distance


def contradicts(said: Outcome, other: Interval | None, effect: float) -> bool:
    """Another statistic of the same trial lies beyond the effect on a side that `said` is not."""
    if other is None or said not in (Outcome.FASTER, Outcome.SLOWER, Outcome.SAME):
        return False
    far = WORTH_A_WORD * other.error
    slower = said is not Outcome.SLOWER and other.ratio * math.exp(-far) > 1 + effect
    faster = said is not Outcome.FASTER and other.ratio * math.exp(far) < 1 - effect
    return slower or faster


def blocks_needed(found: Interval, effect: float, floor: float = 0.0) -> int | None:
    """Blocks at which the interval would clear a threshold if it shrinks with the root of their number."""
    limit = max(effect, floor)
    # Where the control is off by a factor of two or more, no ratio below 1 clears it.
    edges = [math.log(1 + limit), *([math.log(1 - limit)] if limit < 1 else [])]
    distance = min(abs(math.log(found.ratio) - edge) for edge in edges)
    if distance < effect / 20:
        return None
    return math.ceil(found.blocks * (found.half_width / distance) ** 2)


@dataclass(frozen=True)
class Looks:
    """At which numbers of blocks a trial looks whether it may stop before its end."""

    least: int
    most: int

    @property
    def planned(self) -> tuple[int, ...]:
        found, blocks = [], max(self.least, LEAST_BLOCKS)
        while blocks < self.most:
            found.append(blocks)
            blocks = max(blocks + 2, int(blocks * LOOK_GROWTH))
        return tuple(found)

    def share(self, blocks: int) -> float:
        """What a look after so many blocks may spend; 0: none is planned there."""
        planned = self.planned
        if blocks not in planned:
            return 0.0
        return FIRST_LOOK if blocks == planned[0] else LATER_LOOKS / (len(planned) - 1)


@dataclass(frozen=True)
class RunValue:
    """The logarithm of a variant's time in one run, with its standard error from `blocks`; one block has no error."""

    log_ns: float
    error: float
    blocks: int


@dataclass(frozen=True)
class RunSpread:
    """One standard deviation between runs of the same thing, on the scale of logarithms; 0 degrees: assumed."""

    sd: float
    degrees: int = 0


def run_value(one: Times) -> RunValue | None:
    """None without samples."""
    if not len(one.ns):
        return None
    top, _, blocks = paired(one, one)
    values = block_values(top, np.ones_like(top), blocks, "median")
    if len(values) < LEAST_BLOCKS:
        return RunValue(math.log(median(one.ns)), 0.0, 1)
    return RunValue(float(np.mean(values)), float(np.std(values, ddof=1)) / math.sqrt(len(values)), len(values))


def run_spread(groups: Sequence[Sequence[float]], assumed: float = BETWEEN_RUNS) -> RunSpread:
    """Each group holds the logarithms of runs of one thing. Too few of them can only raise what is assumed."""
    degrees = sum(len(group) - 1 for group in groups if len(group) > 1)
    if not degrees:
        return RunSpread(assumed)
    squares = sum(float(np.sum((np.asarray(group) - np.mean(group)) ** 2)) for group in groups if len(group) > 1)
    sd = math.sqrt(squares / degrees)
    return RunSpread(sd, degrees) if degrees >= LEAST_REPEATS else RunSpread(max(sd, assumed))


def between_runs(
    before: RunValue, after: RunValue, spread: RunSpread, *, confidence: float = CONFIDENCE, comparisons: int = 1
) -> Interval:
    """After / before, with the spread between runs and the error inside both; degrees by Welch and Satterthwaite."""
    parts = [(2 * spread.sd**2, spread.degrees), *((one.error**2, one.blocks - 1) for one in (before, after))]
    variance = sum(part for part, _ in parts)
    doubt = sum(part**2 / degrees for part, degrees in parts if degrees)
    degrees = int(min(max(variance**2 / doubt, 1), 10**6)) if doubt else 10**6
    reach = t_quantile(1 - (1 - confidence) / comparisons / 2, degrees) * math.sqrt(variance)
    centre = after.log_ns - before.log_ns
    blocks = min(before.blocks, after.blocks)
    bounds = (math.exp(centre), math.exp(centre - reach), math.exp(centre + reach))
    return Interval(*bounds, blocks, blocks, confidence, math.sqrt(variance))
