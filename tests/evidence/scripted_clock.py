"""A source of rounds without processes and without a clock: noise models that the trial takes for a machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from whet.evidence.claims import Reading, Red

BASE_NS = 1_000_000.0
Noise = Callable[[np.random.Generator, int], float]


def gaussian(rng, repeat):
    return 1 + 0.03 * rng.standard_normal()


def heavy_tails(rng, repeat):
    return 1 + 0.02 * abs(rng.standard_t(1.5))


def spikes(rng, repeat):
    return 1 + 0.01 * rng.standard_normal() + (rng.random() < 0.1) * rng.uniform(1, 10)


def bimodal(rng, repeat):
    return (1.0 if rng.random() < 0.5 else 1.35) * (1 + 0.01 * rng.standard_normal())


def drift(rng, repeat):
    """Half as slow again after 400 repeats, as a machine that heats up."""
    return (1 + 0.5 * min(repeat, 400) / 400) * (1 + 0.02 * rng.standard_normal())


def phases(rng, repeat):
    """A neighbour that comes and goes for a dozen repeats at a time."""
    return (1.3 if (repeat // 12) % 2 else 1.0) * (1 + 0.02 * rng.standard_normal())


def lognormal(rng, repeat):
    return float(rng.lognormal(0, 0.15))


MODELS: dict[str, Noise] = {
    model.__name__: model for model in (gaussian, heavy_tails, spikes, bimodal, drift, phases, lognormal)
}


class Scripted:
    """Each variant takes BASE_NS times its factor times the noise. Time passes only when something runs."""

    def __init__(self, factors: Mapping[str, float], noise: Noise, seed: int, quantum_ns: int = 1) -> None:
        self.factors, self.noise, self.quantum_ns = factors, noise, quantum_ns
        self.rng = np.random.default_rng(seed)
        self.repeat = 0
        self.passed_ns = 0.0
        self.oracle_ns = 100_000
        self.orders: list[list[str]] = []
        self.fulls: list[bool] = []
        self.reds: dict[tuple[str, int], Red] = {}

    def round(
        self, label: Sequence[str | int], order: Sequence[str], calls: Mapping[str, int], *, full: bool = True
    ) -> dict[str, Reading | Red]:
        self.orders.append(list(order))
        self.fulls.append(full)
        found: dict[str, Reading | Red] = {}
        for name in order:
            self.repeat += 1
            taken_ns = max(1.0, BASE_NS * self.factors[name] * self.noise(self.rng, self.repeat) * calls[name])
            self.passed_ns += taken_ns
            wall_ns = max(self.quantum_ns, round(taken_ns / self.quantum_ns) * self.quantum_ns)
            reading = Reading(calls[name], wall_ns, wall_ns, None, 0, "", "full" if full else "digest")
            found[name] = self.reds.get((name, int(label[1])), reading) if label[0] == "round" else reading
        self.passed_ns += self.oracle_ns if full else 0
        return found

    def now_s(self) -> float:
        return self.passed_ns / 1e9
