"""Functions behind the engine's protocol, in one process: answers of every kind, shapes, types, and what is refused."""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest

import whet
from whet.errors import BadInput
from whet.functions import FunctionEngine
from whet.functions.declared import AtHand
from whet.functions.describing import describe, named, read_sizes, read_tolerance
from whet.protocol import Case, Tolerance, Variant

CASE = Case(sizes={"n": 5})


def make(n, rng):
    return {"x": rng.normal(size=n)}


def engine_of(variant, oracle, inputs=make, sizes=None):
    about = describe({"f": variant}, inputs, oracle, sizes=sizes or {"n": 5})
    return FunctionEngine(about, AtHand({"f": variant}, inputs, oracle))


def ran(variant, oracle, inputs=make, calls=1):
    """What a bench and the referee would do: the variant's outputs and the oracle's answer."""
    engine = engine_of(variant, oracle, inputs)
    given = engine.prepare(CASE, 3)
    outputs = {name: np.full(one.shape, 77, one.dtype) for name, one in engine.outputs(CASE).items()}
    state = engine.setup(Variant("f"), CASE, {}, "cpu")
    for _ in range(calls):
        engine.run(Variant("f"), state, given, outputs)
    return outputs, engine.oracle(CASE, 0, 3, given)


def agree(variant, oracle, inputs=make):
    outputs, wanted = ran(variant, oracle, inputs, calls=2)
    assert list(outputs) == list(wanted)
    for name in wanted:
        np.testing.assert_array_equal(outputs[name], wanted[name])
    return outputs


def into(x, out):
    out[:] = 2 * x


def into_two(x, out):
    out[0][:] = x
    out[1][...] = x.sum()


@pytest.mark.parametrize(
    ("variant", "oracle", "names"),
    [
        (lambda x: 2 * x, lambda x: 2 * x, ["result"]),
        (into, lambda x: 2 * x, ["result"]),
        (lambda x: float(x.sum()), lambda x: x.sum(), ["result"]),
        (lambda x: [1, 2], lambda x: [1, 2], ["result"]),
        (lambda x: (x, x.sum()), lambda x: (x, x.sum()), ["result.0", "result.1"]),
        (lambda x: [x, x.sum()], lambda x: (x, x.sum()), ["result.0", "result.1"]),
        (into_two, lambda x: (x, x.sum()), ["result.0", "result.1"]),
        (lambda x: {"b": x, "a": x + 1}, lambda x: {"a": x + 1, "b": x}, ["a", "b"]),
        (lambda x, n: x[: n // 2], lambda x, case: x[: case.sizes["n"] // 2], ["result"]),
        (lambda x: x > 0, lambda x: x > 0, ["result"]),
    ],
)
def test_answers_of_every_kind(variant, oracle, names):
    assert list(agree(variant, oracle)) == names


def test_inputs_by_position_and_numbers():
    """A number is a number again, and read anew on every call."""
    seen = []

    def variant(x, k):
        seen.append(k)
        return x * k

    engine = engine_of(variant, lambda x, k: x * k, lambda n, seed: (np.arange(n) + 0.0, seed))
    state = engine.setup(Variant("f"), CASE, {}, "cpu")
    given = engine.prepare(CASE, 3)
    outputs = {name: np.empty(one.shape, one.dtype) for name, one in engine.outputs(CASE).items()}
    engine.run(Variant("f"), state, given, outputs)
    given["1:int"][...] = 9
    engine.run(Variant("f"), state, given, outputs)
    assert seen == [3, 9] and type(seen[0]) is int
    assert outputs["result"].tolist() == [0, 9, 18, 27, 36]


def test_an_exact_oracle_does_not_widen_the_outputs():
    engine = engine_of(lambda x: x, lambda x: x.astype(float), lambda n, rng: rng.normal(size=n).astype("f4"))
    assert engine.outputs(CASE)["result"].dtype == np.float32
    complex_one = engine_of(lambda x: x, lambda x: x.astype("c16"), lambda n, rng: rng.normal(size=n).astype("f4"))
    assert complex_one.outputs(CASE)["result"].dtype == np.complex64
    counted = engine_of(lambda x: x, len, lambda n, rng: rng.normal(size=n).astype("f4"))
    assert counted.outputs(CASE)["result"].dtype == np.int64


class Tensor:
    """As much of a tensor as numpy cannot do itself."""

    def __init__(self, values):
        self.values = np.asarray(values)

    def detach(self):
        return self

    cpu = detach

    def numpy(self):
        return self.values

    def __array__(self, *_, **__):
        raise RuntimeError("requires grad")

    def __mul__(self, by):
        return Tensor(self.values * by)


@pytest.fixture
def torch(monkeypatch):
    module = types.ModuleType("torch")
    module.from_numpy = Tensor
    monkeypatch.setitem(sys.modules, "torch", module)
    monkeypatch.setattr(Tensor, "__module__", "torch")


def test_tensors_in_and_out(torch):
    agree(lambda x: x * 2, lambda x: x * 2, lambda n, rng: {"x": Tensor(rng.normal(size=n))})


@pytest.mark.parametrize(
    ("variant", "said"),
    [
        (lambda x: None, r"f\(\) returned nothing: return the answer, or take `out`"),
        (lambda x: x[:-1], r"result of f\(\) has shape \(4,\), the oracle's answer \(5,\)"),
        (lambda x: x[:1], r"shape \(1,\)"),
        (lambda x: (x, x), r"shape \(2, 5\)"),
        (lambda x: {"y": x}, "returned a dict of y, the oracle's answer is result"),
        (lambda x: x + 1j, "Cannot cast"),
    ],
)
def test_an_answer_that_does_not_fit(variant, said):
    with pytest.raises((TypeError, ValueError), match=said):
        ran(variant, lambda x: x)


def test_a_variant_never_stretches_a_small_answer():
    """Copying would broadcast one element over all of them."""
    with pytest.raises(ValueError, match="shape"):
        ran(lambda x: x[0], lambda x: x * 0 + x[0])


def writes(x):
    x += 1
    return x


def writes_like_c(x):
    x.flags.writeable = True
    x += 1
    return x


@pytest.mark.parametrize("oracle", [writes, writes_like_c])
def test_an_oracle_that_writes_to_its_inputs(oracle):
    with pytest.raises(BadInput, match=r"the oracle writes.*\(\) writes to its input.*x = x\.copy"):
        engine_of(lambda x: x, oracle).outputs(CASE)


def test_an_answer_that_changes_its_shape():
    engine = engine_of(lambda x: x, lambda x: x[x > 0])
    given = [engine.prepare(CASE, seed) for seed in range(20)]
    with pytest.raises(BadInput, match=r"changes its shape with the seed.*pad the answer"):
        for one in given:
            engine.oracle(CASE, 0, 0, one)


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        (lambda m: m, "asks for 'm', which nobody makes"),
        (lambda n: None, "returned nothing"),
        (lambda n: {"not a name": np.ones(n)}, "names an input 'not a name'"),
        (lambda n: np.array(["a"] * n), "has dtype <U1"),
        (lambda n: 1 / 0, r"test_functions_engine.py:\d+: inputs\(\) raised ZeroDivisionError"),
    ],
)
def test_inputs_that_cannot_be_made(inputs, said):
    with pytest.raises(BadInput, match=said):
        engine_of(lambda x: x, lambda x: x, inputs).prepare(CASE, 1)


