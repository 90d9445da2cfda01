"""Whole experiments, kept short: every level of isolation, both regimes, and unequal calls per turn."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_task import CASE, need_namespaces, plan_of, rig_of, write_task

from whet.evidence import system
from whet.evidence.budgets import BUDGETS, custom
from whet.evidence.experiment import Experiment
from whet.evidence.record import Outcome
from whet.evidence.rig import Rig

# About a tenth of a millisecond of real work, the same for both variants.
WORK = "np.sin(np.arange(10_000.0))"
SHORT = custom(BUDGETS["quick"], blocks=5, rounds=3, seconds=30, confidence=0.999)


def experiment(path: Path, variants: str = "ab", **more):
    plan = plan_of(path, variants, **more)
    return Experiment(
        plan=plan,
        case=CASE,
        budget=SHORT,
        baseline=variants[0],
        command="whet ab",
        engine_sha256="",
        evidence_folder=path.parent / "evidence",
    ).run()


@pytest.mark.parametrize("level", system.LEVELS)
def test_a_verdict_is_reached_with_every_isolation(level, tmp_path, monkeypatch):
    """Honest variants are green, a wrong one is refused, and the record says how well they were kept apart."""
    monkeypatch.setenv("WHET_ISOLATION", level)
    if level == "full":
        need_namespaces()
    slow = f"for _ in range(1 if variant.name == 'b' else 8): {WORK}"
    run = experiment(write_task(tmp_path, run=slow))
    (said,) = run.verdicts
    assert said.outcome in (Outcome.FASTER, Outcome.UNDECIDED) and all(gate.green for gate in run.gates), said
    assert said.ratio is not None and said.ratio < 0.7
    assert run.isolation.name.startswith(level)
    assert ("weaker" in run.isolation.name) == bool(run.isolation.missing) == (level != "full")


@pytest.mark.parametrize("level", system.LEVELS)
def test_a_wrong_variant_is_refused_with_every_isolation(level, tmp_path, monkeypatch, tried):
    monkeypatch.setenv("WHET_ISOLATION", level)
    run = experiment(write_task(tmp_path, run="if variant.name == 'b': outputs['y'][0] += 1"))
    (said,) = run.verdicts
    assert said.outcome is Outcome.REFUSED and [gate.green for gate in run.gates] == [True, False]
    assert run.gates[1].failure.reason == "wrong output" and "whet check" in run.gates[1].failure.command
    tried("planted faults")


def test_warm_turns_have_a_call_before_them_and_cold_ones_have_not(tmp_path):
    """Counted by the variant itself, which tells in the third turn."""
    tell = """
    state.append(1)
    if len(state) == 6 or (len(state) == 3 and COLD): raise RuntimeError(f"calls {len(state)}")
    """
    for regime, told, turn in (("warm", "calls 6", 2), ("cold", "calls 3", 2)):
        path = write_task(tmp_path, setup="return []", run=tell.replace("COLD", str(regime == "cold")))
        with Rig(plan_of(path, "a", regime=regime)) as rig:
            rig.open(CASE)
            rig.start(["a"])
            for number in range(3):
                found = rig.round(("x", number), ["a"])["a"]
                assert hasattr(found, "reason") == (number == turn), (regime, number, found)
        assert told in found.detail


def test_the_cold_regime_empties_the_caches_before_every_turn_and_calls_once(tmp_path, monkeypatch):
    evicted = []
    monkeypatch.setattr("whet.evidence.officials.Officials.evict", lambda self, cores: evicted.append(cores))
    run = experiment(write_task(tmp_path, run=WORK), regime="cold")
    assert run.design.regime == "cold" and run.design.calls == 1
    assert {sample.calls for sample in run.samples} == {1}
    assert len(evicted) >= len(run.samples) and all(evicted)


def test_the_regime_is_warm_unless_asked_otherwise(tmp_path, monkeypatch):
    monkeypatch.setattr("whet.evidence.officials.Officials.evict", lambda self, cores: pytest.fail("nobody asked"))
    with rig_of(tmp_path, "a") as rig:
        rig.open(CASE)
        rig.start(["a"])
        assert rig.plan.regime == "warm" and rig.round(("x", 0), ["a"])["a"].calls == 1


@pytest.mark.alone
@pytest.mark.parametrize("factor", [1, 2, 4])
def test_more_calls_per_turn_do_not_look_faster(factor, tmp_path):
    """One kernel against itself under another name, with more calls in each of its turns."""
    run = experiment(write_task(tmp_path, run=WORK), more_calls={"b": factor})
    (said,) = run.verdicts
    calls = {name: {s.calls for s in run.samples if s.variant == name} for name in "ab"}
    assert calls["b"] == {factor * count for count in calls["a"]}
    assert said.outcome in (Outcome.SAME, Outcome.UNDECIDED), said
    assert said.low <= 1 <= said.high
