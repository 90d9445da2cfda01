"""`whet.ab`, `whet.check` and `whet.sweep` on plain functions, with the real processes behind them."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import threading
from pathlib import Path
from subprocess import run
from sys import executable
from textwrap import dedent

import msgspec
import numpy as np
import pytest

import whet
from whet.api.result import Result
from whet.errors import BadInput, OracleMismatch
from whet.evidence.budgets import BUDGETS, custom
from whet.evidence.record import Outcome, Run

WHET = str(Path(executable).with_name("whet"))
SHORT = custom(BUDGETS["quick"], rounds=3, seconds=60, blocks=5)


@pytest.fixture(autouse=True)
def a_store_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("WHET_STORE", str(tmp_path / "kept" / "runs.sqlite"))


def make(n, rng):
    return {"x": rng.integers(-1000, 1000, n)}


def slow(x):
    total = 0
    for _ in range(40):
        total = int(np.sort(x).sum())
    return total


def fast(x):
    """numpy's own sum."""
    return x.sum()


def forgets(x):
    return x[: len(x) // 4 * 4].sum()


def exact(x):
    return sum(x.tolist())


@pytest.mark.alone
def test_a_comparison_of_two_functions(tmp_path):
    """One trial: what it says, what it keeps, what it leaves."""
    result = whet.ab({"slow": slow, "fast": fast}, inputs=make, oracle=exact, sizes={"n": [7, 2**12]}, budget=SHORT)
    assert result.green and not result.refused and result.run.case.sizes == {"n": 2**12}
    assert result.ship == "fast" and result.verdicts["fast"].outcome is Outcome.FASTER
    assert set(result.samples) == {"slow", "fast"} and (result.samples["fast"] > 0).all()
    assert result.medians_ns["fast"] < result.medians_ns["slow"]
    assert result.assert_faster(by=0.1) is result.assert_faster("fast")
    assert result.run.summaries == {"fast": "numpy's own sum"}
    with pytest.raises(AssertionError, match=r"fast is not FASTER by 99.999 %: FASTER, 0\.\d+ of the time of slow"):
        result.assert_faster(by=0.99999)
    with pytest.raises(BadInput, match="no verdict on 'slow'"):
        result.assert_faster("slow")

    text = repr(result)
    assert re.search(r"ship: fast; [\d,.]+ times as fast as slow", text) and "Traceback" not in text
    assert msgspec.json.decode(result.to_json(), type=Run) == result.run
    assert json.loads(result.to_json()) == json.loads(json.dumps(result.to_dict()))
    page = result.save(tmp_path / "report.html").read_text()
    assert "times as fast as slow" in page and "How it was measured" in page
    assert result.save(str(tmp_path / "run.json")).read_text() == result.to_json()
    with pytest.raises(BadInput, match="neither a page nor a record"):
        result.save(tmp_path / "report.pdf")
    framed = result._repr_html_()
    assert framed.startswith("<iframe srcdoc=") and "times as fast as slow" in framed
    assert "How it was measured" not in framed and "<script" not in framed

    listed = run([WHET, "runs", "--json"], capture_output=True, text=True, check=True).stdout
    assert result.run.id in listed


def test_a_wrong_function_is_refused_with_a_case_and_a_command():
    result = whet.check(fast, forgets, inputs=make, oracle=exact, sizes={"n": [1, 4, 9]})
    assert not result and set(result.refused) == {"forgets"}
    why = result.refused["forgets"]
    assert why.case.sizes == {"n": 1} and "the oracle says" in why.detail and "integers have to be equal" in why.detail
    assert "green: fast" in repr(result) and "red: forgets: wrong output at n=1" in repr(result)
    with pytest.raises(OracleMismatch, match="forgets is refused: wrong output at n=1"):
        result.assert_green()
    again = run([WHET, *shlex.split(why.command)[1:]], capture_output=True, text=True, check=False)
    assert again.returncode == 3 and "red: forgets: wrong output at n=1" in again.stdout
    assert json.loads(result.to_json())["gates"][1]["green"] is False


@pytest.mark.alone
def test_a_slow_oracle_is_told_as_the_reason_of_a_long_run(monkeypatch):
    import time

    def patient(x):
        time.sleep(0.25)
        return sum(x.tolist())

    notes = []

    @contextlib.contextmanager
    def heard(description):
        yield lambda share, note: notes.append(note)

    monkeypatch.setattr("whet.api.calls._shown", heard)
    found = whet.ab(slow, fast, inputs=make, oracle=patient, sizes={"n": 2**12}, budget=SHORT)
    assert found.oracle_s == found.run.oracle_s >= 0.25 * (3 + 3 + 5)
    # A busy machine makes everything else long as well.
    found = Result(msgspec.structs.replace(found.run, elapsed_s=1.5 * found.oracle_s))
    assert any(re.fullmatch(r"waiting for the oracle, [\d.]+ s so far", note) for note in notes)
    assert re.search(r"oracle    took [\d.]+ s of the run's [\d.]+ s; a faster one, or a smaller case", repr(found))
    assert re.search(r"the oracle took [\d.]+ s of the run&#39;s", found._repr_html_().replace("&amp;", "&"))
    quick = whet.ab(slow, fast, inputs=make, oracle=exact, sizes={"n": 2**12}, budget=SHORT)
    assert 0 < quick.oracle_s < 2 and "oracle    took" not in repr(quick)


def test_the_oracle_among_the_variants_is_told():
    variants = {"exact": exact, "fast": fast}
    result = whet.ab(variants, inputs=make, oracle="exact", sizes={"n": 9}, budget=SHORT, store=False)
    assert [w.seen for w in result.warnings if w.kind == "weak task"] == ["exact is the oracle as well"]


@pytest.mark.alone
def test_a_sweep():
    result = whet.sweep(slow, fast, axes={"n": [2**11, 2**14]}, inputs=make, oracle=exact, budget=SHORT, store=False)
    assert [one.run.case.sizes["n"] for one in result] == [2**11, 2**14] and len(result) == 2
    assert set(result.ship) == {"n=2048 profile=random", "n=16384 profile=random"}
    assert "grows as elements^" in repr(result) and len(json.loads(result.to_json())["runs"]) == 2
    assert "How the variants grow" in result._repr_html_()


def test_a_variant_that_raises_names_its_own_line():
    def faulty(x):
        return x[len(x) + 5]

    why = whet.check(faulty, inputs=make, oracle=exact, sizes={"n": 3}).refused["faulty"]
    assert why.reason == "raised" and re.search(r"IndexError: .*test_api_calls\.py:\d+\)", why.detail)


def test_an_answer_of_another_shape_is_red():
    why = whet.check({"two": lambda x: x[:2]}, inputs=make, oracle=exact, sizes={"n": 3}).refused["two"]
    assert "result of two() has shape (2,), the oracle's answer ()" in why.detail and "whet/functions" not in why.detail


def test_writing_to_an_input_is_named():
    def writes(x):
        x += 1
        return x.sum()

    why = whet.check(writes, inputs=make, oracle=exact, sizes={"n": 3}).refused["writes"]
    assert "read-only" in why.detail


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"variants": ()}, "nothing to compare"),
        ({"variants": (lambda x: x,)}, "a lambda has no name"),
        ({"oracle": None}, "there is no oracle"),
        ({"inputs": np.ones(3)}, "inputs is a ndarray"),
        ({"oracle": "quick"}, "is not among the variants"),
        ({"budget": "endless"}, "there is no budget 'endless'"),
        ({"judge": "mode"}, "there is no statistic"),
        ({"regime": "hot"}, "there is no regime"),
        ({"effect": 2.0}, "no share of the time"),
        ({"baseline": "exact"}, "no variant 'exact'"),
        ({"device": "tpu"}, "does not run on"),
        ({"variants": ("msm", "plain")}, "of its own"),
    ],
)
def test_bad_input_is_told_before_anything_runs(given, said):
    words = {"inputs": make, "oracle": exact, "sizes": {"n": 3}, **given}
    with pytest.raises(BadInput, match=said):
        whet.ab(*words.pop("variants", (slow, fast)), **words)


