"""What `whet msm` does: the input, the timed call and the check. Printing is in msm_report."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from whet.cli.console import progress
from whet.errors import BadInput, OracleMismatch
from whet.msm import Engine, Point, inputs
from whet.msm.engine import MAX_N
from whet.msm.oracle import known_multiples
from whet.msm.point import Endian
from whet.msm.points import Scalars, Srs, msm_from_files, write_points
from whet.msm.points.files import Check
from whet.msm.validate import Limbs
from whet.protocol import parse_size

MADE_AT_ONCE = 1 << 16
STRETCH = 1 << 16
# Other ways to compute the same sum, the simplest first. The variant in use is never its own check.
CHECKERS = ("plain", "pippenger", "pippenger:glv=true")
PROBES = {"plain": 32, "pippenger": 4096, "pippenger:glv=true": 4096}


@dataclass(frozen=True)
class Choices:
    """The options as the command line gives them; sizes are still text."""

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
    device: str
    check_seconds: float
    out_path: Path | None
    out_endian: Endian

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


@dataclass(frozen=True)
class Done:
    """What was asked for. `check` says how it was checked, in words a reader can hold us to."""

    timed: Timed
    n: int
    source: dict[str, Any]
    check: str
    threads: int | None = None


@dataclass(frozen=True)
class Summands:
    """Points (checked by whoever read them) and scalars, and how to sum them."""

    points: Limbs
    scalars: Limbs
    choices: Choices

    def compute(self, variant: str | None = None) -> Timed:
        started = time.perf_counter_ns()
        with Engine(
            self.points,
            montgomery=True,
            check=False,
            variant=variant or self.choices.variant,
            threads=self.choices.threads,
            device=self.choices.device,
        ) as engine:
            prepared = time.perf_counter_ns()
            point = engine.compute(self.scalars)
            return Timed(point, str(engine.variant), prepared - started, time.perf_counter_ns() - prepared)

    def part(self, rows: Any) -> Summands:
        return Summands(self.points[rows], self.scalars[rows], self.choices)

    def cost_ns(self, checker: str) -> float:
        """Per point, from the first few."""
        size = max(1, min(PROBES[checker], len(self.points)))
        return self.part(slice(size)).compute(checker).compute_ns / size


def run_made_up(size: str, choices: Choices) -> Done:
    """Points k_i G with known k_i: the oracle needs one multiplication, whatever n is."""
    n = parse_size(size, what="--n")
    if not 0 <= n <= MAX_N:
        raise BadInput(f"--n {size} is outside of 0 to {MAX_N}", cure="larger sums come from files")
    seed = choices.drawn_seed()
    logs = inputs.logs(choices.profile, n, seed)
    scalars = inputs.scalars(choices.profile, n, seed)
    with progress("points", n) as advance:
        points = np.empty((n, 8), np.uint64)
        for start in range(0, n, MADE_AT_ONCE):
            points[start : start + MADE_AT_ONCE] = inputs.points_from_logs(logs[start : start + MADE_AT_ONCE])
            advance(min(MADE_AT_ONCE, n - start), "made")
    summands = Summands(points, scalars, choices)
    with progress("msm"):
        timed = summands.compute()
    with progress("check"):
        expected = known_multiples(inputs.to_ints(logs), inputs.to_ints(scalars))
    _require_equal(timed, expected, "the known multiples of the generator")
    check = "equal to (sum s_i k_i) G, computed with Python integers from the known logarithms"
    return _done(choices, Done(timed, n, {"profile": choices.profile, "seed": seed}, check))


def run_files(points_path: Path, scalars_path: Path, choices: Choices) -> Done:
    """Points and scalars of two files. What does not fit into one call is summed in chunks."""
    offset = parse_size(choices.offset, what="--offset")
    scalars_offset = parse_size(choices.scalars_offset, what="--scalars-offset")
    count = None if choices.count is None else parse_size(choices.count, what="--count")
    seed = choices.drawn_seed()
    with Scalars.open(scalars_path, choices.scalars_format, n=count, offset=scalars_offset) as scalars:
        n = len(scalars)
        with Srs.open(
            points_path,
            choices.points_format,
            n=n,
            offset=offset,
            section=choices.section,
            check=choices.check_points,
        ) as points:
            source = {
                "points": str(points_path),
                "points_format": points.format,
                "section": choices.section,
                "offset": offset,
                "scalars": str(scalars_path),
                "scalars_format": scalars.format,
                "scalars_offset": scalars_offset,
            }
            if n > MAX_N:
                timed, check = _sum_in_chunks(points, scalars, seed, choices)
            else:
                with progress("read"):
                    summands = Summands(points.limbs(), scalars.limbs(), choices)
                with progress("msm"):
                    timed = summands.compute()
                check = _recompute(timed, summands, seed)
    return _done(choices, Done(timed, n, source, check))


def _sum_in_chunks(points: Srs, scalars: Scalars, seed: int, choices: Choices) -> tuple[Timed, str]:
    """For sums beyond one engine call. The time includes reading, which happens in between; one stretch is checked."""
    started = time.perf_counter_ns()
    with progress("msm", len(points)) as advance:
        point = msm_from_files(
            points,
            scalars,
            variant=choices.variant,
            threads=choices.threads,
            progress=lambda done: advance(done, ""),
        )
    elapsed_ns = time.perf_counter_ns() - started
    start = int(np.random.default_rng(seed).integers(0, len(points) - STRETCH))
    stretch = Summands(points.limbs(start, start + STRETCH), scalars.limbs(start, start + STRETCH), choices)
    timed = stretch.compute()
    check = f"summed in chunks; of points {start} to {start + STRETCH} alone (seed {seed}): "
    return Timed(point, timed.variant, 0, elapsed_ns), check + _recompute(timed, stretch, seed)


def _recompute(timed: Timed, summands: Summands, seed: int) -> str:
    """Computes the sum again by another variant within the budget, or a sample of it; says which."""
    n, budget_ns = len(summands.points), int(summands.choices.check_seconds * 1e9)
    if budget_ns == 0:
        return "none: --check-seconds 0"
    costs = {name: summands.cost_ns(name) for name in CHECKERS if name != timed.variant}
    for name, cost_ns in costs.items():
        if cost_ns * n <= budget_ns:
            with progress(f"check by {name}"):
                again = summands.compute(name)
            _require_equal(timed, again.point, f"variant {name}")
            return f"equal to the whole sum computed by variant {name}"
    name = min(costs, key=lambda checker: costs[checker])
    size = max(1, int(budget_ns / costs[name]))
    sample = summands.part(np.random.default_rng(seed).choice(n, size, replace=False))
    with progress(f"check a sample by {name}"):
        _require_equal(sample.compute(), sample.compute(name).point, f"variant {name} on a sample")
    return (
        f"on a random sample of {size} of {n} points (seed {seed}) equal to variant {name}; "
        "the whole sum was not computed again"
    )


def _require_equal(timed: Timed, expected: Point, checker: str) -> None:
    if timed.point != expected:
        raise OracleMismatch(
            f"variant {timed.variant} gives {timed.point}, but {checker} gives {expected}",
            cure="this is a fault in whet; report it, and use --variant plain meanwhile",
        )


def _done(choices: Choices, done: Done) -> Done:
    if choices.out_path is not None:
        write_points(choices.out_path, [done.timed.point], choices.out_endian)
    return replace(done, threads=choices.threads)
