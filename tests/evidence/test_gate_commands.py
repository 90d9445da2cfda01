"""`whet check`, `ab` and `sweep` as a user meets them: the examples, exit codes, JSON, the store, what is printed."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from small_task import CASE, rig_of

from whet.cli.app import invoke
from whet.cli.growth_view import fitted_exponent
from whet.cli.run_view import exit_code
from whet.errors import BadInput, DeviceError, ExitCode, Unsupported
from whet.evidence.cases import shrinking
from whet.evidence.examination import examine
from whet.evidence.readings import Reading
from whet.evidence.record import CONTROL, EMPTY, Gate, Outcome, Run, Verdict
from whet.evidence.store import Store
from whet.protocol import Case

EXAMPLES = Path(__file__).parents[2] / "examples"
SHORT = ("--quick", "--seconds", "3")
WHET = Path(sys.executable).with_name("whet")


@pytest.fixture
def store(tmp_path, monkeypatch):
    path = tmp_path / "runs.sqlite"
    monkeypatch.setenv("WHET_STORE", str(path))
    return path


def whet(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([WHET, *words], capture_output=True, text=True, timeout=300, check=False, env=os.environ)


def test_numpy_example_reaches_a_verdict(store):
    done = whet("ab", str(EXAMPLES / "horner_numpy.py"), "powers", "horner", "--n", "2^12", "--quick", "--seed", "3")
    assert done.returncode == ExitCode.OK, done.stderr
    assert "FASTER" in done.stdout and "ship: horner" in done.stdout and "\x1b[" not in done.stdout
    assert done.stderr == "", "no progress where nobody looks"
    with Store.open(store) as runs:
        run = runs.get("last")
    assert run.seed == 3 and run.variants == ["powers", "horner"] and run.baseline == "powers"
    assert run.command.endswith("--quick --seed 3") and f"run {run.id}" in done.stdout
    arms = {"powers", "horner", CONTROL, EMPTY}
    assert {sample.variant for sample in run.samples} == arms and len(run.engine_sha256) == 64
    assert all(gate.green and gate.full_checks >= 10 for gate in run.gates)
    assert run.summaries["horner"] and run.tolerance and run.isolation and run.floor and run.control and run.tails
    assert len({sample.seed for sample in run.samples}) == len(run.samples) / len(arms), "all see the same fresh seed"


def test_numba_example_with_a_knob(store):
    """The gate alone: a trial would compile it anew in every block."""
    pytest.importorskip("numba")
    done = whet("check", str(EXAMPLES / "histogram_numba.py"), "numpy", "numba:lanes=4", "--n", "2^12", "--json")
    assert done.returncode == ExitCode.OK, done.stderr
    assert [(gate["variant"], gate["green"]) for gate in json.loads(done.stdout)["gates"]] == [
        ("numpy", True),
        ("numba:lanes=4", True),
    ]


def test_wrong_example_is_refused_and_its_command_fails_again(store):
    done = whet("ab", str(EXAMPLES / "wrong_on_purpose.py"), "plain", "unrolled", "--quick")
    assert done.returncode == ExitCode.REFUSED
    assert "REFUSED" in done.stdout and "ship: plain" in done.stdout
    (again,) = [line.partition("fails again: ")[2] for line in done.stdout.splitlines() if "fails again" in line]
    assert "--size rows=1 " in again, "the smallest failing case"
    repeated = whet(*shlex.split(again)[1:])
    assert repeated.returncode == ExitCode.REFUSED and "wrong output" in repeated.stdout
    (saved,) = [line.partition("evidence: ")[2] for line in done.stdout.splitlines() if "evidence:" in line]
    assert Path(saved).is_file() and Path(saved).is_relative_to(store.parent)


@pytest.mark.parametrize("name", ["horner_numpy", "wrong_on_purpose"])
def test_an_example_stays_short(name):
    code = [line for line in (EXAMPLES / f"{name}.py").read_text().splitlines() if line.strip()]
    assert len(code) <= 40


def test_check_goes_through_all_cases_and_variants(store, capsys):
    assert invoke(["check", str(EXAMPLES / "horner_numpy.py"), "--json", "--seed", "4"]) == ExitCode.OK
    told = json.loads(capsys.readouterr().out)
    assert len(told["cases"]) == 5 and told["seed"] == 4
    assert [(gate["variant"], gate["full_checks"]) for gate in told["gates"]] == [("powers", 15), ("horner", 15)]


def test_check_of_many_cases_names_the_smallest_that_fails(store, capsys):
    assert invoke(["check", str(EXAMPLES / "wrong_on_purpose.py"), "--seed", "4"]) == ExitCode.REFUSED
    out = capsys.readouterr().out
    assert "green: plain" in out and "red: unrolled" in out and "rows=1 columns=1" in out


def test_sweep_shows_growth_and_stores_each_point(store, capsys):
    words = ["sweep", str(EXAMPLES / "horner_numpy.py"), "powers", "horner", "--axis", "n=2^9,2^13", *SHORT]
    assert invoke([*words, "--effect", "0.2"]) == ExitCode.OK
    out = capsys.readouterr().out
    assert "n=512" in out and "n=8192" in out and "powers: time grows as elements^" in out
    with Store.open(store) as runs:
        assert len(list(runs.list())) == 2


def test_sweep_over_a_knob_compares_its_values(store, capsys):
    axes = ["--axis", "window=256,1024", "--axis", "tasks=50", "--profile", "chain"]
    assert invoke(["sweep", "graph", "hybrid", "replay", *axes, *SHORT, "--json"]) == ExitCode.OK
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    variants = [gate["variant"] for gate in run["gates"]]
    assert variants == ["hybrid:window=256", "hybrid:window=1024", "replay"]
    assert run["baseline"] == "hybrid:window=256" and len(run["verdicts"]) == 2


def test_sweep_of_one_variant_times_it(store, capsys):
    words = ["sweep", str(EXAMPLES / "horner_numpy.py"), "horner", "--axis", "n=64", "--quick", "--json"]
    assert invoke(words) == ExitCode.OK
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    own = [sample for sample in run["samples"] if sample["variant"] == "horner"]
    assert len({sample["block"] for sample in own}) >= 5
    assert len(own) == sum(block["rounds"] for block in run["design"]["blocks"])
    assert run["verdicts"] == []


def test_same_seed_same_plan_same_bytes(store, capsys):
    """Two runs on one seed agree in fixed inputs and order; the inputs of timed turns are salted."""

    def bytes_of_run():
        invoke(["sweep", str(EXAMPLES / "horner_numpy.py"), "--axis", "n=100", *SHORT, "--seed", "9", "--json"])
        (run,) = json.loads(capsys.readouterr().out)["runs"]
        # How many rounds a block has follows from the time they take; the first ones are in both.
        kept = [(s["variant"], s["round"], s["order"]) for s in run["samples"] if s["round"] == s["block"] == 0]
        return (kept, run["fixed_seed"]), {s["seed"] for s in run["samples"]}

    (first, some), (second, others) = bytes_of_run(), bytes_of_run()
    assert first == second and not some & others


def test_a_store_that_cannot_be_opened_fails_before_anything_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("WHET_STORE", str(tmp_path))
    done = whet("ab", str(EXAMPLES / "horner_numpy.py"), "powers", "horner", "--quick")
    assert done.returncode == ExitCode.ENVIRONMENT and "cure:" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "lines, error",
    [
        ({"setup": "raise Unsupported('no such unit', cure='another machine')"}, Unsupported),
        ({"setup": "raise BadInput('n is odd', cure='even n')"}, BadInput),
        ({"setup": "raise DeviceLost('gone', cure='again')"}, DeviceError),
    ],
)
def test_what_no_variant_can_do_here_is_no_refusal(tmp_path, lines, error):
    with rig_of(tmp_path, **lines) as rig, pytest.raises(error):
        examine(rig, CASE)


@pytest.mark.parametrize("where", ["setup", "run"])
@pytest.mark.parametrize("error", ["DeviceLost('gone', cure='again')", "Unsupported('no such unit', cure='another')"])
def test_a_device_that_fails_one_variant_costs_only_that_one(tmp_path, where, error):
    with rig_of(tmp_path, **{where: f"if variant.name == 'a': raise {error}"}) as rig:
        readings, refusals = examine(rig, CASE, turns=2)
    assert set(refusals) == {"a"} and refusals["a"].red.reason == "device failed"
    assert error.partition("(")[0] in refusals["a"].red.detail and [len(readings[name]) for name in readings] == [2]


def test_a_variant_that_fails_in_setup_is_red_and_the_other_goes_on(tmp_path):
    with rig_of(tmp_path, setup="if variant.name == 'a': {}['missing']") as rig:
        rig.open(CASE)
        failed = rig.start(["a", "b"])
        assert set(failed) == {"a"} and failed["a"].reason == "raised" and "KeyError" in failed["a"].detail
        rig.retire("a")
        assert rig.alive == ["b"]
        found = rig.round(("x", 1), ["b"])["b"]
        assert isinstance(found, Reading) and found.calls == 1


def test_replacing_a_buffer_is_explained(tmp_path):
    with rig_of(tmp_path, "a", run="outputs['y'] = inputs['x'] * 1") as rig:
        rig.open(CASE)
        rig.start(["a"])
        found = rig.round(("x", 1), ["a"])["a"]
        assert found.reason == "raised" and "cannot be replaced" in found.detail


def run_with(*outcomes, green=True):
    verdicts = [Verdict(candidate=str(i), baseline="a", outcome=said) for i, said in enumerate(outcomes)]
    gates = [Gate(variant="a", green=green, full_checks=1, digest_checks=1)]
    fields = dict.fromkeys(("id", "created", "engine", "engine_ref", "engine_sha256", "command", "device"), "")
    return Run(
        **fields,
        case=Case(sizes={"n": 1}),
        seed=0,
        fixed_seed=0,
        budget="quick",
        baseline="a",
        variants=["a"],
        gates=gates,
        samples=[],
        verdicts=verdicts,
        warnings=[],
        environment={},
        stopped="",
        elapsed_s=0.0,
    )


@pytest.mark.parametrize(
    "outcomes, fail_if_slower, green, code",
    [
        ([Outcome.FASTER, Outcome.SAME], True, True, ExitCode.OK),
        ([Outcome.SLOWER], False, True, ExitCode.OK),
        ([Outcome.SLOWER, Outcome.UNDECIDED], True, True, ExitCode.SLOWER),
        ([Outcome.SLOWER, Outcome.UNDECIDED], False, True, ExitCode.UNDECIDED),
        ([Outcome.SLOWER, Outcome.REFUSED], True, True, ExitCode.REFUSED),
        ([Outcome.FASTER], False, False, ExitCode.REFUSED),
    ],
)
def test_exit_codes(outcomes, fail_if_slower, green, code):
    assert exit_code([run_with(*outcomes, green=green)], fail_if_slower=fail_if_slower) == code


def test_completion_offers_engines_and_variants():
    def offered(line):
        done = subprocess.run(
            [WHET],
            capture_output=True,
            text=True,
            check=False,
            env={
                **os.environ,
                "_WHET_COMPLETE": "bash_complete",
                "COMP_WORDS": line,
                "COMP_CWORD": str(line.count(" ")),
            },
        )
        return done.stdout.split()

    assert "plain,msm" in offered("whet ab m")
    assert offered(f"whet check {EXAMPLES / 'horner_numpy.py'} h") == ["plain,horner"]
    assert offered("whet check missing.py h") == []


def test_fitted_exponent():
    assert fitted_exponent([(n, 5.0 * n**1.5) for n in (10, 100, 1000)]) == pytest.approx(1.5)
    assert fitted_exponent([(10, 5.0)]) is None and fitted_exponent([]) is None


def test_importing_the_evidence_layer_is_cheap():
    heavy = "{'scipy', 'plotly', 'rich', 'numba', 'jinja2'}"
    code = f"import sys, whet.evidence.experiment, whet.cli.ab; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(("sizes", "least"), [([32, 33, 1000], 32), ([1000], 1), ([], 1)])
def test_no_case_is_smaller_than_what_the_engine_lists(sizes, least):
    engine = SimpleNamespace(cases=lambda: [Case(sizes={"n": n}) for n in sizes])
    offered = shrinking(engine, Case(sizes={"n": 1000}))
    assert [case.sizes["n"] for case in offered][:: len(offered) - 1] == [least, 1000]
