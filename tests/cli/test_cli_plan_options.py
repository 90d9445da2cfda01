"""What is put on trial and for how long, as it is typed: budgets, candidates from files of their own, sizes."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from scripted_runs import scripted_run
from whet.cli import ab, plan_options, sweep
from whet.cli.app import invoke
from whet.cli.budget import BudgetChoice
from whet.errors import BadInput, StoreError
from whet.evidence import comparison, store_rescue, trial
from whet.evidence.asked_variants import read_variant
from whet.evidence.comparison import make_plan
from whet.evidence.registry import load
from whet.evidence.store import Store
from whet.protocol import Variant

EXAMPLES = Path(__file__).parents[2] / "examples"
HORNER = str(EXAMPLES / "horner_numpy.py")
PLANNED = {"device": None, "seed": 1, "clock": "wall", "call_limit_s": 1.0}


@pytest.fixture
def asked(monkeypatch, tmp_path):
    """Everything that `run_and_store` is given, without an experiment."""
    calls = []

    def take(store, loaded, plan, case, **rest):
        calls.append(SimpleNamespace(plan=plan, case=case, **rest))
        return scripted_run(1)

    monkeypatch.setattr(ab, "run_and_store", take)
    monkeypatch.setattr(sweep, "run_and_store", take)
    monkeypatch.setenv("WHET_STORE", str(tmp_path / "runs.sqlite"))
    monkeypatch.chdir(tmp_path)
    return calls


def test_options_become_one_record(asked):
    words = "--quick --rounds 40 --seconds 2.5 --blocks 6 --confidence 0.95 --judge p99 --regime cold --effect 0.1"
    invoke(["ab", HORNER, "powers", "horner", *words.split()])
    assert asked[0].budget == BudgetChoice("quick", 0.1, 40, 2.5, 6, 0.95, "p99", "cold")
    invoke(["ab", HORNER, "powers", "horner"])
    assert asked[1].budget == BudgetChoice("default", 0.02)
    invoke(["sweep", HORNER, "--axis", "n=8,16", "--rigorous", "--blocks", "7"])
    assert [one.budget for one in asked[2:]] == [BudgetChoice("rigorous", 0.02, blocks=7)] * 2


@pytest.mark.parametrize(
    "words",
    [
        *("--rounds 0", "--rounds 2.5", "--seconds 0", "--seconds nan", "--seconds inf", "--blocks 1", "--judge best"),
        *("--confidence 1", "--confidence nan", "--confidence 99", "--regime hot", "--quick --rigorous"),
    ],
)
def test_a_wrong_budget_is_refused_before_anything_runs(whet, words, tried):
    done = whet("ab", HORNER, "powers", "horner", *words.split())
    assert done.code == 64 and done.err.startswith("error: ") and "Traceback" not in done.err
    tried("malformed inputs")


def test_a_budget_is_changed_only_where_it_was_asked(monkeypatch):
    taken = []
    monkeypatch.setattr(trial, "custom", lambda budget, **given: taken.append((budget.name, given)), raising=False)
    assert BudgetChoice("quick").budget() is trial.BUDGETS["quick"] and not taken
    BudgetChoice("quick", rounds=40, confidence=0.9).budget()
    assert taken == [("quick", {"rounds": 40, "confidence": 0.9})]


def test_all_variants_of_a_file_take_part_unless_some_are_named(asked, tmp_path):
    invoke(["ab", HORNER])
    assert [str(variant) for variant in asked[0].plan.variants] == ["powers", "horner"]
    alone = tmp_path / "alone.py"
    only = "\n    def variants(self):\n        return [VariantSpec('powers', 'the only one')]\n"
    alone.write_text(Path(HORNER).read_text() + only)
    invoke(["ab", str(alone)])
    assert [str(variant) for variant in asked[1].plan.variants] == ["powers"] and asked[1].baseline == "powers"


def test_a_size_in_powers_of_ten(asked):
    invoke(["ab", HORNER, "--n", "1e5"])
    assert asked[0].case.sizes["n"] == 100_000


def test_a_candidate_is_a_file_and_a_name_and_is_not_imported(asked, tmp_path):
    (tmp_path / "candidate.py").write_text("raise SystemExit('a candidate was imported in this process')\n")
    invoke(["ab", HORNER, "powers", "candidate.py:fast", "--baseline", "candidate.py:fast"])
    file = str(tmp_path / "candidate.py")
    assert asked[0].plan.variants == (Variant("powers"), Variant("fast", file=file))
    assert asked[0].baseline == "candidate.py:fast"
    assert not any(getattr(module, "__file__", "") == file for module in list(sys.modules.values()))
    invoke(["sweep", HORNER, "powers", "./candidate.py:fast", "--axis", "n=8"])
    assert asked[1].plan.variants[1].file == file


@pytest.mark.parametrize("text", ["none.py:fast", "x\0.py:fast", "candidate.py:", "candidate.py:a-b", "folder.py:fast"])
def test_a_wrong_candidate(tmp_path, monkeypatch, text, tried):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "candidate.py").write_text("")
    (tmp_path / "folder.py").mkdir()
    with pytest.raises(BadInput) as caught:
        read_variant(load(HORNER).engine, text)
    assert caught.value.cure
    tried("malformed inputs")


def test_a_candidate_that_may_not_be_read(tmp_path, monkeypatch):
    (tmp_path / "candidate.py").write_text("")
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(BadInput, match="permission"):
        read_variant(load(HORNER).engine, f"{tmp_path}/candidate.py:fast")


def test_two_candidates_of_one_name_are_told_apart_or_refused(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "candidate.py").write_text("")
    one, other = (f"{tmp_path}/{folder}/candidate.py:fast" for folder in ("a", "b"))
    with pytest.raises(BadInput, match="two candidates"):
        make_plan(load(HORNER), ["powers", one, other], **PLANNED)
    with pytest.raises(BadInput, match="twice"):
        make_plan(load(HORNER), ["powers", one, one], **PLANNED)


def test_a_run_that_cannot_be_stored_is_kept_elsewhere(tmp_path, monkeypatch):
    loaded, run = load(HORNER), scripted_run(1)
    plan = make_plan(loaded, ["powers", "horner"], **PLANNED)

    class Done:
        def __init__(self, **asked):
            assert (asked["budget"], asked["judge"]) == (trial.BUDGETS["quick"], "median")

        def run(self):
            return run

    monkeypatch.setattr(comparison, "Experiment", Done)
    monkeypatch.setattr(store_rescue, "user_state_path", lambda *_, **__: tmp_path / "state")
    chosen = {"budget": BudgetChoice("quick"), "baseline": "powers", "show": lambda share, note: None}
    with Store.open(tmp_path / "runs.sqlite") as store:
        kept = plan_options.run_and_store(store, loaded, plan, run.case, **chosen)
        assert kept == store.get("last") and kept.samples == run.samples
    with Store.open(tmp_path / "full.sqlite") as store:
        store._db.execute("PRAGMA max_page_count = 1")
        with pytest.raises(StoreError, match="full") as caught:
            plan_options.run_and_store(store, loaded, plan, run.case, **chosen)
    assert Path(caught.value.evidence).is_relative_to(tmp_path / "state")
