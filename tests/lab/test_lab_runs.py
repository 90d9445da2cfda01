"""Whole comparisons on a browser's device: the gate, the verdict and the stored run are those of any other."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from whet.cli import app
from whet.evidence.budgets import BUDGETS, custom
from whet.evidence.comparison import baseline_of, make_plan, run_comparison
from whet.evidence.record import CONTROL, EMPTY, Outcome
from whet.evidence.registry import load
from whet.evidence.store import Store
from whet.protocol import Case

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.xdist_group("lab")]

HERE = Path(__file__).parent
SAXPY = HERE.parents[1] / "examples" / "saxpy_webgpu.py"
SHORT = custom(BUDGETS["quick"], blocks=5, rounds=2, seconds=20)


def compared(place, ref, variants, case, **changed):
    loaded = load(ref)
    plan = make_plan(loaded, variants, device="browser", seed=7, clock="wall", call_limit_s=120.0)
    plan = replace(plan, elsewhere=place)
    with Store.open(changed.pop("store")) as store:
        return run_comparison(
            loaded,
            plan,
            case,
            baseline=baseline_of(loaded, plan, None),
            budget=changed.pop("budget", SHORT),
            effect=0.02,
            judge="median",
            regime="warm",
            command="whet ab",
            store=store,
            on_progress=lambda share, note: None,
        )


def test_sums_in_a_browser_started_by_the_command(tmp_path, capsys):
    """The command of the manual, end to end: it starts Chromium by itself and stores what it found."""
    store = tmp_path / "runs.sqlite"
    words = [
        "msm",
        "walker",
        "coop",
        "gpu_plain",
        "--device",
        "browser",
        "--n",
        "2^8",
        "--quick",
        "--rounds",
        "1",
        "--seconds",
        "2",
    ]
    assert app.invoke(["ab", *words, "--json", "--store", str(store)]) in (0, 2)
    run = json.loads(capsys.readouterr().out)
    assert [gate["green"] for gate in run["gates"]] == [True] * 3
    assert {v["candidate"] for v in run["verdicts"]} == {"coop", "gpu_plain"}
    assert not any(v["outcome"] == "REFUSED" for v in run["verdicts"])
    assert run["environment"]["adapter"]["backend"] == "browser"
    assert set(run["environment"]["elsewhere"]["first"]) >= {"walker", "coop", "gpu_plain"}
    with Store.open(store) as kept:
        (stored,) = [kept.get(row.id) for row in kept.list()]
    assert {s.variant for s in stored.samples} == {"walker", "coop", "gpu_plain", CONTROL, EMPTY}
    assert all(s.wall_ns > 0 and s.outside_ns >= s.wall_ns for s in stored.samples)


def test_a_users_own_kernel(chromium_device, tmp_path):
    run = compared(chromium_device, str(SAXPY), ["small", "large"], Case(sizes={"n": 1000}), store=tmp_path / "s")
    assert [gate.failure for gate in run.gates if not gate.green] == [], run.verdicts
    assert run.verdicts[0].outcome is not Outcome.REFUSED
    assert run.gates[0].full_checks > 10
    assert run.regions["small"].keys() == {"saxpy"}
    assert "device elsewhere" in run.isolation.name and "outside clock" in run.isolation.missing
    assert run.environment["elsewhere"]["clock_step_ns"] > 0 and run.environment["elsewhere"]["reference_ns"]


def test_faults_in_wgsl_are_refused_and_have_no_time(chromium_device, tmp_path, tried):
    ref = f"{HERE / 'planted_engines.py'}:WrongSaxpy"
    case, variants = Case(sizes={"n": 33}), ["small", "large", "broken", "mute"]
    run = compared(chromium_device, ref, variants, case, store=tmp_path / "s")
    verdicts = {verdict.candidate: verdict for verdict in run.verdicts}
    assert {name: v.outcome for name, v in verdicts.items()} == dict.fromkeys(variants[1:], Outcome.REFUSED)
    assert "does not compile" in verdicts["broken"].reasons[0]
    assert "wrong output" in verdicts["large"].reasons[0]
    assert not {s.variant for s in run.samples} & set(variants[1:])
    assert all(v.ratio is None for v in verdicts.values())
    assert "--device browser" in next(g for g in run.gates if g.variant == "large").failure.command
    tried("planted faults refused in a browser", 3)


def test_a_fault_inside_a_sum_is_refused(chromium_device, tmp_path, tried):
    ref = f"{HERE / 'planted_engines.py'}:WrongSum"
    case = Case(sizes={"n": 7})
    budget = replace(SHORT, gate_seconds=0.1)
    run = compared(chromium_device, ref, ["walker", "coop"], case, store=tmp_path / "s", budget=budget)
    gates = {gate.variant: gate for gate in run.gates}
    assert gates["walker"].green and not gates["coop"].green
    assert not [s for s in run.samples if s.variant == "coop"]
    tried("planted faults refused in a browser")


@pytest.mark.skipif("WHET_ALL_LAB" not in os.environ, reason="tests/gpu has its program in Chromium; make soak")
def test_a_step_of_decode(chromium_device, tmp_path):
    """An engine with weights and a cache that stay on the device."""
    loaded = load("decode")
    case = loaded.engine.cases()[0]
    budget = replace(SHORT, gate_seconds=0.1, seconds=5)
    run = compared(
        chromium_device, "decode", ["webgpu", "webgpu:wo_split=2"], case, store=tmp_path / "s", budget=budget
    )
    assert all(gate.green for gate in run.gates)


@pytest.mark.skipif("WHET_ALL_LAB" not in os.environ, reason="a figure for docs/lab.md, not a bound; make soak")
def test_what_a_repeat_costs_beyond_its_wall_time(chromium_device, tmp_path):
    """A sum of 2^10 on loopback: from sending its inputs to having its outputs, less what the page's clock says."""
    budget = replace(SHORT, gate_seconds=0.1, seconds=120)
    case = Case(sizes={"n": 1 << 10})
    run = compared(chromium_device, "msm", ["walker", "coop"], case, store=tmp_path / "s", budget=budget)
    sums = [s for s in run.samples if s.variant in ("walker", "coop")]
    beyond = sorted((s.outside_ns - s.wall_ns) / s.calls / 1e6 for s in sums)
    wall = sorted(s.wall_ns / s.calls / 1e6 for s in sums)
    middle = len(beyond) // 2
    print(f"{len(sums)} sums of 2^10, wall {wall[middle]:.0f} ms: ", end="")
    print(f"{beyond[middle]:.1f} ms beyond ({beyond[0]:.1f} to {beyond[-1]:.1f})")
    assert len(sums) >= 10 and beyond[0] > 0
