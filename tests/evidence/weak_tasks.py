"""Tasks with one weakness each, around y = 3 x + 1: one honest, the others such that a free answer passes."""

from __future__ import annotations

import numpy as np

from whet.protocol import Case, Engine, Output, Tolerance, VariantSpec


class Honest(Engine):
    name = "honest"
    tolerance = Tolerance(relative=1e-12)

    def cases(self):
        return [Case(sizes={"n": n}) for n in (0, 1, 2, 64, 1000)]

    def variants(self):
        return [VariantSpec("plain", "numpy")]

    def outputs(self, case):
        return {"y": Output((case.sizes["n"],), np.float64)}

    def prepare(self, case, seed):
        return {"x": np.random.default_rng(seed).standard_normal(case.sizes["n"])}

    def run(self, variant, state, inputs, outputs):
        outputs["y"][:] = 3 * inputs["x"] + 1

    def oracle(self, case, fixed_seed, seed, inputs):
        return {"y": 3 * inputs["x"] + 1}


class SeedIgnored(Honest):
    def prepare(self, case, seed):
        return {"x": np.random.default_rng(1).standard_normal(case.sizes["n"])}


class AllZero(Honest):
    def oracle(self, case, fixed_seed, seed, inputs):
        return {"y": 0 * inputs["x"]}


class AllOnes(Honest):
    def oracle(self, case, fixed_seed, seed, inputs):
        return {"y": inputs["x"] ** 0}


class NearlyConstant(Honest):
    """Values around a thousand that differ by less than the tolerance."""

    tolerance = Tolerance(relative=1e-3)

    def oracle(self, case, fixed_seed, seed, inputs):
        return {"y": 1000 + 0.1 * np.tanh(inputs["x"])}


class Identity(Honest):
    """A sum over an axis that the inputs leave empty but for one row."""

    def prepare(self, case, seed):
        return {"x": np.random.default_rng(seed).standard_normal((1, case.sizes["n"]))}

    def oracle(self, case, fixed_seed, seed, inputs):
        return {"y": inputs["x"].sum(axis=0)}


class LooseAbsolute(Honest):
    """The absolute tolerance is larger than the values."""

    tolerance = Tolerance(relative=1e-12, absolute=1.0)

    def oracle(self, case, fixed_seed, seed, inputs):
        return {"y": 1e-3 * inputs["x"]}


class HalfByAbsolute(Honest):
    """Precise where values are large, half precision where they are not: they never are."""

    tolerance = Tolerance(relative=1e-12, absolute=1e-2)


class FewDigits(Honest):
    """Whole numbers in float64: computing in half precision would be exact."""

    def prepare(self, case, seed):
        return {"x": np.random.default_rng(seed).integers(-8, 8, case.sizes["n"]).astype(np.float64)}


class Periodic(Honest):
    """Larger cases repeat what the smallest holds."""

    def prepare(self, case, seed):
        return {"x": np.resize(np.random.default_rng(seed).standard_normal(2), case.sizes["n"])}


class Unsteady(Honest):
    calls = 0

    def oracle(self, case, fixed_seed, seed, inputs):
        Unsteady.calls += 1
        return {"y": 3 * inputs["x"] + Unsteady.calls}


class Writes(Honest):
    def oracle(self, case, fixed_seed, seed, inputs):
        x = inputs["x"]
        x *= 3
        return {"y": x + 1}


class Sorts(Honest):
    """An honest sort: its answers are sorted, and there is nothing wrong with that."""

    def oracle(self, case, fixed_seed, seed, inputs):
        return {"y": np.sort(inputs["x"])}


class SortsSorted(Sorts):
    def prepare(self, case, seed):
        return {"x": np.sort(np.random.default_rng(seed).standard_normal(case.sizes["n"]))}


class HonestlyHalf(Honest):
    """The tolerance says half precision in so many words."""

    tolerance = Tolerance(relative=2e-3)


class EdgeProfile(Honest):
    """A profile of zeros beside the random one: it tests an edge."""

    def profiles(self):
        return ("random", "zeros")

    def prepare(self, case, seed):
        made = super().prepare(case, seed)
        return {"x": made["x"] * (case.profile != "zeros")}


class Counts(Honest):
    """Whole numbers in an integer output, equal to the bit; an axis that is always 1 is no edge."""

    tolerance = Tolerance()

    def cases(self):
        return [Case(sizes={"batch": 1, "n": n}) for n in (1, 300)]

    def outputs(self, case):
        return {"y": Output((16,), np.int64)}

    def prepare(self, case, seed):
        return {"x": np.random.default_rng(seed).integers(0, 16, case.sizes["n"])}

    def oracle(self, case, fixed_seed, seed, inputs):
        return {"y": np.bincount(inputs["x"], minlength=16)}


class AlwaysOneRow(Identity):
    """No case has more than one row, so the one row is the task, and a free answer to it a weakness."""

    def cases(self):
        return [Case(sizes={"rows": 1, "n": n}) for n in (8, 100)]
