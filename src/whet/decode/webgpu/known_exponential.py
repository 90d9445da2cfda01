"""How far off a device's exponential is, before it is used: drivers may use fast mathematics and reorder additions.

`exponential.wgsl` is written for 1.5 ULP; the tolerances of decode are made for that. It is asked at 4,096 arguments
over its whole range, half of them where a softmax has most of its own, once per adapter, driver and source.
"""

from __future__ import annotations

import hashlib
from functools import cache

import numpy as np
import numpy.typing as npt

from whet.decode.webgpu.sources import exponentials_kernel
from whet.errors import Unsupported
from whet.gpu import Device, Kernel, Pass
from whet.gpu.trusted import keep, passed

MOST_ULP = 2.0
WORKGROUP, ARGUMENTS = 64, 4096


@cache
def arguments() -> npt.NDArray[np.float32]:
    """From -87 to 88, half of them between -8 and 0, and the ends themselves."""
    rng = np.random.default_rng(1)
    ends = np.array([-87.0, 88.0, 0.0, -1e-30, 1e-30, -0.34657359, 0.34657359, 1.0], np.float32)
    wide = rng.uniform(-87, 88, ARGUMENTS // 2 - len(ends))
    return np.concatenate([ends, wide, rng.uniform(-8, 0, ARGUMENTS // 2)]).astype(np.float32)


def error_ulp(device: Device, kernel: Kernel) -> float:
    """The largest error over the arguments, in units of the last place of the true value."""
    given = arguments()
    buffer = device.buffer("exponentials", given.nbytes, data=given)
    try:
        device.submit([Pass("exponentials", kernel, ("exponentials",), (ARGUMENTS // WORKGROUP, 1, 1))])
        found = device.read(buffer, np.float32).astype(np.float64)
    finally:
        device.release(buffer)
    true = np.exp(given.astype(np.float64))
    with np.errstate(invalid="ignore"):
        errors = np.abs(found - true) / np.spacing(true.astype(np.float32)).astype(np.float64)
    return float(np.where(np.isfinite(errors), errors, np.inf).max())


def require_good_exponential(device: Device) -> None:
    """Refuses a device whose exponential is less exact than what the layer is checked for."""
    kernel = exponentials_kernel()
    what = f"decode exponential {hashlib.sha256(kernel.source.encode()).hexdigest()[:16]}"
    if passed(what, device.info):
        return
    found = error_ulp(device, kernel)
    if not found <= MOST_ULP:
        raise Unsupported(
            f"this driver is refused: {device.info.name} ({device.info.driver}) gives exponentials that are off by "
            f"{found:.3g} ULP, {MOST_ULP:g} are allowed",
            cure="use another adapter or driver (`whet doctor`), or the CPU",
        )
    keep(what, device.info)
