"""`@whet.variant`, `@whet.oracle`, `@whet.inputs`: a module as an engine."""

from __future__ import annotations

from textwrap import dedent

import pytest

from whet.errors import BadInput
from whet.evidence.registry import load

WHOLE = """
    import whet

    @whet.inputs(sizes={"n": [1, 7, "2^6"]})
    def make(n, rng):
        return rng.normal(size=n)

    @whet.variant
    def plain(x):
        "The sum as numpy does it."
        return x.sum()

    @whet.variant(name="other", summary="in halves")
    def another(x):
        return x[::2].sum() + x[1::2].sum()

    @whet.oracle(tolerance=1e-9)
    def exact(x):
        from math import fsum
        return fsum(x)
"""


@pytest.fixture
def file(tmp_path):
    def write(text, name="sums.py"):
        (tmp_path / name).write_text(dedent(text))
        return str(tmp_path / name)

    return write


def test_a_module_is_an_engine(file):
    loaded = load(file(WHOLE))
    engine = loaded.engine
    assert engine.name == "sums" and loaded.ref.endswith("sums.py")
    assert [(spec.name, spec.summary) for spec in engine.variants()] == [
        ("plain", "The sum as numpy does it"),
        ("other", "in halves"),
    ]
    assert [case.sizes["n"] for case in engine.cases()] == [1, 7, 64]
    assert engine.tolerance.relative == 1e-9


def test_what_was_declared_before_is_forgotten(file):
    """The same file, changed, in the same process."""
    load(file(WHOLE))
    changed = file(WHOLE.replace("def plain", "def renamed"))
    assert [spec.name for spec in load(changed).engine.variants()] == ["renamed", "other"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (WHOLE.replace("@whet.oracle(tolerance=1e-9)", ""), "no function is declared as oracle.*@whet.oracle above it"),
        (WHOLE.replace('@whet.inputs(sizes={"n": [1, 7, "2^6"]})', ""), "no function is declared as inputs"),
        ("import whet\n\n@whet.oracle\ndef f(x): return x\n", "no function is declared as a variant"),
        ("import whet\nwhet.variant(lambda x: x)\n", "a lambda has no name"),
        ("import whet\nwhet.variant(3)\n", "no function of a module|a lambda has no name"),
        ("x = 1\n", "neither functions under @whet.variant nor a subclass of Engine"),
        (WHOLE.replace("[1, 7,", "[1.5,"), "not a whole number"),
    ],
)
def test_what_is_missing_is_said(file, text, said):
    with pytest.raises(BadInput, match=said):
        load(file(text))


def test_a_class_without_a_name_is_blamed_on_its_file(file):
    text = """
        from whet.protocol import Engine
        class Mine(Engine):
            def cases(self): return []
            def variants(self): return []
            def outputs(self, case): return {}
            def prepare(self, case, seed): return {}
            def run(self, variant, state, inputs, outputs): pass
            def oracle(self, case, fixed_seed, seed, inputs): return {}
    """
    path = file(text, "unnamed.py")
    with pytest.raises(BadInput, match=r"unnamed.py:3: engine Mine has no name \(write name = \"mine\" in it\)"):
        load(path)
