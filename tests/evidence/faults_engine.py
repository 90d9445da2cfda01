"""A kernel whose variants do as they should until a file appears, and then fail, each in its own way."""

from __future__ import annotations

import contextlib
import ctypes
import os
from pathlib import Path

import numpy as np

from whet.errors import DeviceLost, DeviceOutOfMemory
from whet.protocol import Case, Engine, Output, Tolerance, VariantSpec

FLAG = "WHET_TEST_FAULT_FLAG"
ROUNDS = 12


def struck() -> bool:
    return Path(os.environ.get(FLAG, "/nowhere")).exists()


def babble() -> None:
    """Bytes that are no message, on every descriptor."""
    for fd in range(3, 64):
        with contextlib.suppress(OSError):
            os.write(fd, b"\x05\0\0\0junk!")


class Faults(Engine):
    name = "faults"
    tolerance = Tolerance(relative=1e-12)

    def cases(self):
        return [Case(sizes={"n": n}) for n in (16, 20_000)]

    def variants(self):
        names = ("plain", "again", "lost-in-setup", "memory-in-run", "crash", "babble")
        return [VariantSpec(name, "y = cos(...cos(x))") for name in names]

    def outputs(self, case):
        return {"y": Output((case.sizes["n"],), np.float64)}

    def prepare(self, case, seed):
        return {"x": np.random.default_rng(seed).standard_normal(case.sizes["n"])}

    def oracle(self, case, fixed_seed, seed, inputs):
        y = inputs["x"]
        for _ in range(ROUNDS):
            y = np.cos(y)
        return {"y": y}

    def setup(self, variant, case, fixed, device):
        if variant.name == "lost-in-setup" and struck():
            raise DeviceLost("the adapter fell off the bus", cure="plug it in")

    def run(self, variant, state, inputs, outputs):
        np.cos(inputs["x"], out=outputs["y"])
        for _ in range(ROUNDS - 1):
            np.cos(outputs["y"], out=outputs["y"])
        if variant.name in ("memory-in-run", "crash", "babble") and struck():
            if variant.name == "memory-in-run":
                raise DeviceOutOfMemory("the card is full", cure="free some")
            if variant.name == "babble":
                babble()
            else:
                ctypes.string_at(0)
