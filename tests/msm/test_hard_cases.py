"""`whet check msm --cases N` goes on to the adversarial cases: counted by kind, and a red one can be had again."""

from __future__ import annotations

import json

import numpy as np
import pytest

from whet.cli.check import check
from whet.errors import ExitCode
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


def test_the_command_counts_them(capsys):
    options = {"device": None, "seed": 2, "clock": "wall", "call_limit_s": 60.0}
    code = check(
        engine="msm",
        variants=("pippenger",),
        n=None,
        sizes=(),
        profile=None,
        most_cases=len(MsmEngine().cases()) + len(KINDS),
        hard_case=None,
        repeats=1,
        as_json=True,
        **options,
    )
    told = json.loads(capsys.readouterr().out)
    assert code == ExitCode.OK
    assert told["hard"] == dict.fromkeys(sorted(KINDS), 1)
    assert told["gates"][0]["full_checks"] == len(told["cases"]) + len(KINDS)
