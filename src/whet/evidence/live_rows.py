"""What a device elsewhere shows of a trial while it goes on: medians and ratio intervals so far, a row per variant.

Nothing is decided here: the verdict comes once, at the end, from all samples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np

from whet.evidence.readings import Reading, Red
from whet.evidence.record import Outcome, Run
from whet.evidence.statistics import Times, interval


class LiveRows:
    """`names` in the order of the plan; the first one is what the others are shown against."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = list(names)
        self._taken: dict[str, list[tuple[float, int, int]]] = {}
        self._reds: dict[str, str] = {}
        self._block = 0

    def begin_block(self) -> None:
        self._block += 1

    def note(self, label: Sequence[str | int], found: Mapping[str, Reading | Red]) -> None:
        """A round and what came of it; only rounds of the trial have times."""
        for name, result in found.items():
            if isinstance(result, Red):
                self._reds[name] = f"{result.reason}: {result.detail}"
            elif label[0] == "round":
                taken = self._taken.setdefault(name, [])
                taken.append((result.wall_ns / result.calls, int(label[1]), self._block))

    def rows(self) -> list[dict[str, Any]]:
        return [self._row(name) for name in self._names]

    def _row(self, name: str) -> dict[str, Any]:
        if name in self._reds:
            return {"variant": name, "gate": "red", "why": self._reds[name], "verdict": Outcome.REFUSED.value}
        row: dict[str, Any] = {"variant": name, "gate": "green", "time_ns": None}
        base, own = self._taken.get(self._names[0], []), self._taken.get(name, [])
        if own:
            row["time_ns"] = median(ns for ns, _, _ in own)
        if own and base and name != self._names[0] and self._names[0] not in self._reds:
            row["ratio"] = row["time_ns"] / median(ns for ns, _, _ in base)
            if known := interval(_times(own), _times(base)):
                row |= {"ratio": known.ratio, "low": known.low, "high": known.high}
        return row


def _times(taken: Sequence[tuple[float, int, int]]) -> Times:
    ns, rounds, blocks = zip(*taken, strict=True)
    return Times(np.asarray(ns), np.asarray(rounds, dtype=np.int64), np.asarray(blocks, dtype=np.int64))


def last_rows(run: Run) -> list[dict[str, Any]]:
    """What a stored run has to say, for the same table."""
    verdicts = {one.candidate: one for one in run.verdicts}
    rows: list[dict[str, Any]] = []
    for gate in run.gates:
        said = verdicts.get(gate.variant)
        row: dict[str, Any] = {"variant": gate.variant, "gate": "green" if gate.green else "red"}
        row["verdict"] = said.outcome.value if said else "baseline"
        if gate.failure is not None:
            row["why"] = f"{gate.failure.reason}: {gate.failure.detail}"
        elif gate.variant in run.tails:
            row["time_ns"] = run.tails[gate.variant].median
        if said is not None and gate.green:
            row |= {"ratio": said.ratio, "low": said.low, "high": said.high}
        rows.append(row)
    return rows
