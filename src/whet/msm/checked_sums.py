"""Sums that are computed, timed and checked by another variant, within the seconds that the check may take."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from whet._native import msm as native
from whet.errors import BadInput, OracleMismatch
from whet.msm.api import Engine
from whet.msm.point import Endian, Point
from whet.msm.points.files import Check
from whet.msm.validate import Limbs
from whet.msm.webgpu.knobs import SPECS as GPU_SPECS
from whet.protocol import parse_bytes

# Other ways to compute the same sum, the simplest first. The variant in use is never its own check.
CHECKERS = ("plain", "pippenger", "pippenger:glv=true")
PREPARED_PROBE = 4096
PROBES = {"plain": 32, "pippenger": 4096, "pippenger:glv=true": 4096}


Advance = Callable[[int, str], None]
# Told of each stage by name, with its length where that is known; what it yields is told of steps.
Stage = Callable[[str, float | None], AbstractContextManager[Advance]]


def silent(name: str, total: float | None) -> AbstractContextManager[Advance]:
    return nullcontext(lambda steps, note: None)


@dataclass(frozen=True)
class Choices:
    """The options as the command line gives them; sizes are still text. `stage` shows how far it is."""

    profile: str
    seed: int | None
    points_format: str
    scalars_format: str
    section: str | None
    offset: str
    scalars_offset: str
    count: str | None
    check_points: Check
    variant: str
    threads: int | None
    memory_budget: str | None
    device: str
    fallback: bool
    check_seconds: float
    out_path: Path | None
    out_endian: Endian
    stage: Stage = silent

    def budget_bytes(self) -> int | None:
        return None if self.memory_budget is None else parse_bytes(self.memory_budget, what="--memory-budget")

    def drawn_seed(self) -> int:
        if self.seed is not None and self.seed < 0:
            raise BadInput(f"--seed {self.seed} is negative", cure="give 0 or more")
        return secrets.randbits(32) if self.seed is None else self.seed


@dataclass(frozen=True)
class Timed:
    """One sum, by which variant, and what preparing and computing took."""

    point: Point
    variant: str
    prepare_ns: int
    compute_ns: int
    cpu_ns: int
    device: str = "cpu"
    fallback_reason: str | None = None


@dataclass(frozen=True)
class Checked:
    """How far a sum was checked, for scripts; and the same in words that a reader can hold us to."""

    kind: Literal["known-multiples", "whole", "part", "none"]
    text: str


UNCHECKED = Checked("none", "none: --check-seconds 0")


def timed_call(engine: Engine, offset: int, scalars: Limbs, variant: str, started_ns: int) -> Timed:
    """One call, from the moment the points are prepared; `started_ns` is when preparing them began."""
    prepared_ns, cpu_ns = time.perf_counter_ns(), time.process_time_ns()
    point = engine.compute(scalars, offset=offset, size=len(scalars))
    cpu_ns = time.process_time_ns() - cpu_ns
    elapsed_ns = time.perf_counter_ns() - prepared_ns
    device = "webgpu" if engine.variant.name in GPU_SPECS else "cpu"
    return Timed(point, variant, prepared_ns - started_ns, elapsed_ns, cpu_ns, device, engine.fallback_reason)


@dataclass(frozen=True)
class Summands:
    """Points (checked by whoever read them) and scalars, and how to sum them."""

    points: Limbs
    scalars: Limbs
    choices: Choices

    def compute(self, variant: str | None = None) -> Timed:
        started = time.perf_counter_ns()
        asked = variant is None  # otherwise it merely checks: on the CPU, without a budget
        with Engine(
            self.points,
            montgomery=True,
            check=False,
            variant=variant or self.choices.variant,
            threads=self.choices.threads,
            device=self.choices.device if asked else "cpu",
            memory_budget=self.choices.budget_bytes() if asked else None,
            fallback=self.choices.fallback,
        ) as engine:
            return timed_call(engine, 0, self.scalars, str(engine.variant), started)

    def part(self, rows: Any) -> Summands:
        return Summands(self.points[rows], self.scalars[rows], self.choices)

    def cost_ns(self, checker: str) -> float:
        """Per point, from the first few."""
        size = max(1, min(PROBES[checker], len(self.points)))
        return self.part(slice(size)).compute(checker).compute_ns / size


def recompute(timed: Timed, summands: Summands, seed: int) -> Checked:
    """Computes the sum again by another variant within the budget, or a sample of it; says which."""
    n, budget_ns = len(summands.points), int(summands.choices.check_seconds * 1e9)
    if budget_ns == 0:
        return UNCHECKED
    costs: dict[str, float] = {}
    for name in (checker for checker in CHECKERS if checker != timed.variant):
        costs[name] = summands.cost_ns(name)
        if costs[name] * n <= budget_ns:
            with summands.choices.stage(f"check by {name}", None):
                again = summands.compute(name)
            require_equal(timed, again.point, f"variant {name}")
            return Checked("whole", f"equal to the whole sum computed by variant {name}")
    name = min(costs, key=lambda checker: costs[checker])
    size = max(1, int(budget_ns / costs[name]))
    sample = summands.part(np.random.default_rng(seed).choice(n, size, replace=False))
    with summands.choices.stage(f"check a sample by {name}", None):
        require_equal(sample.compute(), sample.compute(name).point, f"variant {name} on a sample")
    covered = f"on a random sample of {size} of {n} points (seed {seed}) equal to variant {name}"
    return Checked("part", f"{covered}; the whole sum was not computed again")


def require_equal(timed: Timed, expected: Point, checker: str) -> None:
    if timed.point != expected:
        raise OracleMismatch(
            f"variant {timed.variant} gives {timed.point}, but {checker} gives {expected}",
            cure="this is a fault in whet; report it, and use --variant plain meanwhile",
        )


@dataclass(frozen=True)
class PreparedSummands:
    """Points in a file that `Engine.save` wrote; and scalars."""

    path: Path
    offset: int
    scalars: Limbs
    choices: Choices

    def compute(self, backend: str = "auto") -> Timed:
        started = time.perf_counter_ns()
        verify = self.choices.check_points != "none"
        with Engine.open(
            self.path,
            verify=verify,
            check="on-curve" if self.choices.check_points == "on-curve" else "none",
            backend=backend,
            threads=self.choices.threads,
            memory_budget=self.choices.budget_bytes(),
        ) as engine:
            engine.view(self.offset, len(self.scalars))  # complains about what the file does not hold
            return timed_call(engine, self.offset, self.scalars, f"affine:backend={engine.backend}", started)

    def first(self, size: int) -> PreparedSummands:
        return PreparedSummands(self.path, self.offset, self.scalars[:size], self.choices)

    def recompute(self, timed: Timed) -> Checked:
        """By another kernel, as many of the first points as fit into the budget."""
        n, budget_ns = len(self.scalars), int(self.choices.check_seconds * 1e9)
        others = [name for name in native.backends() if not timed.variant.endswith(name)]
        if budget_ns == 0:
            return UNCHECKED
        if not others:
            return Checked("none", "none: this CPU runs only one kernel")
        other = others[-1]
        probe = max(1, min(PREPARED_PROBE, n))
        cost_ns = self.first(probe).compute(other).compute_ns / probe
        size = max(1, min(n, int(budget_ns / max(cost_ns, 1.0))))
        part = self.first(size)
        with self.choices.stage(f"check by {other}", None):
            ours = timed if size >= n else part.compute()
            require_equal(ours, part.compute(other).point, f"backend {other}")
        if size >= n:
            return Checked("whole", f"equal to the whole sum computed by backend {other}")
        covered = f"on the first {size} of {n} points equal to backend {other}"
        return Checked("part", f"{covered}; the whole sum was not computed again")
