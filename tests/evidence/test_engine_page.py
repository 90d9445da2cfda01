"""What docs/engine.md promises of class engines: one variant alone, the case as state, libraries and sources hashed."""

from __future__ import annotations

import shutil
from pathlib import Path
from textwrap import dedent

import pytest

from whet.evidence.budgets import BUDGETS, custom
from whet.evidence.comparison import ab
from whet.evidence.environment import differences, hashed
from whet.evidence.headline import headline

EXAMPLES = Path(__file__).parents[2] / "examples"
SHORT = custom(BUDGETS["quick"], rounds=2, seconds=60, blocks=5)
STATELESS = """
    import numpy as np
    from whet.protocol import Case, Engine, Output, VariantSpec

    class Rows(Engine):
        name = "rows"
        def cases(self): return [Case(sizes={"rows": 300, "columns": 2000})]
        def variants(self): return [VariantSpec("plain", "by numpy")]
        def outputs(self, case): return {"sums": Output((case.sizes["columns"],), np.float64)}
        def prepare(self, case, seed):
            return {"x": np.random.default_rng(seed).normal(size=tuple(case.sizes.values()))}
        def run(self, variant, state, inputs, outputs):
            outputs["sums"][:] = sum(inputs["x"][row] for row in range(state.sizes["rows"]))
        def oracle(self, case, fixed_seed, seed, inputs):
            from math import fsum
            return {"sums": [fsum(column) for column in inputs["x"].T.tolist()]}
"""


def test_run_knows_its_case_and_one_variant_is_measured_alone(tmp_path):
    """Floats that differ in the last bit pass without a word about tolerance."""
    (tmp_path / "rows.py").write_text(dedent(STATELESS))
    run = ab(str(tmp_path / "rows.py"), "plain", budget=SHORT)
    assert run.gates[0].green and run.verdicts == [] and run.tolerance is not None and run.tolerance.by_dtype
    said = headline(run)
    assert said.ship is None and said.text.startswith("plain takes ") and "Its median is known to ±" in said.detail


@pytest.fixture
def dot(tmp_path):
    shutil.copytree(EXAMPLES / "ctypes_engine", tmp_path / "ctypes_engine")
    return tmp_path / "ctypes_engine"


def test_compare_sees_a_library_that_was_swapped(dot):
    """The engine's own file stays as it is; its source and so its library change."""
    engine, source = dot / "dot.py", dot / "dot.c"
    before = ab(str(engine), "plain", sizes={"n": 100}, budget=SHORT)
    assert before.gates[0].green
    paths = before.environment["sources"]
    assert str(source) in paths and any(path.endswith(".so") for path in paths)
    source.write_text(source.read_text().replace("double sum = 0;", "double sum = 0 * n;"))
    after = ab(str(engine), "plain", sizes={"n": 100}, budget=SHORT)
    assert before.engine_sha256 == after.engine_sha256
    changed = {one.field for one in differences(before.environment, after.environment)}
    assert f"sources.{source}" in changed and any(field.endswith(".so") for field in changed)


def test_a_file_that_is_gone_is_told_not_raised(tmp_path):
    (tmp_path / "there").write_text("x")
    found = hashed([tmp_path / "there", tmp_path / "gone"])["sources"]
    assert len(found[str(tmp_path / "there")]) == 16 and found[str(tmp_path / "gone")].startswith("unreadable")
    assert hashed([]) == {}
