"""A comparison from Python: the run that the command would store, and the same complaints."""

from __future__ import annotations

from pathlib import Path

import pytest

from whet.errors import BadInput
from whet.evidence.budgets import BUDGETS, custom
from whet.evidence.comparison import ab
from whet.evidence.record import Outcome
from whet.evidence.store import Store

EXAMPLES = Path(__file__).parents[2] / "examples"
HORNER = str(EXAMPLES / "horner_numpy.py")
SHORT = custom(BUDGETS["quick"], seconds=1.0, blocks=5, rounds=1)


def test_one_call_compares_and_keeps(tmp_path):
    with Store.open(tmp_path / "runs.sqlite") as store:
        run = ab(HORNER, "powers", "horner", sizes={"n": 64}, baseline="horner", budget=SHORT, store=store)
        assert store.get("last") == run
    assert [verdict.candidate for verdict in run.verdicts] == ["powers"] and run.baseline == "horner"
    assert run.case.sizes == {"n": 64} and all(gate.green for gate in run.gates) and run.samples
    assert run.command == f"whet ab {HORNER} powers horner --size=n=64 --seed={run.seed}"


def test_a_wrong_variant_is_refused_there_too():
    run = ab(str(EXAMPLES / "wrong_on_purpose.py"), "plain", "unrolled", sizes={"rows": 250}, budget=SHORT)
    assert [verdict.outcome for verdict in run.verdicts] == [Outcome.REFUSED]


@pytest.mark.parametrize(
    ("words", "given", "complaint"),
    [
        (("powers", "horner"), {"baseline": "other"}, "no variant"),
        (("powers", "horner"), {"budget": "endless"}, "no budget"),
        (("powers", "horner"), {"sizes": {"m": 3}}, "no axis"),
        (("powers", "powers"), {}, "twice"),
    ],
)
def test_bad_words_are_explained(words, given, complaint):
    with pytest.raises(BadInput, match=complaint) as caught:
        ab(HORNER, *words, **given)
    assert caught.value.cure
