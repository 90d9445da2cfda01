"""Whether a variant's clock may be believed: its claims beside what was seen from outside.

The span from thaw to freeze and the processor time in it must be explained by the claimed time plus what a turn costs
anyway, which the empty variant shows in the same blocks. Both are judged as the verdict is: the same statistic within
a block, an interval over blocks. A variant that hides less than the smallest effect of interest gains nothing by it.
Who lies only now and then makes blocks differ, and so widens that interval: a sign test over rounds finds those.

Warming up before a turn, a call that does not count and tidying, is not timed. Work that a variant moves there is found
by balance: what it takes more than a rival's is held against what its timed calls save.

To refuse a variant its lie must be shown; to call it faster, the absence of one. On a crowded machine neither may be
possible, and then there is no verdict.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

import numpy as np

from whet.evidence.readings import Reading, Red
from whet.evidence.record import CONTROL, EMPTY, Sample
from whet.evidence.statistics import QUANTILES, Judge
from whet.evidence.student import t_quantile
from whet.protocol import Array

# Of honest variants so many may be called liars by chance, per variant and trial.
FALSE_ALARMS = 1e-3
# The same for the sign test, which is asked besides and counts each round for one.
SIGN_ALARMS = 1e-4
LEAST_BLOCKS = 3
# What a turn of a real kernel may cost beyond an empty one: caches that it emptied, and threads, which a thaw
# presumably wakes before they sleep again. A turn on two threads was seen to cost 0.2 ms more.
TURN_SLACK_NS = 60_000
THREAD_SLACK_NS = 100_000
# Pools spin for a while before they sleep: so long may each thread beyond the first be awake after its turn.
SPIN_SLACK_NS = 150_000
UNEVEN_SHARE = 0.7
# Half of the calls of a turn do so much of its work, and so much more than with a rival: the others may be answered
# along with them. Calls whose work hangs on their inputs reach four fifths.
BUSY_HALF = 0.8
BUSIER_BY = 0.2
# Untimed work that makes up for so much of what the timed calls save puts the saving in doubt.
MOVED_SHARE = 0.5
# So often a doubt may come up by chance. It costs a verdict, not the variant.
FALSE_DOUBTS = 0.02
# Beyond doubt: more than cold caches can cost, in timed calls and as a share of a turn.
MOVED_CALLS = 3.0
MOVED_TURN = 0.5
LEAST_TURNS = 10
DEVICE_SHARE = 0.5
# What Linux counts processor time in where nothing finer is to be had.
CPU_TICK_NS = 10_000_000

Value = Callable[[Sample], float]


def _wall(sample: Sample) -> float:
    return sample.wall_ns / sample.calls


def _work(sample: Sample) -> float:
    return sample.cpu_ns / sample.calls


def _booked(books: Mapping[str, Mapping[int, float]]) -> Value:
    """What was booked for the turn of a sample."""
    return lambda sample: books.get(sample.variant, {}).get(sample.round, 0.0)


@dataclass(frozen=True)
class Balance:
    """By block: what a turn costs off its clock beyond what it costs others and `slack_ns`, and what it saves on it."""

    excess: Array
    saved: Array
    slack_ns: float

    def shown(self, alarms: float) -> bool:
        """Whether what is spent makes up for the saving, beyond what chance does in a share `alarms` of trials."""
        return bool(self.saved.mean() > 0) and _beyond_zero(self.excess - MOVED_SHARE * self.saved, alarms)

    def ruled_out(self, alarms: float) -> bool:
        """Whether it does not, as surely."""
        return _beyond_zero(MOVED_SHARE * self.saved - self.excess, alarms)

    @property
    def excess_ns(self) -> float:
        return float(self.excess.mean()) + self.slack_ns

    def in_words(self, alarms: float | None = None) -> str:
        """How much it is, or with `alarms` how much it may be."""
        spent_ns = self.excess_ns if alarms is None else self.excess_ns + _margin(self.excess, alarms)
        told = f"{'' if alarms is None else 'up to '}{max(0.0, spent_ns) / 1e6:.3f} ms"
        return f"{told}, and its timed calls save {self.saved.mean() / 1e6:.3f} ms"


@dataclass
class Accounts:
    """The books of one trial. `threads`, `firsts`, `halves`, `warm_ups` and `warm_up_work` are kept by arm.

    `warm_ups` has by round what warming up took beyond as many timed calls, `warm_up_work` the same in processor time.

    Without `near` the span from outside has a network in it and says nothing about the variant.
    """

    effect: float
    near: bool
    judge: Judge = "median"
    clock: str = "wall"
    baseline: str = ""
    tick_ns: int = 0
    cores: dict[int, int] = field(default_factory=dict)
    threads: dict[str, int] = field(default_factory=dict)
    firsts: dict[str, list[float]] = field(default_factory=dict)
    halves: dict[str, list[float]] = field(default_factory=dict)
    warm_ups: dict[str, dict[int, float]] = field(default_factory=dict)
    warm_up_work: dict[str, dict[int, float]] = field(default_factory=dict)

    def note(self, name: str, label: Sequence[str | int], reading: Reading) -> None:
        """Books what a sample does not hold. `label` is a round's kind and number."""
        if reading.calls > 1:
            self.firsts.setdefault(name, []).append(reading.longest)
            self.halves.setdefault(name, []).append(reading.busy_half)
        if label[0] == "round":
            number, share = int(label[1]), reading.warm_up_calls / reading.calls
            self.warm_ups.setdefault(name, {})[number] = reading.warm_up_ns - share * reading.wall_ns
            self.warm_up_work.setdefault(name, {})[number] = reading.warm_up_cpu_ns - share * reading.cpu_ns

    def complaints(self, samples: Mapping[str, Sequence[Sample]]) -> dict[str, Red]:
        """The arms whose times cannot be believed, each with the reason."""
        empty = samples.get(EMPTY, ())
        found: dict[str, Red] = {}
        for name, own in samples.items():
            if name == EMPTY or not own:
                continue
            red = (
                self._uneven(name)
                or self._hidden(name, own, empty)
                or self._worked(name, own, empty)
                or self._prepared(name, samples)
                or self._below(own, empty)
                or self._device(name, own, samples)
            )
            if red:
                found[name] = red
        return found

    def _hidden(self, name: str, own: Sequence[Sample], empty: Sequence[Sample]) -> Red | None:
        """The outside span is longer than the claim by more than a turn costs."""
        if not self.near:
            return None
        slack_ns = self._turn_slack(name)
        over = self._over(own, empty, _outside, slack_ns)
        if over is None:
            over = self._often(own, empty, _outside, slack_ns)
        if over is None:
            return None
        return Red(
            "its clock and ours disagree",
            f"{over / 1e6:.3f} ms of a turn of {self._typical(own) / 1e6:.3f} ms by its own clock lie outside of it",
        )

    def _turn_slack(self, name: str) -> float:
        return TURN_SLACK_NS + THREAD_SLACK_NS * (self.threads.get(name, 1) - 1)

    def _worked(
        self, name: str, own: Sequence[Sample], empty: Sequence[Sample], alarms: float = FALSE_ALARMS
    ) -> Red | None:
        """It used more processor time than its claim has room for.

        Always by means: processor time adds up, and where the system counts it in ticks of 10 ms a median is a tick.
        """
        threads = self.threads.get(name, 1)
        slack_ns = TURN_SLACK_NS + (SPIN_SLACK_NS * (threads - 1) if self._parallel(own) else THREAD_SLACK_NS)
        over = self._over(own, empty, self._unexplained, slack_ns, judge="mean", alarms=alarms)
        if over is None:
            return None
        return Red("worked outside its clock", f"{over / 1e6:.3f} ms of processor time per turn fit into no window")

    def _unexplained(self, sample: Sample) -> float:
        """Processor time for which there is no room in the time that it claims."""
        return sample.cpu_ns - sample.wall_ns * self.cores.get(sample.block, 1)

    def _prepared(self, name: str, samples: Mapping[str, Sequence[Sample]]) -> Red | None:
        """Its warm-ups do what its timed calls leave out, by more than caches can explain."""
        others = [arm for arm in samples if arm not in (name, CONTROL, EMPTY)]
        for rival in [] if name == CONTROL else others if name == self.baseline else [self.baseline]:
            own = samples[name]
            moved = self._moved(own, samples.get(rival, ()), TURN_SLACK_NS, "mean")
            if moved is None or not moved.shown(FALSE_ALARMS):
                continue
            turn_ns = float(np.mean([s.wall_ns for s in own]))
            call_ns = float(np.mean([s.wall_ns / s.calls for s in own]))
            if moved.excess_ns > max(MOVED_TURN * turn_ns, MOVED_CALLS * call_ns):
                return Red(
                    "worked outside its clock",
                    f"warming up takes it longer than {rival} by {moved.in_words()} of a turn",
                )
        return None

    def doubt(self, winner: str, rival: str, samples: Mapping[str, Sequence[Sample]]) -> str | None:
        """Why what `winner` saves may be no saving, where work off its clock that makes up for it is not ruled out."""
        own, other, empty = samples[winner], samples[rival], samples.get(EMPTY, ())
        slack_ns = self._turn_slack(winner)
        judge: Judge = "median" if self.judge == "median" else "mean"
        longer = f"{winner} may have moved work: warming up takes it longer than {rival} by"
        moved = self._moved(own, other, slack_ns, "mean")
        if moved and moved.shown(FALSE_DOUBTS):
            return f"{longer} {moved.in_words()}"
        work = self._moved_work(own, other, slack_ns, judge)
        if work and not work.ruled_out(FALSE_DOUBTS):
            return f"{longer} {work.in_words(FALSE_DOUBTS)}, in processor time"
        hidden = self._balance(own, other, empty, _outside, slack_ns=slack_ns, judge=judge)
        if hidden and not hidden.ruled_out(FALSE_DOUBTS):
            return f"{winner} may have worked outside its clock, by {hidden.in_words(FALSE_DOUBTS)} of a turn"
        if together := self._together(winner, rival):
            return together
        worked = self._worked(winner, own, empty, FALSE_DOUBTS)
        return f"{winner} may have {worked.reason}: {worked.detail}" if worked else None

    def _together(self, winner: str, rival: str) -> str | None:
        """Whether some of its calls seem to be answered along with others, which a user who calls once cannot do."""
        own, other = (self.halves.get(name, []) for name in (winner, rival))
        if not self.near or min(len(own), len(other)) < LEAST_TURNS:
            return None
        mine, theirs = float(np.median(own)), float(np.median(other))
        if mine < BUSY_HALF or mine < theirs + BUSIER_BY:
            return None
        shares = f"half of its calls take {mine:.0%} of a turn, of {rival}'s {theirs:.0%}"
        return f"{winner} may answer several calls at once: {shares}; --regime cold has one call in a turn"

    def _moved_work(
        self, own: Sequence[Sample], other: Sequence[Sample], slack_ns: float, judge: Judge
    ) -> Balance | None:
        """The same in processor time, which a crowded machine hardly changes; unless it is counted in ticks.

        On one core a saving is one of processor time, unless the rival does nothing but wait. Otherwise it is held
        against time by the clock, and what is moved is at least that much work.
        """
        found = None
        if all(sample.cpu_ns % CPU_TICK_NS == 0 for sample in own):
            return found
        for saves in (_wall,) if self._parallel(own) else (_work, _wall):
            value = _booked(self.warm_up_work)
            found = self._balance(own, other, other, value, slack_ns=slack_ns, judge=judge, saves=saves)
            if found is None or found.saved.mean() > 0:
                break
        return found

    def _moved(self, own: Sequence[Sample], other: Sequence[Sample], slack_ns: float, judge: Judge) -> Balance | None:
        return self._balance(own, other, other, _booked(self.warm_ups), slack_ns=slack_ns, judge=judge)

    def _balance(
        self,
        own: Sequence[Sample],
        rival: Sequence[Sample],
        usual: Sequence[Sample],
        value: Value,
        *,
        slack_ns: float,
        judge: Judge,
        saves: Value = _wall,
    ) -> Balance | None:
        """What `value` is beyond that of `usual` samples, beside what timed calls save against those of `rival`."""
        mine, theirs = _by_block(own, value, judge), _by_block(usual, value, judge)
        quick, slow = (_by_block(some, saves, judge) for some in (own, rival))
        common = sorted(mine.keys() & theirs.keys() & slow.keys())
        # Elsewhere a program is data: it cannot tell its calls apart.
        if not self.near or len(common) < LEAST_BLOCKS:
            return None
        excess = np.array([mine[b] - theirs[b] - slack_ns for b in common])
        saved = np.array([(slow[b] - quick[b]) * own[0].calls for b in common])
        return Balance(excess, saved, slack_ns)

    def _below(self, own: Sequence[Sample], empty: Sequence[Sample]) -> Red | None:
        """No call can be shorter than one that does nothing."""
        if len(empty) < LEAST_TURNS or len(own) < LEAST_TURNS:
            return None
        floor_ns, typical_ns = (float(np.median([s.wall_ns / s.calls for s in some])) for some in (empty, own))
        if typical_ns + self.tick_ns >= floor_ns / 2:
            return None
        return Red("below the floor", f"a call takes {typical_ns:.0f} ns, one that does nothing {floor_ns:.0f} ns")

    def _uneven(self, name: str) -> Red | None:
        firsts = self.firsts.get(name, [])
        # Elsewhere a call is fed when its turn comes: there is nothing of the others that the first could do.
        if not self.near or len(firsts) < LEAST_TURNS or np.median(firsts) < UNEVEN_SHARE:
            return None
        share = f"{np.median(firsts):.0%}"
        return Red("uneven calls", f"the first of several calls takes {share} of a turn: it works for the others too")

    def _device(self, name: str, own: Sequence[Sample], samples: Mapping[str, Sequence[Sample]]) -> Red | None:
        """The variant's own word: it cannot say more than passed, nor leave out what its rivals count."""
        if self.clock != "device":
            return None
        said = [s.device_ns for s in own]
        if None in said:
            return Red("no device clock", "the engine reports no device time; compare with --clock wall")
        if any((s.device_ns or 0) > max(s.outside_ns, s.wall_ns) for s in own):
            return Red("its clock and ours disagree", "the device clock says more than passed outside")
        share = float(np.median([(s.device_ns or 0) / max(1, s.wall_ns) for s in own]))
        hint = "either work is done on the host, or the case is too small for this clock; compare with --clock wall"
        if share < DEVICE_SHARE and len(own) >= LEAST_BLOCKS:
            return Red("host work", f"the device clock explains {share:.0%} of the time on the wall: {hint}")
        base = () if name in (self.baseline, CONTROL) else samples.get(self.baseline, ())
        over = self._over(own, base, lambda s: s.wall_ns - (s.device_ns or 0), TURN_SLACK_NS)
        more = f"than {self.baseline} has lie outside of its device clock"
        return None if over is None else Red("host work", f"{over / 1e6:.3f} ms more {more}: {hint}")

    def _over(
        self,
        own: Sequence[Sample],
        other: Sequence[Sample],
        value: Value,
        slack_ns: float,
        *,
        judge: Judge | None = None,
        alarms: float = FALSE_ALARMS,
    ) -> float | None:
        """By how much `own` exceeds `other` and what is allowed, if that is beyond chance; in nanoseconds."""
        judge = judge or self.judge
        mine, theirs = _by_block(own, value, judge), _by_block(other, value, judge)
        walls = _by_block(own, lambda s: s.wall_ns, judge)
        common = sorted(mine.keys() & theirs.keys())
        if len(common) < LEAST_BLOCKS:
            return None
        excess = np.array([mine[b] - theirs[b] - self.effect * walls[b] - slack_ns for b in common])
        if not _beyond_zero(excess, alarms):
            return None
        return float(np.mean([mine[b] - theirs[b] for b in common]))

    def _often(self, own: Sequence[Sample], other: Sequence[Sample], value: Value, slack_ns: float) -> float | None:
        """The mean excess over rounds if too many of them lie above what is allowed for the noise seen below it."""
        theirs = {sample.round: value(sample) for sample in other}
        paired = [sample for sample in own if sample.round in theirs]
        gaps = [value(sample) - theirs[sample.round] for sample in paired]
        allowed = [self.effect * sample.wall_ns + slack_ns for sample in paired]
        above = sum(gap > most for gap, most in zip(gaps, allowed, strict=True))
        below = sum(gap < -most for gap, most in zip(gaps, allowed, strict=True))
        if len(paired) < LEAST_TURNS or _heads(above, above + below) > SIGN_ALARMS:
            return None
        # Beyond chance, but is it enough to matter? A tail is far out for everybody, so there the mean decides.
        excess = [gap - most for gap, most in zip(gaps, allowed, strict=True)]
        if _statistic(excess, "median" if self.judge == "median" else "mean") <= 0:
            return None
        return float(np.mean(gaps))

    def _typical(self, own: Sequence[Sample]) -> float:
        return _statistic([s.wall_ns for s in own], self.judge)

    def _parallel(self, own: Sequence[Sample]) -> bool:
        return max((self.cores.get(s.block, 1) for s in own), default=1) > 1


def _beyond_zero(values: Array, alarms: float) -> bool:
    """Whether the mean of block values lies above zero, beyond what chance does in a share `alarms` of trials."""
    return bool(values.mean() > _margin(values, alarms))


def _margin(values: Array, alarms: float) -> float:
    """How far from its mean the truth may lie to one side."""
    return t_quantile(1 - alarms, len(values) - 1) * float(values.std(ddof=1)) / math.sqrt(len(values))


def _outside(sample: Sample) -> float:
    return sample.outside_ns - sample.wall_ns


def _by_block(samples: Sequence[Sample], value: Value, judge: Judge) -> dict[int, float]:
    blocks: dict[int, list[float]] = {}
    for sample in samples:
        blocks.setdefault(sample.block, []).append(value(sample))
    return {block: _statistic(values, judge) for block, values in blocks.items()}


def _statistic(values: Sequence[float], judge: Judge) -> float:
    if judge == "median":
        return float(median(values))
    return sum(values) / len(values) if judge == "mean" else float(np.quantile(values, QUANTILES[judge]))


def _heads(heads: int, tosses: int) -> float:
    """The chance that a fair coin falls heads up so often or more."""
    return float(sum(math.comb(tosses, count) for count in range(heads, tosses + 1)) / 2**tosses)
