"""A source of blocks and rounds without processes and without a clock: noise that the trial takes for a machine.

A noise model gives the logarithm of the slowdown of one fresh process in every round of its life. What all processes
share (drift, a neighbour that comes and goes) is the weather, a function of the turn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from whet.evidence.readings import Reading, Red
from whet.evidence.record import CONTROL, EMPTY

BASE_NS = 1_000_000.0
EMPTY_NS = 2_000.0
START_NS = 400_000_000
LONGEST_LIFE = 16

Array = np.ndarray
Process = Callable[[np.random.Generator, int], Array]
Weather = Callable[[int], float]


def jitter(rng, rounds, sd=0.03):
    return sd * rng.standard_normal(rounds)


def offsets(rng, rounds, sd=0.05):
    """A process is faster or slower than its like for all of its life: layout, pages, core."""
    return sd * rng.standard_normal() + jitter(rng, rounds, 0.02)


def autocorrelated(rng, rounds, rho=0.5, sd=0.03):
    """A first-order autoregression: what slowed this turn half slows the next."""
    steps, found = rng.standard_normal(rounds) * sd * np.sqrt(1 - rho**2), np.empty(rounds)
    level = sd * rng.standard_normal()
    for i, step in enumerate(steps):
        level = rho * level + step
        found[i] = level
    return found


def modes(rng, rounds, slow=0.3, share=0.5):
    """A process falls into one of two modes for its life."""
    return slow * (rng.random() < share) + jitter(rng, rounds, 0.01)


def heavy_tails(rng, rounds):
    """Turns and processes alike: Student's t with 1.5 and with 3 degrees of freedom."""
    return 0.02 * rng.standard_t(3) + np.log1p(0.02 * np.abs(rng.standard_t(1.5, rounds)))


def spikes(rng, rounds):
    return jitter(rng, rounds, 0.01) + (rng.random(rounds) < 0.1) * np.log1p(rng.uniform(1, 10, rounds))


def flicker(rng, rounds):
    """Two modes from turn to turn."""
    return np.where(rng.random(rounds) < 0.5, 0.0, 0.3) + jitter(rng, rounds, 0.01)


def everything(rng, rounds):
    return (
        offsets(rng, rounds)
        + autocorrelated(rng, rounds)
        + modes(rng, rounds, slow=0.15, share=0.3)
        + np.log1p(0.01 * np.abs(rng.standard_t(1.5, rounds)))
    )


def real(rng, rounds, sd=0.02):
    """Block values of equal kernels spread by 3.7 %: six blocks then have a half width of 6 %, as on one real core."""
    return sd * rng.standard_normal() + autocorrelated(rng, rounds, sd=0.02) + (rng.random(rounds) < 0.03) * 0.5


def calm(turn):
    return 0.0


def drift(turn):
    """Half as slow again after 2,000 turns, as a machine that heats up."""
    return float(np.log1p(0.5 * min(turn, 2000) / 2000))


def phases(turn):
    """A neighbour that comes and goes for a dozen turns at a time."""
    return 0.26 if (turn // 12) % 2 else 0.0


@dataclass(frozen=True)
class Noise:
    process: Process
    weather: Weather = calm


MODELS: dict[str, Noise] = {
    "jitter": Noise(jitter),
    "offsets 5 %": Noise(offsets),
    "offsets 10 %": Noise(partial(offsets, sd=0.1)),
    "autocorrelation": Noise(autocorrelated),
    "drift": Noise(partial(offsets, sd=0.02), drift),
    "modes": Noise(modes),
    "rare modes": Noise(partial(modes, share=0.1)),
    "heavy tails": Noise(heavy_tails),
    "spikes": Noise(spikes),
    "flicker": Noise(flicker),
    "phases": Noise(jitter, phases),
    "everything": Noise(everything, drift),
    "real": Noise(real),
    "real, busy": Noise(partial(real, sd=0.028), phases),
}


class Scripted:
    """An arm takes BASE_NS times its factor times the noise, per call. Time passes only when something runs."""

    def __init__(self, factors: Mapping[str, float], noise: Noise, seed: int, *, calls: int = 1, tick_ns: int = 1):
        self.factors, self.noise, self.calls, self.tick_ns = dict(factors), noise, calls, tick_ns
        self.rng = np.random.default_rng(seed)
        self.oracle_ns = 100_000
        self.cores = [0]
        self.passed_ns = 0.0
        self.turn = 0
        self.blocks: list[list[str]] = []
        self.labels: list[tuple[str | int, ...]] = []
        self.orders: list[list[str]] = []
        self.fulls: list[bool] = []
        self.reds: dict[tuple[str, int], Red] = {}
        self.start_reds: dict[tuple[str, int], Red] = {}
        self.interrupt_at: tuple[str, int] | None = None
        self._life: dict[str, Array] = {}
        self._age = 0

    def block(self, number: int, arms: Sequence[str]) -> dict[str, Red]:
        if self.interrupt_at == ("block", number):
            raise KeyboardInterrupt
        self.blocks.append(list(arms))
        self.cores = [number % 2]
        self.passed_ns += START_NS
        self._life = {arm: np.exp(self.noise.process(self.rng, LONGEST_LIFE)) for arm in arms}
        self._age = 0
        return {arm: red for arm in arms if (red := self.start_reds.get((arm, number)))}

    def round(self, label: Sequence[str | int], order: Sequence[str], *, full: bool = True) -> dict[str, Reading | Red]:
        if self.interrupt_at == tuple(label):
            raise KeyboardInterrupt
        self.labels.append(tuple(label))
        self.orders.append(list(order))
        self.fulls.append(full)
        found: dict[str, Reading | Red] = {}
        weather = self.noise.weather
        for arm in order:
            self.turn += 1
            taken_ns = self._base_ns(arm) * float(self._life[arm][self._age % LONGEST_LIFE])
            taken_ns = max(1.0, taken_ns * (1.0 if weather is calm else float(np.exp(weather(self.turn)))) * self.calls)
            self.passed_ns += taken_ns
            wall_ns = max(self.tick_ns, round(taken_ns / self.tick_ns) * self.tick_ns)
            checked = "full" if full else "digest"
            reading = Reading(self.calls, wall_ns, wall_ns + 100_000, wall_ns, 0, None, 0, "", checked)
            found[arm] = self.reds.get((arm, int(label[1])), reading) if label[0] == "round" else reading
        self._age += 1
        self.passed_ns += self.oracle_ns if full else 0
        return found

    def now_s(self) -> float:
        return self.passed_ns / 1e9

    def _base_ns(self, arm: str) -> float:
        if arm == EMPTY:
            return EMPTY_NS
        return BASE_NS * self.factors[self.blocks[-1][0] if arm == CONTROL else arm]
