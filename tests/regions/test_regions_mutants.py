"""Faults planted in the analysis itself: each must break at least one truth that the simulated launch knows."""

from __future__ import annotations

import tomllib

import numpy as np
import pytest

from regions_launch import Launch, rich_schema_text
from test_regions_legacy import GRID, ROWS, plain_reduction
from whet.regions import accounting, checks, critical, legacy, reducer
from whet.regions.accounting import Account, account
from whet.regions.capture import CELL, About, from_legacy, make_capture
from whet.regions.critical import Barriers, Replay, critical_path
from whet.regions.grid import Grid
from whet.regions.prediction import predict
from whet.regions.schema import Schema, builtin, parse
from whet.regions.ticks import TickStep
from whet.regions.verdict import Bracket, Thresholds, judge

LAUNCH = Launch(wo_split=2, trips=6, seqs=2)
FAST = Launch(wo_split=2, trips=6, seqs=2, wo_ns=LAUNCH.wo_ns // 8)
SCHEMA = parse(tomllib.loads(rich_schema_text()), where="test")


def rich(cells=None):
    about = About(
        tick_source="globaltimer",
        grid={**LAUNCH.grid, "wo_split": 2, "trips": 6},
        launch={"layer": 3},
        total_ns=float(LAUNCH.span),
    )
    return make_capture(LAUNCH.cells(CELL) if cells is None else cells, SCHEMA, about)


def summed():
    schema = builtin("coop-20")
    return from_legacy(LAUNCH.legacy(20), schema, schema.grid({**LAUNCH.grid, "wo_split": 2}), "globaltimer")


def truths():
    """What must hold, each said by the simulation or by plain Python, never by the code that is asked."""
    path = critical_path(account(rich()))
    last = path.legs[0].worker
    yield "legs add up", path.length == LAUNCH.span
    yield "fc1 on the path", path.ticks[7] == pytest.approx(LAUNCH.total(last, 7))
    yield "arrival and its part", path.ticks[10] + path.ticks.get(15, 0) == pytest.approx(LAUNCH.total(last, 10))
    yield "wo on the path", path.ticks[2] == pytest.approx(LAUNCH.total(LAUNCH.last_arriver[last // 64], 2))
    yield "sums agree", critical_path(account(summed())).ticks[16] == pytest.approx(LAUNCH.total(last, 7))
    barrier = [wait for waits in Barriers(account(rich())).waits.values() for wait in waits if wait.region == 4]
    yield "last arrivers", all(wait.cause == LAUNCH.last_arriver[wait.worker // 64] for wait in barrier)
    gain = predict(rich(), ["region=wo_gemv factor=8"]).predicted_gain
    yield "gain", gain == pytest.approx(1 - FAST.span / LAUNCH.span, abs=0.002)

    small = Launch(trips=2)
    buffer = small.legacy(11)
    buffer[5, 2] = buffer[8, 2]
    schema = builtin("coop-11")
    table = legacy.legacy_csv(
        legacy.reduce_legacy(from_legacy(buffer, schema, schema.grid(GRID), "globaltimer"), 5000.0)
    )
    yield "legacy table", table == plain_reduction(buffer.tolist(), ROWS, 5000.0)

    blind = LAUNCH.cells(CELL)
    for region in (7, 8, 9):
        blind["ticks"][100, region] //= 2
    outsider = LAUNCH.cells(CELL)
    outsider[5, 0] = (*outsider[5, 13].tolist()[:2], 0, 1, 1)
    yield "clean", judge(rich()).bracket is Bracket.STRONG_GO
    yield "one blind row", judge(rich(blind)).bracket is Bracket.UNSUPPORTED
    yield "an outsider", judge(rich(outsider)).bracket is Bracket.UNSUPPORTED
    yield "step", reducer.reduce(rich()).tick_step == 32
    post = reducer.reduce(rich()).row(3)
    short = sum(LAUNCH.total(w, 3) < 32 for w in range(128) if (w, 3) in LAUNCH.events)
    yield "below the step", post.below_tick == short and post.active_workers == 16
    yield "bounds", [Thresholds().bracket(s).value for s in (0.5, 0.4, 0.25)] == ["STRONG GO", "PROCEED", "CONDITIONAL"]


def first_broken():
    for name, held in truths():
        if not held:
            return name
    return None


def test_every_truth_holds_without_a_fault():
    assert first_broken() is None


def whole_ticks(self, worker, start, end):
    row = self.by_worker[worker]
    return {piece.region: piece.within(start, end) for piece in (*row.roots, *row.nested)}


def slowest_axis_first(original):
    def names(self):
        return original(Grid(tuple(reversed(self.axes)), self.sizes, self.parameters))

    return names


MUTANTS = {
    "samples are summed too": (accounting, "is_sample", lambda *a: False),
    "parts are added to their whole": (Account, "self_ticks", whole_ticks),
    "the first arriver explains the wait": (Barriers, "arrived", lambda self, arrivals, until: 1),
    "waits of all sequences are one": (Grid, "groups", lambda self, shared: np.zeros(self.workers, dtype=np.int64)),
    "a change saves nothing": (Replay, "saved", lambda *a: 0.0),
    "a change moves no barrier": (Replay, "left", lambda self, wait: wait.exit),
    "inactive workers are counted": (Schema, "masks", lambda s, g: np.ones((g.workers, len(s.regions)), dtype=bool)),
    "the mean row stands for the worst": (
        Account,
        "coverage",
        property(lambda self: float(np.mean([row.coverage for row in self.rows]))),
    ),
    "the slowest axis is taken for the fastest": (Grid, "names", slowest_axis_first(Grid.names)),
    "the clock is taken at its word": (reducer, "detect_step", lambda ticks, declared=None: TickStep(1, 1, None)),
    "bounds are excluded": (Thresholds, "bracket", lambda self, s: Bracket.STRONG_GO if s > 0.5 else Bracket.NO_GO),
    "workers are not checked": (checks, "_workers", lambda counted: checks.Check("workers as declared", True, "")),
    "coverage is not checked": (checks, "_coverage", lambda counted, limits: checks.Check("coverage", True, "")),
    "the path starts at the wait": (
        critical,
        "_path",
        lambda a, legs, start, original=critical._path: original(a, legs[:2], legs[1].start),
    ),
}


@pytest.mark.parametrize("what", MUTANTS)
def test_a_fault_in_the_analysis_breaks_a_truth(what, monkeypatch, tried):
    owner, name, replacement = MUTANTS[what]
    monkeypatch.setattr(owner, name, replacement)
    try:
        broken = first_broken()
    except (ArithmeticError, LookupError, ValueError) as problem:
        broken = type(problem).__name__
    assert broken is not None
    tried("planted faults", 1)
