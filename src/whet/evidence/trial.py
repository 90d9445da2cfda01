"""Interleaved timed repetitions of several variants on one case, until the answer is clear or time is up.

The trial sees neither processes nor clocks: a `Source` gives it rounds and `now_s` tells it the time, so that tests
run it on scripted noise.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from whet.evidence import seeds
from whet.evidence.claims import Reading, Red
from whet.evidence.record import Outcome, Sample
from whet.evidence.verdict import (
    EFFECT,
    LEAST_ROUNDS,
    RESAMPLES,
    RESAMPLES_IN_PASSING,
    Interval,
    interval,
    outcome,
)
from whet.protocol import Array

# The oracle may take this share of a trial before rounds are left to mutual agreement.
ORACLE_SHARE = 0.5
# Beyond that share it still looks at some rounds that nobody can foresee.
SURPRISE_CHECKS = 0.1
LOOK_GROWTH = 1.3
WARM_UP_ROUNDS = 2


@dataclass(frozen=True)
class Budget:
    """How long a trial may take and how sure it has to be. `half_width` is relative to the ratio."""

    name: str
    seconds: float
    rounds: int
    most_rounds: int
    half_width: float
    gate_seconds: float


BUDGETS = {
    "quick": Budget("quick", 15, 15, 300, 0.25, 5),
    "default": Budget("default", 60, 25, 2000, 0.03, 20),
    "rigorous": Budget("rigorous", 300, 60, 10000, 0.01, 60),
}


class Source(Protocol):
    """Where rounds come from: the gate's rig, or a script."""

    oracle_ns: int

    def round(
        self, label: Sequence[str | int], order: Sequence[str], calls: Mapping[str, int], *, full: bool = True
    ) -> dict[str, Reading | Red]: ...

    def now_s(self) -> float: ...


@dataclass
class Result:
    """What a trial leaves behind. A variant in `reds` has no samples."""

    samples: dict[str, list[Sample]]
    warm_up: dict[str, list[Sample]]
    reds: dict[str, Red] = field(default_factory=dict)
    intervals: dict[str, Interval] = field(default_factory=dict)
    baseline: str = ""
    stopped: str = ""
    rounds: int = 0


@dataclass
class Trial:
    """One trial. `on_round` is told rounds done and seconds spent after each round."""

    source: Source
    variants: Sequence[str]
    baseline: str
    calls: Mapping[str, int]
    budget: Budget
    seed: int
    effect: float = EFFECT
    clock: str = "wall"
    on_round: Callable[[int, float], None] = lambda rounds, seconds: None

    def run(self) -> Result:
        self._random = random.Random(seeds.derive(self.seed, "order"))
        self._result = Result({name: [] for name in self.variants}, {name: [] for name in self.variants})
        self._alive = list(self.variants)
        self._began = self.source.now_s()
        self._oracle_s = 0.0
        for number in range(WARM_UP_ROUNDS):
            self._round("warm-up", number, full=self._asks_oracle(number))
        self._rounds()
        self._conclude()
        return self._result

    def _rounds(self) -> None:
        result, look, full = self._result, self.budget.rounds, True
        before: dict[str, Outcome] | None = None
        while True:
            result.stopped = self._reason_to_stop()
            if result.stopped:
                break
            full = self._asks_oracle(result.rounds)
            self._round("round", result.rounds, full=full)
            result.rounds += 1
            self.on_round(result.rounds, self._spent())
            if result.rounds >= look and len(self._alive) > 1:
                look = max(look + 3, int(look * LOOK_GROWTH))
                said = self._look()
                # Two looks must agree: a single lucky one would raise the rate of false verdicts.
                if said and said == before:
                    result.stopped = f"every interval is narrow enough after {result.rounds} rounds"
                    break
                before = said
        if self._alive and result.rounds and not full:
            self._round("round", result.rounds, full=True)
            result.rounds += 1

    def _reason_to_stop(self) -> str:
        rounds, spent = self._result.rounds, self._spent()
        if len(self._alive) < min(2, len(self.variants)):
            return "fewer than two variants passed the gate"
        if rounds >= (self.budget.most_rounds if len(self.variants) > 1 else self.budget.rounds):
            return f"reached {rounds} rounds"
        hard_limit = self.budget.seconds if rounds >= LEAST_ROUNDS else 2 * self.budget.seconds
        if spent >= hard_limit:
            return f"ran out of time after {rounds} rounds and {spent:.0f} s (budget {self.budget.name})"
        return ""

    def _asks_oracle(self, number: int) -> bool:
        cost_s = self.source.oracle_ns / 1e9
        affordable = self._oracle_s + cost_s <= ORACLE_SHARE * (self._spent() + cost_s)
        surprise = self._random.random() < SURPRISE_CHECKS and cost_s < self.budget.seconds / 5
        return number == 0 or affordable or surprise

    def _round(self, label: str, number: int, *, full: bool) -> None:
        order = self._random.sample(self._alive, len(self._alive))
        if not order:
            return
        found = self.source.round((label, number), order, {name: self.calls[name] for name in order}, full=full)
        if full:
            self._oracle_s += self.source.oracle_ns / 1e9
        target = self._result.warm_up if label == "warm-up" else self._result.samples
        for place, name in enumerate(order):
            reading = found[name]
            if isinstance(reading, Red):
                self._drop(name, reading)
            else:
                target[name].append(_sample(name, number, place, reading))

    def _drop(self, name: str, red: Red) -> None:
        """No time of a red variant survives."""
        self._alive.remove(name)
        self._result.reds[name] = red
        self._result.samples[name] = []
        self._result.warm_up[name] = []

    def _look(self) -> dict[str, Outcome] | None:
        """The outcomes, if all are decided and narrow enough for the budget."""
        self._measure(RESAMPLES_IN_PASSING)
        found = self._result.intervals
        outcomes = {name: outcome(one, self.effect) for name, one in found.items()}
        narrow = all(one.half_width <= self.budget.half_width * one.ratio for one in found.values())
        decided = all(said is not Outcome.UNDECIDED for said in outcomes.values())
        return outcomes if narrow and decided and outcomes else None

    def _conclude(self) -> None:
        self._result.baseline = self.baseline if self.baseline in self._alive else next(iter(self._alive), "")
        self._measure()

    def _measure(self, resamples: int = RESAMPLES) -> None:
        baseline = self.baseline if self.baseline in self._alive else next(iter(self._alive), "")
        self._result.intervals = {}
        for name in self._alive:
            if name != baseline and self._result.samples[name]:
                self._result.intervals[name] = interval(
                    call_times(self._result.samples[name], self.clock),
                    call_times(self._result.samples[baseline], self.clock),
                    seeds.derive(self.seed, "bootstrap", name),
                    resamples=resamples,
                )

    def _spent(self) -> float:
        return self.source.now_s() - self._began


def call_times(samples: Sequence[Sample], clock: str = "wall") -> Array:
    """Nanoseconds per call, one entry per round."""
    total = [(s.device_ns if clock == "device" else s.wall_ns) or 0 for s in samples]
    times: Array = np.maximum(np.asarray(total, dtype=np.float64), 1.0) / np.asarray([s.calls for s in samples])
    return times


def _sample(name: str, number: int, place: int, reading: Reading) -> Sample:
    return Sample(
        variant=name,
        round=number,
        order=place,
        seed=reading.seed,
        calls=reading.calls,
        wall_ns=reading.wall_ns,
        cpu_ns=reading.cpu_ns,
        device_ns=reading.device_ns,
        check=reading.check,
        digest=reading.digest,
    )
