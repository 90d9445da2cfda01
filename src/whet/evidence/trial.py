"""Interleaved turns of several variants on one case, in blocks of fresh processes, until the answer is clear.

The trial sees neither processes nor clocks: a `Source` gives it blocks and rounds and tells it the time, so that tests
run it on scripted noise. What the times mean is decided in `statistics.py`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from whet.errors import DeviceGone
from whet.evidence import seeds, statistics
from whet.evidence.budgets import BUDGETS, Budget, custom
from whet.evidence.readings import Reading, Red
from whet.evidence.record import CONTROL, EMPTY, INTERRUPTED, Block, Control, Outcome, Sample
from whet.evidence.statistics import EFFECT, Interval, Judge, Looks, Times, call_times

__all__ = ["BUDGETS", "Budget", "Honest", "Result", "Source", "Trial", "call_times", "custom"]

# Of a trial's time the oracle may take this share before rounds are left to mutual agreement.
ORACLE_SHARE = 0.5
# However dear it is, any round may be one that it looks at.
LEAST_CHANCE = 0.02
# A trial may overdraw its time by this factor to reach the blocks without which there is no interval.
OVERDRAFT = 2.0
FEWER_THAN_TWO = "fewer than two variants passed the gate"


class Source(Protocol):
    """Where turns come from: the gate's rig, or a script."""

    cores: list[int]

    @property
    def oracle_ns(self) -> int:
        """What asking the oracle about a whole round cost the last time."""
        ...

    def block(self, number: int, arms: Sequence[str]) -> dict[str, Red]:
        """Fresh processes for all arms; those that failed to start. `arms[0]` is the baseline; CONTROL repeats it."""
        ...

    def round(
        self, label: Sequence[str | int], order: Sequence[str], *, full: bool = True
    ) -> dict[str, Reading | Red]: ...

    def now_s(self) -> float: ...


Honest = Callable[[Mapping[str, Sequence[Sample]]], dict[str, Red]]
Doubt = Callable[[str, str, Mapping[str, Sequence[Sample]]], str | None]


@dataclass
class Result:
    """What a trial leaves behind. A variant in `reds` has no samples; `samples` has CONTROL and EMPTY as well.

    `others` are the intervals by every statistic that is not the one judged by. `lost` are arms of the trial's own that
    failed: no variant is to blame.
    """

    samples: dict[str, list[Sample]]
    warm_up: dict[str, list[Sample]]
    reds: dict[str, Red] = field(default_factory=dict)
    lost: dict[str, Red] = field(default_factory=dict)
    intervals: dict[str, Interval] = field(default_factory=dict)
    others: dict[str, dict[str, Interval]] = field(default_factory=dict)
    ratios: dict[str, dict[str, float]] = field(default_factory=dict)
    control_interval: Interval | None = None
    control: Control | None = None
    blocks: list[Block] = field(default_factory=list)
    baseline: str = ""
    judged_by: Judge = "median"
    confidence: float = statistics.CONFIDENCE
    candidates: int = 0
    stopped: str = ""
    interrupted: bool = False
    # The device went away in the middle.
    gone: bool = False
    rounds: int = 0


