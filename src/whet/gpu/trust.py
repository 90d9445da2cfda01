"""Whether a driver computes what a shader says, here or elsewhere. Each probe is a tiny kernel with a known answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from whet.errors import Unsupported
from whet.gpu import driver
from whet.gpu.assembler import PROBES
from whet.gpu.device import Device
from whet.gpu.ledger import Ledger
from whet.gpu.portable import Outcome, run_here
from whet.gpu.program import Kernel, Pass, Program

Runner = Callable[[Program, Mapping[str, npt.NDArray[Any]], Sequence[str]], Outcome]
SIDE = 300  # 300 x 300 trips are more than the budget of the driver that loop_budget.wgsl is about


@dataclass(frozen=True)
class Complaint:
    """What a driver got wrong, and what to do about it."""

    cause: str
    cure: str


def examine(device: Device) -> list[Complaint]:
    """Runs the probes; an empty list means that the driver may be believed."""
    program, inputs = _probe()
    trips = int(run_here(device, program, inputs, ["probe"], timed=False).outputs["probe"][0])
    return _complaints(f"{device.info.name} ({device.info.driver})", trips)


def require_good_runner(run: Runner) -> None:
    """The same of another implementation of WebGPU, which `run` runs a program under."""
    program, inputs = _probe()
    outcome = run(program, inputs, ["probe"])
    who = " ".join(str(outcome.adapter.get(key, "")) for key in ("device", "description")).strip()
    if complaints := _complaints(who or "an adapter without a name", int(outcome.outputs["probe"][0])):
        raise Unsupported(f"this driver is refused: {complaints[0].cause}", cure=complaints[0].cure)


def _probe() -> tuple[Program, dict[str, npt.NDArray[np.uint32]]]:
    kernel = Kernel.of(PROBES.assemble("loop_budget"), "loop_budget")
    program = Program({"probe": 16}, (Pass("loop_budget", kernel, ("probe",), (1, 1, 1)),))
    return program, {"probe": np.array([0, SIDE, 0, 0], np.uint32)}


def _complaints(who: str, trips: int) -> list[Complaint]:
    if trips == SIDE * SIDE:
        return []
    return [
        Complaint(
            f"{who} leaves loops early: {trips:,} of {SIDE * SIDE:,} trips",
            f"use a newer driver: run `{driver.INSTALL}` for Mesa 25's lavapipe",
        )
    ]


_believed: set[tuple[str, str]] = set()


def require_good_driver(device: Device) -> None:
    """Asks each adapter and driver once per process; what the probes allocated is not on the ledger afterwards."""
    asked = (device.info.key, device.info.driver)
    if asked not in _believed:
        if complaints := examine(device):
            raise Unsupported(f"this driver is refused: {complaints[0].cause}", cure=complaints[0].cure)
        device.ledger = Ledger()
        _believed.add(asked)
