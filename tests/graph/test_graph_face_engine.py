"""The graph engine under the protocol of the gate, and the table of native codes."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from whet.errors import BadInput, WhetError
from whet.graph.engine import GraphEngine
from whet.graph.errors import GraphDeadlock, GraphStalled, TaskFailed
from whet.graph.status import raise_for
from whet.protocol import Case, parse_variant

ROOT = Path(__file__).parents[2]
VARIANTS = [
    "wired",
    "polling:workers=3",
    "hybrid",
    "hybrid:edges=given,window=64",
    "wired:edges=given,workers=1",
    "replay",
    "replay:coarsen=false,workers=4",
]


@pytest.mark.parametrize("text", VARIANTS)
def test_every_variant_agrees_with_the_oracle_on_every_case(text, tried):
    engine = GraphEngine()
    variant = parse_variant(engine, text)
    for case in engine.cases():
        if "window=64" in text and case.profile == "pa":
            continue  # one sequence of this family needs 257 slots
        fixed, inputs = engine.fixed(case, 5), engine.prepare(case, 6)
        together = {**fixed, **inputs}
        want = engine.oracle(case, 5, 6, together)["cells"]
        state = engine.setup(variant, case, fixed, "cpu")
        try:
            for _ in range(2):
                shape = engine.outputs(case)["cells"].shape
                got = np.full(shape, 0xDEAD, np.uint64)
                engine.run(variant, state, together, {"cells": got})
                np.testing.assert_array_equal(got, want)
                tried("tasks checked by their mixed numbers", len(got))
        finally:
            engine.close(state)


def test_another_seed_is_another_answer():
    engine = GraphEngine()
    case = Case(sizes={"tasks": 50}, profile="random")
    answers = []
    for fixed_seed, seed in ((1, 1), (1, 2), (2, 1)):
        inputs = {**engine.fixed(case, fixed_seed), **engine.prepare(case, seed)}
        answers.append(engine.oracle(case, fixed_seed, seed, inputs)["cells"].tobytes())
    assert len(set(answers)) == 3


@pytest.mark.parametrize("sizes", [{}, {"n": 4}, {"tasks": 0}, {"tasks": 2**40}, {"tasks": 4, "n": 2}])
def test_cases_that_do_not_exist(sizes):
    with pytest.raises(BadInput, match="tasks"):
        GraphEngine().outputs(Case(sizes=sizes, profile="random"))


def test_a_window_that_is_no_power_of_two_is_refused_before_anything_runs():
    with pytest.raises(BadInput, match="power of two"):
        parse_variant(GraphEngine(), "hybrid:window=100")


def test_every_native_code_is_a_typed_error():
    """Read from the table of the core, so that a new code without an error here is noticed."""
    source = (ROOT / "native" / "graph" / "errors.cpp").read_text()
    table = source[source.index("kTexts") : source.index("};")]
    codes = [name for name in re.findall(r'\{"(\w+)",', table) if name not in ("ok", "interrupted")]
    assert {"window_deadlock", "stalled", "forked", "task_failed"} <= set(codes)
    for code in codes:
        with pytest.raises(WhetError, match="detail") as caught:
            raise_for((code, "cause", "cure", "detail", 3, 1, None))
        assert caught.value.cure == "cure"
        assert type(caught.value).__name__ != "GraphError", f"{code} has no error of its own"


def test_an_interrupt_stays_an_interrupt():
    for raised in (None, KeyboardInterrupt()):
        with pytest.raises(KeyboardInterrupt) as caught:
            raise_for(("interrupted", "cause", "cure", "", 0, 0, raised))
        assert raised is None or caught.value is raised


def test_codes_become_the_right_errors():
    with pytest.raises(GraphStalled):
        raise_for(("stalled", "nothing runs", "see", "task 3 (qk) waits for 1 2", 3, 0, None))
    with pytest.raises(GraphDeadlock) as caught:
        raise_for(("heap_deadlock", "full", "raise heap_bytes", "", 3, 0, None))
    assert caught.value.option == "heap_bytes"
    with pytest.raises(TaskFailed) as failed:
        raise_for(("task_failed", "a task failed", "see", "task 7 (qk) returned 3", 7, 3, None))
    assert (failed.value.name, failed.value.task, failed.value.status) == ("qk", 7, 3)