def test_a_wrong_argument_name_is_told():
    with pytest.raises(BadInput, match=r"oracle\(\) asks for 'y', which nobody makes .*on offer: case, n, x"):
        whet.check(fast, inputs=make, oracle=lambda y: y, sizes={"n": 3})
    why = whet.check({"f": lambda z: z}, inputs=make, oracle=exact, sizes={"n": 3}).refused["f"]
    assert "f() asks for 'z', which nobody makes" in why.detail


def test_from_a_script_from_a_thread_and_without_sizes(tmp_path):
    """The script has no guard, and its functions see its globals."""
    script = """
        import threading
        import whet
        SCALE = 3
        def make(seed): return seed % 1000
        def f(x): return SCALE * x
        def g(x): return x + x + x
        def work(): print(whet.check(f, g, inputs=lambda seed: seed % 1000, oracle=lambda x: x * 3))
        one = threading.Thread(target=work)
        one.start()
        one.join()
    """
    (tmp_path / "mine.py").write_text(dedent(script))
    done = run([executable, "mine.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.count("green: ") == 2 and done.stderr == "", done.stdout + done.stderr


def test_two_threads_at_once():
    found = []

    def work():
        found.append(whet.check(fast, inputs=make, oracle=exact, sizes={"n": 3}).green)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert found == [True, True]


def test_a_store_that_cannot_be_written_costs_no_result(monkeypatch, tmp_path, capsys):
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "runs.sqlite").write_bytes(b"no database at all, but long enough to be looked at" * 40)
    monkeypatch.setenv("WHET_STORE", str(tmp_path / "store" / "runs.sqlite"))
    result = whet.ab(fast, inputs=make, oracle=exact, sizes={"n": 3}, budget=SHORT)
    assert result.run.id and "will not be stored" in capsys.readouterr().err
