"""One sum that somebody asked for: where its points and scalars come from, and how it was checked."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from whet.errors import BadInput, Unsupported
from whet.msm import inputs
from whet.msm.checked_sums import Checked, Choices, PreparedSummands, Summands, Timed, recompute, require_equal
from whet.msm.engine import MAX_N
from whet.msm.oracle import known_multiples
from whet.msm.points import Scalars, Srs, msm_from_files, write_points
from whet.msm.points.prepared import is_prepared
from whet.protocol import parse_size

MADE_AT_ONCE = 1 << 12
STRETCH = 1 << 16


@dataclass(frozen=True)
class Done:
    """What was asked for, and how it was checked."""

    timed: Timed
    n: int
    source: dict[str, Any]
    check: Checked
    threads: int | None = None


def run_made_up(size: str, choices: Choices) -> Done:
    """Points k_i G with known k_i: the oracle needs one multiplication, whatever n is."""
    n = parse_size(size, what="--n")
    if not 0 <= n <= MAX_N:
        raise BadInput(f"--n {size} is outside of 0 to {MAX_N}", cure="larger sums come from files")
    seed = choices.drawn_seed()
    logs = inputs.logs(choices.profile, n, seed)
    scalars = inputs.scalars(choices.profile, n, seed)
    points = np.empty((n, 8), np.uint64)
    pieces = [slice(start, start + MADE_AT_ONCE) for start in range(0, n, MADE_AT_ONCE)]
    with choices.stage("points", n) as advance, ThreadPoolExecutor(os.cpu_count()) as pool:
        try:
            for piece, made in zip(pieces, pool.map(lambda at: inputs.points_from_logs(logs[at]), pieces), strict=True):
                points[piece] = made
                advance(len(made), "made")
        finally:
            pool.shutdown(cancel_futures=True)  # nobody waits for the rest after Ctrl-C
    summands = Summands(points, scalars, choices)
    with choices.stage("msm", None):
        timed = summands.compute()
    with choices.stage("check", None):
        expected = known_multiples(inputs.to_ints(logs), inputs.to_ints(scalars))
    require_equal(timed, expected, "the known multiples of the generator")
    text = "equal to (sum s_i k_i) G, computed with Python integers from the known logarithms"
    return _done(choices, Done(timed, n, {"profile": choices.profile, "seed": seed}, Checked("known-multiples", text)))


def run_files(points_path: Path, scalars_path: Path, choices: Choices) -> Done:
    """Points and scalars of two files. What does not fit into one call is summed in chunks."""
    offset = parse_size(choices.offset, what="--offset")
    scalars_offset = parse_size(choices.scalars_offset, what="--scalars-offset")
    count = None if choices.count is None else parse_size(choices.count, what="--count")
    seed = choices.drawn_seed()
    with Scalars.open(scalars_path, choices.scalars_format, n=count, offset=scalars_offset) as scalars:
        n = len(scalars)
        if is_prepared(points_path, choices.points_format):
            return _run_prepared(points_path, offset, scalars, choices)
        with Srs.open(
            points_path,
            choices.points_format,
            n=n,
            offset=offset,
            section=choices.section,
            check=choices.check_points,
        ) as points:
            source = _describe(points_path, points.format, offset, scalars) | {"section": choices.section}
            in_pieces = choices.memory_budget is not None and choices.device in ("auto", "cpu")
            if n > MAX_N or in_pieces:
                timed, check = _sum_in_chunks(points, scalars, seed, choices)
            else:
                with choices.stage("read", None):
                    summands = Summands(points.limbs(), scalars.limbs(), choices)
                with choices.stage("msm", None):
                    timed = summands.compute()
                check = recompute(timed, summands, seed)
    return _done(choices, Done(timed, n, source, check))


def _run_prepared(points_path: Path, offset: int, scalars: Scalars, choices: Choices) -> Done:
    """Points that the engine saved itself: nothing is prepared again."""
    if choices.variant not in ("auto", "affine"):
        raise BadInput(f"prepared points are for variant affine, not {choices.variant}", cure="leave --variant out")
    if choices.device not in ("auto", "cpu"):
        raise Unsupported(f"prepared points have no device {choices.device!r}", cure="devices: auto, cpu")
    if choices.section is not None:
        raise BadInput("a file of prepared points has no sections", cure="leave --section out")
    summands = PreparedSummands(points_path, offset, scalars.limbs(), choices)
    with choices.stage("msm", None):
        timed = summands.compute()
    source = _describe(points_path, "prepared", offset, scalars)
    return _done(choices, Done(timed, len(scalars), source, summands.recompute(timed)))


def _describe(points_path: Path, points_format: str, offset: int, scalars: Scalars) -> dict[str, Any]:
    return {
        "points": str(points_path),
        "points_format": points_format,
        "offset": offset,
        "scalars": scalars.path,
        "scalars_format": scalars.format,
        "scalars_offset": scalars.offset,
    }


def _sum_in_chunks(points: Srs, scalars: Scalars, seed: int, choices: Choices) -> tuple[Timed, Checked]:
    """For what one call cannot hold. The time includes reading, which happens in between; one stretch is checked."""
    started, cpu_started = time.perf_counter_ns(), time.process_time_ns()
    with choices.stage("msm", len(points)) as advance:
        point = msm_from_files(
            points,
            scalars,
            variant=choices.variant,
            threads=choices.threads,
            memory_budget=choices.budget_bytes(),
            progress=lambda done: advance(done, ""),
        )
    elapsed_ns, cpu_ns = time.perf_counter_ns() - started, time.process_time_ns() - cpu_started
    size = min(STRETCH, len(points))
    start = int(np.random.default_rng(seed).integers(0, len(points) - size + 1))
    stretch = Summands(points.limbs(start, start + size), scalars.limbs(start, start + size), choices)
    if size == len(points):
        timed = Timed(point, choices.variant, 0, elapsed_ns, cpu_ns)
        return timed, recompute(timed, stretch, seed)
    timed = stretch.compute()
    checked = recompute(timed, stretch, seed)
    text = f"summed in chunks; of points {start} to {start + size} alone (seed {seed}): {checked.text}"
    kind = "part" if checked.kind == "whole" else checked.kind
    return Timed(point, timed.variant, 0, elapsed_ns, cpu_ns), Checked(kind, text)


def _done(choices: Choices, done: Done) -> Done:
    if choices.out_path is not None:
        write_points(choices.out_path, [done.timed.point], choices.out_endian)
    return replace(done, threads=choices.threads)
