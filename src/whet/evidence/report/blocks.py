"""One dot per block: what each set of fresh processes said by itself, and on which cores."""

from __future__ import annotations

import math
from dataclasses import dataclass

from whet.evidence import statistics
from whet.evidence.record import Run
from whet.evidence.remarks import clock_of, cores_in_words


@dataclass(frozen=True)
class BlockRatio:
    """Median over the rounds of one block. `kind` numbers the sets of cores in the order in which they came."""

    number: int
    ratio: float
    rounds: int
    cores: str
    kind: int


def block_ratios(run: Run, candidate: str) -> list[BlockRatio]:
    """None for a run without blocks: its samples share one set of processes."""
    if run.design is None or len(run.design.blocks) < 2:
        return []
    mine, its = (_times(run, arm) for arm in (candidate, run.baseline))
    kinds: dict[tuple[int, ...], int] = {}
    found = []
    for block in run.design.blocks:
        top, bottom, inside = statistics.paired(_of_block(mine, block.number), _of_block(its, block.number))
        kind = kinds.setdefault(tuple(sorted(block.cores)), len(kinds))
        if len(inside):
            (value,) = statistics.block_values(top, bottom, inside, "median")
            found.append(BlockRatio(block.number, math.exp(value), len(inside), cores_in_words(block.cores), kind))
    return found


def _times(run: Run, arm: str) -> statistics.Times:
    return statistics.times([sample for sample in run.samples if sample.variant == arm], clock_of(run))


def _of_block(times: statistics.Times, number: int) -> statistics.Times:
    inside = times.blocks == number
    return statistics.Times(times.ns[inside], times.rounds[inside], times.blocks[inside])


def core_sets(run: Run) -> list[str]:
    """The different sets of cores, in the order in which they came."""
    if run.design is None:
        return []
    return list(dict.fromkeys(cores_in_words(sorted(block.cores)) for block in run.design.blocks))
