"""What the verdict can see: false verdicts in self-comparisons and the smallest slowdown found, on scripted noise.

No clock is involved, so the table is the same on every machine.
"""

from __future__ import annotations

import sys
from pathlib import Path

from whet.evidence.record import Outcome
from whet.evidence.trial import BUDGETS, Trial
from whet.evidence.verdict import outcome

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "evidence"))
from scripted_clock import MODELS, Scripted

EFFECT = 0.02
SLOWDOWNS = (0.03, 0.04, 0.05, 0.06, 0.08, 0.10, 0.15, 0.20, 0.30, 0.50)
SELF_COMPARISONS = 40
TRIALS = 20
FOUND = 0.95


def decide(model: str, factor: float, seed: int) -> Outcome:
    source = Scripted({"plain": 1.0, "other": factor}, MODELS[model], seed)
    result = Trial(source, ["plain", "other"], "plain", {"plain": 1, "other": 1}, BUDGETS["quick"], seed).run()
    return outcome(result.intervals["other"], EFFECT)


def smallest_found(model: str) -> str:
    for slowdown in SLOWDOWNS:
        hits = sum(decide(model, 1 + slowdown, 1000 + seed) is Outcome.SLOWER for seed in range(TRIALS))
        if hits >= FOUND * TRIALS:
            return f"{slowdown:.0%}"
    return f"> {SLOWDOWNS[-1]:.0%}"


def main() -> None:
    print(f"{'noise':<14}{'false verdicts':>16}{'SAME':>8}{'UNDECIDED':>12}{f'found in {FOUND:.0%}':>16}")
    for model in MODELS:
        said = [decide(model, 1.0, seed) for seed in range(SELF_COMPARISONS)]
        wrong = sum(one in (Outcome.FASTER, Outcome.SLOWER) for one in said)
        same, undecided = said.count(Outcome.SAME), said.count(Outcome.UNDECIDED)
        found = smallest_found(model)
        print(f"{model:<14}{f'{wrong}/{SELF_COMPARISONS}':>16}{same:>8}{undecided:>12}{found:>16}", flush=True)


if __name__ == "__main__":
    main()