@pytest.mark.parametrize(
    ("variants", "said"),
    [
        ([lambda x: x], "a lambda has no name"),
        ({"a": 3}, "no function"),
        ({"a:b": abs}, "no name for a variant"),
        ([abs, abs], "two variants are called abs"),
        ({}, "no variants"),
    ],
)
def test_variants_that_cannot_be_meant(variants, said):
    with pytest.raises(BadInput, match=said):
        named(variants)


def test_what_is_missing_is_said():
    with pytest.raises(BadInput, match=r"inputs is a ndarray, no function.*def make"):
        describe({"f": abs}, np.ones(3), abs)
    with pytest.raises(BadInput, match="there is no oracle"):
        describe({"f": abs}, make, None)


def test_cautions():
    about = describe({"f": into, "g": abs}, lambda n: np.ones(n) + 1, into)
    assert about.cautions == [
        "f is the oracle as well",
        "inputs() takes neither seed nor rng: every call gets the same inputs",
    ]
    assert describe({"f": into}, make, abs).cautions == []


def test_sizes_in_every_spelling():
    assert read_sizes({"n": "1e5", "m": ["2^3", 8, np.int64(3)]}) == {"n": [100_000], "m": [3, 8]}
    assert read_sizes({"n": 1e3}) == {"n": [1000]}
    for wrong in (1.5, -1, True, "many", None):
        with pytest.raises(BadInput):
            read_sizes({"n": wrong})


def test_tolerances():
    assert read_tolerance(1e-3) == Tolerance(relative=1e-3, of_largest=1e-3)
    assert read_tolerance(None).by_dtype and read_tolerance(Tolerance()).exact
    for wrong in (-1.0, "loose", Tolerance(relative=-1.0), float("nan")):
        with pytest.raises(BadInput):
            read_tolerance(wrong)


def test_importing_whet_stays_cheap():
    from subprocess import run

    code = "import sys, whet; assert whet.__version__; assert 'ab' in dir(whet); print(*sys.modules)"
    loaded = run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"numpy", "msgspec", "rich", "whet.api", "whet.errors"} & set(loaded)
    with pytest.raises(AttributeError, match="no attribute 'abc'"):
        _ = whet.abc
