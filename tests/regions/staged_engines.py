"""Engines whose variants sort and tell stage times; some of them are wrong."""

from __future__ import annotations

import numpy as np

from whet.protocol import Case, Engine, Output, Timing, VariantSpec


class Staged(Engine):
    name = "staged"
    regions = (("sort", 60), ("copy", 39))

    def cases(self):
        return [Case(sizes={"n": 4})]

    def variants(self):
        return [VariantSpec(name, "") for name in ("plain", "wrong", "wrong-later", "raises")]

    def outputs(self, case):
        return {"out": Output((case.sizes["n"],), np.float64)}

    def prepare(self, case, seed):
        return {"x": np.random.default_rng(seed).random(case.sizes["n"])}

    def setup(self, variant, case, fixed, device):
        if variant.name == "raises":
            raise RuntimeError("no stage today")
        return {"calls": 0}

    def run(self, variant, state, inputs, outputs):
        state["calls"] += 1
        outputs["out"][:] = np.sort(inputs["x"])
        if variant.name == "wrong" or (variant.name == "wrong-later" and state["calls"] > 6):
            outputs["out"][0] += 1

    def oracle(self, case, fixed_seed, seed, inputs):
        return {"out": np.array(sorted(inputs["x"]))}

    def timing(self, state):
        return Timing(device_ns=100, regions_ns=dict(self.regions))


class Silent(Staged):
    regions = ()
