"""Whether a driver computes what a shader says. Each probe is a tiny kernel with a known answer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whet.errors import Unsupported
from whet.gpu import driver
from whet.gpu.assembler import PROBES
from whet.gpu.device import Device
from whet.gpu.ledger import Ledger
from whet.gpu.program import Kernel, Pass

SIDE = 300  # 300 x 300 trips are more than the budget of the driver that loop_budget.wgsl is about


@dataclass(frozen=True)
class Complaint:
    """What a driver got wrong, and what to do about it."""

    cause: str
    cure: str


def examine(device: Device) -> list[Complaint]:
    """Runs the probes; an empty list means that the driver may be believed."""
    buffer = device.buffer("probe", 16, data=np.array([0, SIDE, 0, 0], np.uint32))
    try:
        kernel = Kernel.of(PROBES.assemble("loop_budget"), "loop_budget")
        device.submit([Pass("loop_budget", kernel, ("probe",), (1, 1, 1))])
        trips = int(device.read(buffer)[0])
    finally:
        device.release(buffer)
    if trips == SIDE * SIDE:
        return []
    return [
        Complaint(
            f"{device.info.name} ({device.info.driver}) leaves loops early: {trips:,} of {SIDE * SIDE:,} trips",
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