@dataclass
class Trial:
    """One trial. `on_round` is told rounds done and seconds spent after each round.

    `honest` is asked at every look and at the end, with all samples so far: what it returns is dropped like any red.
    `doubt` is asked about every winner and its rival before a look decides: a doubt may end with more blocks.
    `surprise` decides which rounds a dear oracle looks at; no variant can know it, because no seed leads to it.
    """

    source: Source
    variants: Sequence[str]
    baseline: str
    budget: Budget
    seed: int
    effect: float = EFFECT
    clock: str = "wall"
    judge: Judge = "median"
    on_round: Callable[[int, float], None] = lambda rounds, seconds: None
    honest: Honest = lambda samples: {}
    doubt: Doubt = lambda winner, rival, samples: None
    surprise: random.Random = field(default_factory=random.SystemRandom)
    # Whether every block begins with a round that does not count; without, only the first does.
    warm_blocks: bool = True

    def run(self) -> Result:
        self._random = random.Random(seeds.derive(self.seed, "order"))
        arms = [*self.variants, CONTROL, EMPTY]
        baseline = self.baseline if self.baseline in self.variants else next(iter(self.variants), "")
        self._result = Result({name: [] for name in arms}, {name: [] for name in arms}, baseline=baseline)
        self._result.judged_by, self._result.confidence = self.judge, self.budget.confidence
        self._result.candidates = max(0, len(self.variants) - 1)
        self._alive = list(self.variants)
        self._present: list[str] = []
        self._looks = Looks(self.budget.blocks, self.budget.most_blocks)
        self._share_left = 1.0
        self._per_block = self.budget.rounds
        self._began = self.source.now_s()
        self._oracle_s = 0.0
        self._rounds_of_all = 0
        self._block_number = -1
        share = 0.0
        try:
            share = self._blocks()
        except KeyboardInterrupt:
            blocks, rounds = len(self._result.blocks), self._result.rounds
            self._result.interrupted = True
            self._result.stopped = f"{INTERRUPTED} after {blocks} blocks and {rounds} rounds"
        except DeviceGone as error:
            blocks, rounds = len(self._result.blocks), self._result.rounds
            self._result.gone = True
            self._result.stopped = f"{error.cause} after {blocks} blocks and {rounds} rounds"
        self._conclude(share or self._share_left)
        return self._result

    def _blocks(self) -> float:
        """Blocks until there is a reason to stop; the share of the look that decided, 0 if none did."""
        result, full = self._result, True
        while not (reason := self._reason_to_stop()):
            full = self._block()
            share = self._looks.share(len(result.blocks))
            if share and self._decides(share):
                reason = f"decided after {len(result.blocks)} blocks and {result.rounds} rounds"
                break
        else:
            share = 0.0
        result.stopped = reason
        if not full and self._alive:
            # Nobody knows which round is the last, so nobody can be right in the checked ones only.
            self._round("round", full=True)
        return share

    def _block(self) -> bool:
        """Fresh processes, a warm-up round, then the rounds that count; whether the oracle saw the last of them."""
        began, result = self.source.now_s(), self._result
        self._block_number += 1
        self._present = [*self._ranked(), CONTROL, *([] if EMPTY in result.lost else [EMPTY])]
        self._hear(self.source.block(self._block_number, list(self._present)))
        if len(self._alive) < min(2, len(self.variants)):
            return True
        started_s = self.source.now_s() - began
        full = True
        if self.warm_blocks or self._block_number == 0:
            full = self._round("warm-up", full=True if self._block_number == 0 else None)
        if self._block_number == 0 and not self.budget.keep_rounds:
            self._fit_rounds(started_s, self.source.now_s() - began - started_s)
        for _ in range(self._per_block):
            if len(self._alive) < min(2, len(self.variants)):
                break
            full = self._round("round")
            self.on_round(result.rounds, self._spent())
        return full

    def _fit_rounds(self, started_s: float, round_s: float) -> None:
        """Blocks come first: a slow kernel gets fewer rounds in each rather than fewer blocks."""
        room_s = self.budget.seconds / self.budget.blocks - started_s
        # The oracle saw this round; where it is dear it will not see most of the others.
        round_s = min(round_s, (round_s - self.source.oracle_ns / 1e9) / (1 - ORACLE_SHARE))
        self._per_block = max(1, min(self.budget.rounds, int(room_s / max(round_s, 1e-9)) - 1))

    def _reason_to_stop(self) -> str:
        result, spent = self._result, self._spent()
        if len(self._alive) < min(2, len(self.variants)):
            return FEWER_THAN_TWO
        blocks = len(result.blocks)
        if blocks >= self.budget.most_blocks:
            return f"reached {blocks} blocks and {result.rounds} rounds"
        if spent >= self.budget.seconds * (1 if blocks >= statistics.LEAST_BLOCKS else OVERDRAFT):
            return f"ran out of time after {blocks} blocks and {spent:.0f} s (budget {self.budget.name})"
        return ""

    def _asks_oracle(self) -> bool:
        """Always where that is affordable; otherwise by lot, so that no round is safe and none is known."""
        cost_s = self.source.oracle_ns / 1e9
        if cost_s <= 0 or not self._rounds_of_all:
            return True
        round_s = (self._spent() - self._oracle_s) / self._rounds_of_all
        chance = ORACLE_SHARE / (1 - ORACLE_SHARE) * round_s / cost_s
        return chance >= 1 or self.surprise.random() < max(chance, LEAST_CHANCE)

    def _round(self, kind: str, *, full: bool | None = None) -> bool:
        result, block = self._result, self._block_number
        number = block if kind == "warm-up" else result.rounds
        asked = self._asks_oracle() if full is None else full
        order = self._random.sample(self._present, len(self._present))
        found = self.source.round((kind, number), order, full=asked)
        self._rounds_of_all += 1
        if asked:
            self._oracle_s += self.source.oracle_ns / 1e9
        if kind == "round":
            result.rounds += 1
            rounds = 1
            if result.blocks and result.blocks[-1].number == block:
                rounds += result.blocks.pop().rounds
            result.blocks.append(Block(number=block, cores=list(self.source.cores), rounds=rounds))
        target = result.warm_up if kind == "warm-up" else result.samples
        for place, name in enumerate(order):
            reading = found.get(name)
            if isinstance(reading, Reading):
                target[name].append(_sample(name, number, place, block, reading))
        self._hear({name: red for name, red in found.items() if isinstance(red, Red)})
        return asked

    def _hear(self, reds: Mapping[str, Red]) -> None:
        """No time of a red variant survives. The control runs the baseline's code, so its red is the baseline's."""
        result = self._result
        for arm, red in reds.items():
            name = result.baseline if arm == CONTROL else arm
            if arm == EMPTY:
                result.lost[EMPTY] = red
                self._leave(EMPTY)
            elif name in self._alive:
                self._alive.remove(name)
                result.reds[name] = red
                self._leave(name)
        # Only now: both may be red at once, and the control's red must not fall on whoever takes the baseline's place.
        if result.baseline not in self._alive:
            # What the control measured was the old baseline; the new one gets its control with the next block.
            self._leave(CONTROL)
            result.baseline = next(iter(self._alive), "")

    def _leave(self, arm: str) -> None:
        self._result.samples[arm], self._result.warm_up[arm] = [], []
        if arm in self._present:
            self._present.remove(arm)

    def _ranked(self) -> list[str]:
        """The baseline first."""
        baseline = self._result.baseline
        return [baseline, *(name for name in self._alive if name != baseline)]

    def _decides(self, share: float) -> bool:
        """Whether all is decided, at the price of `share` of the allowed error."""
        self._hear(self.honest(self._result.samples))
        self._measure(share)
        if self._result.control_interval is not None:
            # Where nothing could be seen yet, as with p99 after few blocks, nothing was spent.
            self._share_left -= share
        if len(self.variants) == 1:
            return self._alone_is_tight(share)
        found = self._result.intervals
        if self._result.control_interval is None:
            # A new baseline has no control of five blocks yet, and nothing is decided early without one.
            return False
        floor = statistics.control_floor(self._result.control_interval, self.effect)
        said = {name: statistics.outcome(found.get(name), self.effect, floor) for name in self._ranked()[1:]}
        return bool(said) and Outcome.UNDECIDED not in said.values() and not self._doubtful(said)

    def _doubtful(self, said: Mapping[str, Outcome]) -> bool:
        baseline = self._result.baseline
        won = [
            (name, baseline) if outcome is Outcome.FASTER else (baseline, name)
            for name, outcome in said.items()
            if outcome is not Outcome.SAME
        ]
        return any(self.doubt(*pair, self._result.samples) for pair in won)

    def _alone_is_tight(self, share: float) -> bool:
        own = self._times(self.variants[0])
        width = statistics.own_half_width(own, confidence=self.budget.confidence, share=share)
        return width is not None and width <= self.budget.half_width

    def _conclude(self, share: float) -> None:
        """The intervals that are told, on all that is green, and what other statistics say about the same rounds."""
        self._hear(self.honest(self._result.samples))
        self._measure(share)
        for name in self._ranked()[1:]:
            by = {judge: self._interval(name, share, judge) for judge in statistics.JUDGES if judge != self.judge}
            self._result.others[name] = {judge: one for judge, one in by.items() if one is not None}
            self._result.ratios[name] = statistics.ratios(self._times(name), self._times(self._result.baseline))

    def _measure(self, share: float) -> None:
        result = self._result
        result.control_interval = result.control = None
        if self._alive and (control := self._interval(CONTROL, share, self.judge)):
            said = statistics.outcome(control, self.effect)
            result.control_interval = control
            result.control = Control(outcome=said, ratio=control.ratio, low=control.low, high=control.high)
        by_name = {name: self._interval(name, share, self.judge) for name in self._ranked()[1:]}
        result.intervals = {name: one for name, one in by_name.items() if one is not None}

    def _interval(self, arm: str, share: float, judge: Judge) -> Interval | None:
        control = self._result.control_interval if judge == self.judge else None
        return statistics.interval(
            self._times(arm),
            self._times(self._result.baseline),
            judge=judge,
            confidence=self.budget.confidence,
            share=share,
            comparisons=1 if arm == CONTROL else self._result.candidates,
            least_error=control.error if control else 0.0,
        )

    def _times(self, arm: str) -> Times:
        return statistics.times(self._result.samples[arm], self.clock)

    def _spent(self) -> float:
        return self.source.now_s() - self._began


def _sample(name: str, number: int, place: int, block: int, reading: Reading) -> Sample:
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
        block=block,
        outside_ns=reading.outside_ns,
    )
