"""Bodies that take time, wake targets as variants, and what polling and waking are counted and timed as."""

from __future__ import annotations

import numpy as np
import pytest

from whet.errors import BadInput
from whet.graph.engine import GraphEngine, mixed_in_order
from whet.graph.latency import WAYS, Bodies, costs
from whet.graph.overhead import BODIES, OverheadEngine, case_of, workload_of
from whet.graph.runtime import WAKE_TARGETS
from whet.protocol import Case, parse_variant


@pytest.mark.parametrize("target", WAKE_TARGETS)
@pytest.mark.parametrize("family", ["random", "wavefront", "fan"])
def test_every_wake_target_runs_every_task_after_its_producers(target, family):
    engine = GraphEngine()
    variant = parse_variant(engine, f"hybrid:workers=3,wake_target={target}")
    state = engine.setup(variant, Case(sizes={"tasks": 3000}, profile=family), {"graph_seed": np.array([5])}, "cpu")
    cells = np.zeros(state.work.tasks, np.uint64)
    try:
        for seed in (1, 2, 3):
            state.run(seed, cells)
            assert np.array_equal(cells, mixed_in_order(state.work, seed))
    finally:
        engine.close(state)


@pytest.mark.parametrize("kind", BODIES)
def test_bodies_take_about_as_long_as_they_say(kind):
    engine = OverheadEngine()
    case = case_of("chain", 64, 20_000, kind)
    state = engine.setup(parse_variant(engine, "hybrid:workers=1,edges=given"), case, {}, "cpu")
    try:
        turn = state.timed()
    finally:
        engine.close(state)
    # Nothing can make them shorter; half of the mean is the least of a long tail, and devices work side by side.
    assert turn["wall"] >= 64 * 20_000 / 2


def timed_turn(variant: str) -> dict[str, int]:
    engine = OverheadEngine()
    state = engine.setup(parse_variant(engine, variant), case_of("chain", 400, 5_000), {}, "cpu")
    try:
        for _ in range(50):
            turn = state.timed()
            if turn["poll count"] or turn["wake count"]:
                break
        return turn
    finally:
        engine.close(state)


def test_a_chain_is_looked_at_under_polling_and_woken_under_the_others():
    polled = timed_turn("polling:workers=2,edges=given,phases=true")
    assert polled["poll count"] > 0 and polled["poll"] > 0
    assert polled["wake count"] == 0 and polled["wake"] == 0
    for way in ("wired", "hybrid"):
        woken = timed_turn(f"{way}:workers=2,edges=given,phases=true")
        assert woken["wake count"] > 0 and woken["wake"] > 0
        assert woken["poll count"] == 0 and woken["poll"] == 0


def test_counts_are_kept_without_times():
    turn = timed_turn("polling:workers=2,edges=given")
    assert turn["poll count"] > 0
    assert turn["poll"] == turn["idle"] == 0


def test_costs_are_per_task_and_medians():
    def turns(variants, case, rounds):
        tasks = workload_of(case).tasks
        seen = dict.fromkeys(("poll", "dispatch", "completion", "idle"), 10 * tasks)
        seen |= {"wake count": tasks, "poll count": 2 * tasks, "wake": 3 * tasks, "processor": 7 * tasks}
        return {text: [{**seen, "wall": wall * tasks} for wall in (1, 5, 100)] for text in variants}

    found = costs(case_of("chain", 100, 1000), 2, 3, turns)
    assert [cost.way for cost in found] == [way.replace(":wake_target=", ", ") for way in WAYS]
    first = found[0]
    assert (first.wall_ns, first.cpu_ns, first.woken, first.looked) == (5, 7, 1, 2)
    assert first.poll_share == pytest.approx(1 / 3)
    assert first.bodies == "1 µs"


@pytest.mark.parametrize(("text", "bodies"), [("5us", ("fixed", 5000)), ("tail:800ns", ("tail", 800))])
def test_lengths_are_read(text, bodies):
    assert Bodies.parse(text) == bodies


@pytest.mark.parametrize("text", ["", "5", "5ms", "0us", "gpu:5us", "-1us", "99999999999us"])
def test_other_lengths_are_refused(text):
    with pytest.raises(BadInput, match="how long bodies take"):
        Bodies.parse(text)
