"""`whet memory` and `whet occupancy` know no engine by name: whoever answers the hooks of the protocol is shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from whet.cli.app import invoke
from whet.errors import OracleMismatch, Unsupported

COMMANDS = Path(__file__).parents[2] / "src" / "whet" / "cli"
HOOKS = """
from whet.protocol import BudgetFrontier, BudgetStep, Kernels, KernelSource, MemoryRow


def step(rows, pieces):
    facts = {"pieces": pieces, "estimated_ns": 1000 * pieces}
    return BudgetStep(64 * rows, f"{pieces} pieces", facts, "horner" if pieces == 1 else "")


class Levered(Polynomial):
    name = "levered"

    def budget_frontier(self, variant, n, budget_bytes):
        rows = [MemoryRow("table", 48 * n), MemoryRow("answer", 16 * n)]
        return BudgetFrontier(variant or "first", n, rows, step(n, 1), [step(n, 1), step(n // 2, 2)], 32 * n, "a guess")

    def kernels(self, variant):
        source = "@compute @workgroup_size(64) fn fold() { var x = 1u; var y = x + 1u; }"
        return Kernels(variant or "first", {"fold": KernelSource(source, "fold")})


class Crooked(Levered):
    def run(self, variant, state, inputs, outputs):
        super().run(variant, state, inputs, outputs)
        outputs["y"][-1] += 1
"""


@pytest.fixture
def levered(tmp_path):
    path = tmp_path / "levered.py"
    example = Path(__file__).parents[2] / "examples" / "horner_numpy.py"
    path.write_text(example.read_text() + HOOKS)
    return f"{path}:Levered"


def test_any_engine_may_have_a_budget_lever(levered, capsys):
    invoke(["memory", levered, "--n", "1e3", "--budget", "64kB", "--measure", "--json"])
    told = json.loads(capsys.readouterr().out)
    assert (told["engine"], told["variant"], told["n"], told["total_bytes"]) == ("levered", "first", 1000, 64_000)
    assert told["budget_bytes"] == 64_000 and told["floor_bytes"] == 32_000 and told["estimated_by"] == "a guess"
    whole, half = (row["measured_ns"] for row in told["frontier"])
    assert whole > 0 and half is None
    assert [row["pieces"] for row in told["frontier"]] == [1, 2]
    invoke(["memory", levered, "--n", "1e3", "--variant", "second"])
    shown = capsys.readouterr().out
    for words in ("levered second  n=1,000  1 pieces", "75.0 %", "a model: a guess", "--measure times it", "2.00 µs"):
        assert words in shown


def test_a_wrong_answer_has_no_measured_time(levered, capsys):
    """Wrong at one step of the frontier is enough: no table at all, exit code 3."""
    with pytest.raises(OracleMismatch, match="horner is refused at n=1000") as caught:
        invoke(["memory", levered.replace("Levered", "Crooked"), "--n", "1e3", "--measure"])
    assert caught.value.exit_code == 3 and capsys.readouterr().out == ""


def test_any_engine_may_describe_its_kernels(levered, capsys):
    invoke(["occupancy", levered, "--pass", "fold", "--json"])
    told = json.loads(capsys.readouterr().out)
    assert told["variant"] == "first" and told["kernel"]["workgroup_threads"] == 64


@pytest.mark.parametrize("words", [["memory"], ["occupancy"]])
def test_an_engine_without_the_hook_says_so(words):
    example = str(Path(__file__).parents[2] / "examples" / "horner_numpy.py")
    with pytest.raises(Unsupported, match="polynomial") as caught:
        invoke([*words, example])
    assert caught.value.cure


def test_no_command_asks_for_an_engine_by_its_name():
    for name in ("memory", "occupancy"):
        text = (COMMANDS / f"{name}.py").read_text()
        assert "whet.msm" not in text and 'engine != "' not in text and 'engine == "' not in text
