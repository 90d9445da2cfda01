"""torch itself: tensors as inputs and outputs, through the gate and a trial, and without a copy in a graph."""

from __future__ import annotations

import numpy as np
import pytest

import whet
from whet.errors import BadInput
from whet.evidence.budgets import BUDGETS, custom
from whet.evidence.record import Outcome

torch = pytest.importorskip("torch", reason="torch is not installed here; test_functions_engine has a stand-in for it")


@pytest.fixture(autouse=True)
def a_store_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("WHET_STORE", str(tmp_path / "runs.sqlite"))


def make(n, rng):
    return {"x": torch.from_numpy(rng.normal(size=n).astype("f4"))}


def powers(x):
    return 5 - 4 * x + 3 * x**2 - 2 * x**3


def horner(x):
    return 5 + x * (-4 + x * (3 - 2 * x))


def horner_into(x, out):
    torch.add(x * (-4 + x * (3 - 2 * x)), 5, out=out)


def by_numpy(x):
    """Names torch nowhere: its process has to have it all the same."""
    return 5 + x.numpy() * (-4 + x.numpy() * (3 - 2 * x.numpy()))


def short(x):
    return horner(x)[:-1]


def in_place(x):
    return x.mul_(2)


def exact(x):
    """In float64; the outputs are as wide as what goes in."""
    wide = x.double()
    return 5 - 4 * wide + 3 * wide * wide - 2 * wide * wide * wide


def test_tensors_go_in_and_come_out():
    found = whet.check(powers, horner, horner_into, by_numpy, short, in_place, **TASK)
    assert set(found.refused) == {"short", "in_place"}
    assert "has shape (0,), the oracle's answer (1,)" in found.refused["short"].detail
    assert "inputs are read-only" in found.refused["in_place"].detail


def test_a_tuple_of_a_matrix_with_a_gradient_and_a_scalar():
    def inputs(n):
        return torch.ones(n, requires_grad=True), torch.eye(n)

    def both(a, b):
        return b @ a, a.sum()

    def by_numpy_too(a, b):
        return np.matmul(b.numpy(), a.numpy()), float(a.numpy().sum())

    assert whet.check(both, by_numpy_too, inputs=inputs, oracle=both, sizes={"n": [1, 70]})


def test_a_type_that_numpy_lacks_is_told_with_its_cure():
    with pytest.raises(BadInput, match=r"BFloat16.*\.float\(\)"):
        whet.check(horner, inputs=lambda n: torch.ones(n, dtype=torch.bfloat16), oracle=exact, sizes={"n": 7})


@pytest.mark.alone
def test_a_trial_of_tensors():
    def often(x):
        return torch.stack([by_numpy_of(x) for _ in range(60)]).mean(0)

    def by_numpy_of(x):
        return torch.from_numpy(5 + x.numpy() * (-4 + x.numpy() * (3 - 2 * x.numpy())))

    budget = custom(BUDGETS["quick"], rounds=3, seconds=120, blocks=5)
    task = {"inputs": make, "oracle": exact, "sizes": {"n": 2**12}}
    found = whet.ab({"often": often, "once": by_numpy}, **task, budget=budget, store=False)
    # A busy machine may leave it undecided; what counts is that sealed processes ran it.
    assert found.green and found.verdicts["once"].outcome in (Outcome.FASTER, Outcome.UNDECIDED), found
    assert found.medians_ns["once"] < found.medians_ns["often"]
    assert all(share < 1 for share in found.errors.values())


@pytest.mark.filterwarnings("error")
def test_a_graph_works_on_the_tensors_own_memory():
    from whet.graph import In, InOut, Runtime

    grid = torch.arange(16.0).reshape(4, 4)
    with Runtime(workers=2) as rt:
        rt.submit(lambda top: np.multiply(top, 10, out=top), InOut(grid[:2]))
        rt.submit(lambda low: np.negative(low, out=low), InOut(grid[2:]))
        total = rt.submit(lambda whole: (whole.ctypes.data, float(whole.sum())), In(grid))
        assert total.result() == (grid.data_ptr(), float(grid.sum()))
    assert grid[1, 3] == 70 and grid[2, 0] == -8


TASK = {"inputs": make, "oracle": exact, "sizes": {"n": [1, 7, 2**12]}}
