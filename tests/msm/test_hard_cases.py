"""`whet check msm --cases N` goes on to the adversarial cases: counted by kind, and a red one can be had again."""

from __future__ import annotations

import json

import numpy as np
import pytest

from whet.cli.check import check
from whet.errors import BadInput, Cancelled, ExitCode
from whet.evidence.gate import Plan
from whet.evidence.hard import examine_hard
from whet.msm.adversarial import KINDS
from whet.msm.engine import MsmEngine
from whet.protocol import parse_variant


class Forgetful(MsmEngine):
    """Wrong exactly when there is more than one point: it forgets the last."""

    def run(self, variant, state, inputs, outputs):
        scalars = inputs["scalars"].copy()
        if len(scalars) > 1:
            scalars[-1] = 0
        super().run(variant, state, {**inputs, "scalars": scalars}, outputs)


class Raises(MsmEngine):
    def run(self, variant, state, inputs, outputs):
        raise RuntimeError("no sum today")


class Interrupted(MsmEngine):
    """Somebody presses Ctrl-C during the ninth case."""

    runs = 0

    def run(self, variant, state, inputs, outputs):
        self.runs += 1
        if self.runs == 9:
            raise KeyboardInterrupt
        super().run(variant, state, inputs, outputs)


class Lazy(MsmEngine):
    """Writes nothing: the poison in the output must not pass for an answer."""

    def run(self, variant, state, inputs, outputs):
        pass


def examined(engine, numbers, *variants):
    chosen = tuple(parse_variant(engine, text) for text in variants or ["pippenger"])
    plan = Plan(engine=engine, ref="msm", variants=chosen, device="cpu", seed=11)
    return examine_hard(plan, [], numbers, lambda share, note: None)


def test_green_variants_are_counted_by_kind():
    gates, kinds = examined(MsmEngine(), range(2 * len(KINDS)), "pippenger", "pippenger:glv=true")
    assert all(gate.green and gate.full_checks == 2 * len(KINDS) for gate in gates)
    assert kinds == dict.fromkeys(sorted(KINDS), 2)


@pytest.mark.parametrize(
    ("engine", "reason"), [(Forgetful, "wrong output"), (Raises, "raised"), (Lazy, "wrong output")]
)
def test_a_wrong_variant_is_red_and_fails_again_by_number(engine, reason):
    (gate,), _ = examined(engine(), range(50))
    assert not gate.green and gate.failure is not None and gate.failure.reason == reason
    words = gate.failure.command.split()
    number = int(words[words.index("--hard-case") + 1])
    (again,), kinds = examined(engine(), range(number, number + 1))
    assert not again.green and again.failure == gate.failure
    assert sum(kinds.values()) == 1


def test_numbers_name_cases():
    first, second = (next(iter(MsmEngine().hard_cases(4, range(8, 9)))) for _ in range(2))
    assert first.kind == second.kind and np.array_equal(first.inputs["scalars"], second.inputs["scalars"])
    other = next(iter(MsmEngine().hard_cases(5, range(8, 9))))
    assert not np.array_equal(first.inputs["points"], other.inputs["points"])


def test_an_interrupted_run_says_where_to_go_on():
    with pytest.raises(Cancelled, match="after 8 hard cases; 0 of 1 variants were red") as caught:
        examined(Interrupted(), range(40, 90))
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
