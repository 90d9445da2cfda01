"""`whet check msm --cases N` goes on to the adversarial cases: counted by kind, and a red one can be had again."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from whet.cli.check import check
from whet.errors import BadInput, Cancelled, ExitCode
from whet.evidence.hard_cases import examine_hard
from whet.evidence.registry import load
from whet.evidence.rig import Plan
from whet.msm.adversarial import KINDS
from whet.msm.engine import MsmEngine
from whet.protocol import parse_variant

HARD_ENGINES = Path(__file__).with_name("hard_engines.py")


def examined(ref, numbers, *variants, call_limit_s=60.0, show=lambda share, note: None):
    engine = load(ref).engine
    chosen = tuple(parse_variant(engine, text) for text in variants or ["pippenger"])
    plan = Plan(engine=engine, ref=ref, variants=chosen, device="cpu", seed=11, call_limit_s=call_limit_s)
    return examine_hard(plan, [], numbers, show)


def test_green_variants_are_counted_by_kind():
    gates, kinds = examined("msm", range(2 * len(KINDS)), "pippenger", "pippenger:glv=true")
    assert all(gate.green and gate.full_checks == 2 * len(KINDS) for gate in gates)
    assert kinds == dict.fromkeys(sorted(KINDS), 2)


@pytest.mark.parametrize(
    ("engine", "reason"),
    [
        ("Forgetful", "wrong output"),
        ("Raises", "raised"),
        ("Lazy", "wrong output"),
        ("Crashes", "died"),
        ("Scribbles", "raised"),
    ],
)
def test_a_wrong_variant_is_red_and_fails_again_by_number(engine, reason, tried):
    ref = f"{HARD_ENGINES}:{engine}"
    (gate,), _ = examined(ref, range(50))
    assert not gate.green and gate.failure is not None and gate.failure.reason == reason
    words = gate.failure.command.split()
    number = int(words[words.index("--hard-case") + 1])
    (again,), kinds = examined(ref, range(number, number + 1))
    assert not again.green and again.failure == gate.failure
    assert sum(kinds.values()) == 1
    tried("exploits", 1)


PATHS = {"prepared": "affine", "one-shot": "affine:path=one-shot", "batch": "affine:path=batch"}
PATHS |= {"precompute": "affine:precompute=3", "precomputed buckets": "affine:windows=9,precompute=3"}


def test_every_path_into_the_fast_engine_takes_them(tried):
    gates, kinds = examined("msm", range(2 * len(KINDS)), *PATHS.values())
    assert {gate.variant for gate in gates if gate.green} == set(PATHS.values())
    tried("adversarial sums by path", len(PATHS) * sum(kinds.values()))


@pytest.mark.parametrize(
    ("engine", "wrong"),
    [
        ("OneShotLosesAPoint", {"one-shot"}),
        ("BatchMixesAnswers", {"batch"}),
        ("BatchLosesASum", {"batch"}),
        ("MultiplesLackAPoint", {"precompute", "precomputed buckets"}),
    ],
)
def test_a_fault_of_one_path_is_seen_there_alone(engine, wrong, tried):
    gates, _ = examined(f"{HARD_ENGINES}:{engine}", range(len(KINDS)), *PATHS.values())
    assert {gate.variant for gate in gates if not gate.green} == {PATHS[path] for path in wrong}
    assert {gate.failure.reason for gate in gates if gate.failure} == {"wrong output"}
    tried("exploits", 1)


def test_a_call_that_prepares_nothing_refuses_what_would_be_ignored():
    with pytest.raises(BadInput, match="one-shot has no precompute"):
        parse_variant(MsmEngine(), "affine:path=one-shot,precompute=4")


def test_a_variant_that_never_answers_is_red():
    (gate,), kinds = examined(f"{HARD_ENGINES}:Sleeps", range(3), call_limit_s=0.5)
    assert gate.failure is not None and gate.failure.reason == "hung"
    assert sum(kinds.values()) == 1


def test_a_crash_costs_only_the_variant_that_crashed():
    """The other one goes on to the end."""
    gates, kinds = examined(f"{HARD_ENGINES}:Crashes", range(20), "pippenger", "plain")
    assert [gate.green for gate in gates] == [False, True]
    assert gates[1].full_checks == sum(kinds.values()) == 20


def test_numbers_name_cases():
    first, second = (next(iter(MsmEngine().hard_cases(4, range(8, 9)))) for _ in range(2))
    assert first.kind == second.kind and np.array_equal(first.inputs["scalars"], second.inputs["scalars"])
    other = next(iter(MsmEngine().hard_cases(5, range(8, 9))))
    assert not np.array_equal(first.inputs["points"], other.inputs["points"])


def test_an_interrupted_run_says_where_to_go_on():
    shown = []

    def ctrl_c(share, note):
        shown.append(note)
        if len(shown) == 8:
            raise KeyboardInterrupt

    with pytest.raises(Cancelled, match="after 8 hard cases; 0 of 1 variants were red") as caught:
        examined("msm", range(40, 90), show=ctrl_c)
    assert caught.value.cure == "go on with --seed 11 --from 48"
    assert caught.value.exit_code == ExitCode.INTERRUPTED


def checked(*, most_cases: int, first_hard: int | None = None) -> ExitCode:
    return check(
        engine="msm",
        variants=("pippenger",),
        n=None,
        sizes=(),
        profile=None,
        most_cases=most_cases,
        hard_case=None,
        first_hard=first_hard,
        repeats=1,
        as_json=True,
        device=None,
        seed=2,
        clock="wall",
        call_limit_s=60.0,
    )


def test_the_command_counts_them(capsys):
    code = checked(most_cases=len(MsmEngine().cases()) + len(KINDS))
    told = json.loads(capsys.readouterr().out)
    assert code == ExitCode.OK
    assert told["hard"] == dict.fromkeys(sorted(KINDS), 1)
    assert told["gates"][0]["full_checks"] == len(told["cases"]) + len(KINDS)


def test_the_command_goes_on_where_it_was_stopped(capsys):
    """The end is that of the first command, and the engine's own cases are not repeated."""
    everything = len(MsmEngine().cases()) + len(KINDS)
    assert checked(most_cases=everything, first_hard=len(KINDS) - 3) == ExitCode.OK
    told = json.loads(capsys.readouterr().out)
    assert told["cases"] == []
    assert told["hard"] == dict.fromkeys(sorted(list(KINDS)[-3:]), 1)
    with pytest.raises(BadInput, match="beyond"):
        checked(most_cases=everything, first_hard=len(KINDS))
