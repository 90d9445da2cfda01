"""How long a trial may take and how sure it has to be: the three named budgets, and those of the command line."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from whet.errors import BadInput
from whet.evidence.statistics import CONFIDENCE, LEAST_BLOCKS

MOST_ROUNDS = 10_000
MOST_BLOCKS = 10_000
MOST_SECONDS = 7 * 24 * 3600.0
LEAST_CONFIDENCE, MOST_CONFIDENCE = 0.5, 0.99999


@dataclass(frozen=True)
class Budget:
    """`blocks` at least and `most_blocks` at most; `rounds` per block, the warm-up not counted.

    `half_width` is for a variant alone, which has no ratio to decide: how well its median must be known. Where a block
    of so many rounds would not fit into the time, a trial takes fewer, unless `keep_rounds`.
    """

    name: str
    seconds: float
    blocks: int
    most_blocks: int
    rounds: int
    half_width: float
    gate_seconds: float
    confidence: float = CONFIDENCE
    keep_rounds: bool = False


BUDGETS = {
    "quick": Budget("quick", 10, 5, 24, 14, 0.25, 3),
    "default": Budget("default", 60, 8, 120, 16, 0.05, 20),
    "rigorous": Budget("rigorous", 300, 20, 600, 20, 0.01, 60),
}


def custom(
    budget: Budget,
    *,
    rounds: int | None = None,
    seconds: float | None = None,
    blocks: int | None = None,
    confidence: float | None = None,
) -> Budget:
    """`budget` as the command line asks for it. So many `blocks` then, neither more nor fewer, unless time is up."""
    changed = budget
    if rounds is not None:
        _within("--rounds", rounds, 1, MOST_ROUNDS)
        changed = replace(changed, rounds=rounds, keep_rounds=True)
    if seconds is not None:
        _within("--seconds", seconds, 0.1, MOST_SECONDS)
        changed = replace(changed, seconds=float(seconds))
    if blocks is not None:
        _within("--blocks", blocks, LEAST_BLOCKS, MOST_BLOCKS)
        changed = replace(changed, blocks=blocks, most_blocks=blocks)
    if confidence is not None:
        _within("--confidence", confidence, LEAST_CONFIDENCE, MOST_CONFIDENCE)
        changed = replace(changed, confidence=float(confidence))
    return changed if changed == budget else replace(changed, name=f"custom ({budget.name})")


def _within(option: str, value: float, least: float, most: float) -> None:
    if not (math.isfinite(value) and least <= value <= most):
        raise BadInput(f"{option} {value:g} makes no trial", cure=f"give a value from {least:g} to {most:g}")
