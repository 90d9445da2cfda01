"""The same two functions through Python, a file of functions, pytest and the command line: one verdict, one refusal."""

from __future__ import annotations

import json
import os
from pathlib import Path
from subprocess import DEVNULL, run
from sys import executable
from textwrap import dedent

import pytest

WHET = str(Path(executable).with_name("whet"))
# Blocks are left open: where others are at work, five of them may not be enough.
BUDGET = ["--rounds", "3", "--seconds", "60", "--quick"]
FUNCTIONS = """
    import numpy as np
    import whet

    @whet.inputs(sizes={"n": 4095})
    def make(n, rng):
        return rng.integers(-1000, 1000, n)

    @whet.variant
    def slow(x):
        for _ in range(40):
            total = np.sort(x).sum()
        return total

    @whet.variant
    def fast(x):
        return x.sum()

    @whet.variant
    def forgets(x):
        return x[: len(x) // 4 * 4].sum()

    @whet.oracle
    def exact(x):
        return sum(x.tolist())
"""
SHORT = """
    from whet.evidence.budgets import BUDGETS, custom
    SHORT = custom(BUDGETS["quick"], rounds=3, seconds=60)
"""
SCRIPT = """
    import json
    import sys
    import whet
    from functions import exact, fast, forgets, make, slow
    TASK = {"inputs": make, "oracle": exact, "sizes": {"n": 4095}, "budget": SHORT}
    print(whet.ab({"slow": slow, "fast": fast, "forgets": forgets}, **TASK).to_json())
"""
TESTED = """
    from functions import exact, fast, forgets, make, slow
    TASK = {"inputs": make, "oracle": exact, "sizes": {"n": 4095}, "budget": SHORT}

    def test_all(ab):
        result = ab(slow, fast, forgets, **TASK)
        open("from_pytest.json", "w").write(result.to_json())
        result.assert_faster("fast")
"""


def by_script(folder):
    (folder / "script.py").write_text(dedent(SHORT + SCRIPT))
    return run([executable, "script.py"], cwd=folder, capture_output=True, text=True, check=True).stdout


def by_file(folder):
    code = f"{dedent(SHORT)}\nimport whet\nprint(whet.ab('functions.py', budget=SHORT).to_json())"
    return run([executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True).stdout


def by_pytest(folder):
    (folder / "test_them.py").write_text(dedent(SHORT + TESTED))
    words = ["-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", "."]
    done = run(
        [executable, "-m", "pytest", *words], cwd=folder, stdin=DEVNULL, capture_output=True, text=True, check=False
    )
    assert "1 failed" in done.stdout and "forgets is refused: wrong output at n=1" in done.stdout
    return (folder / "from_pytest.json").read_text()


def by_command(folder):
    done = run([WHET, "ab", "functions.py", *BUDGET, "--json"], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 3, done.stderr
    return done.stdout


@pytest.mark.alone
@pytest.mark.parametrize("face", [by_script, by_file, by_pytest, by_command])
def test_one_verdict_through_every_face(face, tmp_path, monkeypatch):
    monkeypatch.setenv("WHET_STORE", str(tmp_path / "kept" / "runs.sqlite"))
    (tmp_path / "kept").mkdir()
    (tmp_path / "functions.py").write_text(dedent(FUNCTIONS))
    found = json.loads(face(tmp_path))
    assert {one["candidate"]: one["outcome"] for one in found["verdicts"]} == {"fast": "FASTER", "forgets": "REFUSED"}
    why = next(gate["failure"] for gate in found["gates"] if gate["variant"] == "forgets")
    assert (why["reason"], why["case"]["sizes"]) == ("wrong output", {"n": 1})
    assert not [sample for sample in found["samples"] if sample["variant"] == "forgets"]
