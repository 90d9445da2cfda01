"""One dot per block: what each set of fresh processes said by itself, and on which cores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whet.evidence.record import Run
from whet.evidence.remarks import clock_of, cores_in_words
from whet.evidence.trial import call_times


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
    times = {arm: _times(run, arm) for arm in (candidate, run.baseline)}
    kinds: dict[tuple[int, ...], int] = {}
    found = []
    for block in run.design.blocks:
        shared = [key for key in times[candidate] if key[0] == block.number and key in times[run.baseline]]
        kind = kinds.setdefault(tuple(sorted(block.cores)), len(kinds))
        if shared:
            ratio = float(np.median([times[candidate][key] / times[run.baseline][key] for key in shared]))
            found.append(BlockRatio(block.number, ratio, len(shared), cores_in_words(block.cores), kind))
    return found


def _times(run: Run, arm: str) -> dict[tuple[int, int], float]:
    """By block and round."""
    mine = [sample for sample in run.samples if sample.variant == arm]
    return dict(zip([(s.block, s.round) for s in mine], call_times(mine, clock_of(run)).tolist(), strict=True))


def core_sets(run: Run) -> list[str]:
    """The different sets of cores, in the order in which they came."""
    if run.design is None:
        return []
    return list(dict.fromkeys(cores_in_words(sorted(block.cores)) for block in run.design.blocks))
