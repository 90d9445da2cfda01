"""The MSM engine on variants with planted faults, for the gate. Every variant takes `fault`: 0 is none.

Points, scalars and the oracle are those of the real engine; only the computation comes from the faulty library.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from whet.msm.engine import MsmEngine
from whet.msm.validate import read_points
from whet.protocol import Case, Knob, Variant, VariantSpec

LIBRARY = Path(__file__).parents[2] / "build" / "tests-gcc" / "tests" / "libwhet_faulty.so"
_U64 = np.ctypeslib.ndpointer(np.uint64, flags=("C_CONTIGUOUS", "ALIGNED"))


def library() -> Any:
    loaded = ctypes.CDLL(str(LIBRARY))
    loaded.whet_fault_name.restype = ctypes.c_char_p
    loaded.whet_fault_name.argtypes = [ctypes.c_size_t]
    loaded.whet_plant.argtypes = [ctypes.c_int]
    loaded.whet_plain.argtypes = [_U64, _U64, ctypes.c_size_t, _U64]
    loaded.whet_pippenger.argtypes = [_U64, _U64, ctypes.c_size_t, ctypes.c_uint, ctypes.c_bool, _U64]
    return loaded


def fault_names() -> list[str]:
    """Every planted fault by number; the first is "none"."""
    native, names = library(), []
    while name := native.whet_fault_name(len(names)):
        names.append(name.decode())
    return names


class FaultyMsm(MsmEngine):
    """`pippenger:c=4,fault=3` and the like."""

    name = "faulty-msm"

    def variants(self) -> list[VariantSpec]:
        fault = Knob("fault", 0, minimum=0, maximum=1000)
        pippenger = (Knob("c", 0, minimum=0, maximum=20), Knob("glv", False), fault)
        return [VariantSpec("plain", "", (fault,)), VariantSpec("pippenger", "", pippenger)]

    def setup(self, variant: Variant, case: Case, fixed: Any, device: str) -> Callable[[Any, Any], None]:
        native, points, knobs = library(), read_points(fixed["points"]), variant.knobs
        native.whet_plant(int(knobs.get("fault", 0)))

        def compute(scalars: Any, out: Any) -> None:
            if variant.name == "plain":
                native.whet_plain(points, scalars, len(points), out)
            else:
                options = int(knobs.get("c", 0)), bool(knobs.get("glv", False))
                native.whet_pippenger(points, scalars, len(points), *options, out)

        return compute

    def run(self, variant: Variant, state: Any, inputs: Any, outputs: Any) -> None:
        state(inputs["scalars"], outputs["point"])

    def close(self, state: Any) -> None:
        pass
