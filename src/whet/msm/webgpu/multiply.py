"""Which field multiply `multiply=auto` means on a device: the one that a short trial finds faster.

A device without 64-bit integers has the portable one and nothing is measured. Elsewhere both multiply the same values
in a chain. The wide one is taken if its products are right and it is faster beyond the noise; whatever else is seen,
the portable one stays. The answer is kept for the adapter and its driver, like that of `whet tune`.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from datetime import UTC, datetime

import numpy as np

from whet.errors import ShaderError, WhetError
from whet.gpu import Device, Kernel, Pass
from whet.gpu.tuned import EVERY_SIZE, Tuned, recall, remember
from whet.msm.point import P
from whet.msm.webgpu.kernels import WORKGROUP
from whet.msm.webgpu.layout import R_BITS, WGSL

PORTABLE, WIDE = "portable", "wide"
TRIAL = "msm:multiply"  # the name under which the answer is kept
THREADS, LENGTH = 4096, 128  # some 10 ms on two cores, a millisecond on a GPU: both far above a submission
ROUNDS = 5
GAIN = 0.95  # the wide multiply has to be faster by this factor
CHECKED = 64

_known: dict[tuple[str, str], str] = {}


def chain(operation: str, length: int, *, wide: bool, threads: int) -> Pass:
    """`length` times `multiply` (by the value at the start) or `invert` in every thread, in the buffer `chain`."""
    made = WGSL.assemble(
        "chain", multiply=WIDE if wide else PORTABLE, operation=operation, length=length, workgroup=WORKGROUP
    )
    return Pass("chain", Kernel.of(made, "chain"), ("chain",), (threads // WORKGROUP, 1, 1))


def fastest_multiply(device: Device, clock: Callable[[], int] = time.perf_counter_ns) -> str:
    """`portable` or `wide`. Asked once per process for an adapter and its driver, and measured once per machine."""
    if "shader-int64" not in device.handle.features:
        return PORTABLE
    about = (device.info.key, device.info.driver)
    if about not in _known:
        entry = recall(TRIAL, *about)
        if entry is None or entry.best not in (PORTABLE, WIDE):
            entry = measure(device, clock)
            with contextlib.suppress(WhetError):  # a folder that cannot be written costs a second, not the sum
                remember(entry)
        _known[about] = entry.best
    return _known[about]


def measure(device: Device, clock: Callable[[], int] = time.perf_counter_ns) -> Tuned:
    """Both multiplies in turn, the minimum of each. Wall time around a submission: adapters may have no timestamps."""
    values = np.random.default_rng(1).integers(1, 2**28, (THREADS, 8), np.uint32)
    buffer = device.buffer("chain", values.nbytes)
    spent: dict[str, list[int]] = {PORTABLE: [], WIDE: []}
    refused = ""
    try:
        for turn in range(1 + ROUNDS):  # the first compiles
            for name, some in spent.items():
                device.write(buffer, values)
                begun = clock()
                device.submit([chain("multiply", LENGTH, wide=name == WIDE, threads=THREADS)])
                some.append(clock() - begun)
                if turn == 0 and device.read(buffer).tobytes()[: 32 * CHECKED] != _expected(values[:CHECKED]):
                    refused = f"the {name} products are wrong"
    except ShaderError as error:
        refused = f"a multiply does not compile: {error.cause}"
    finally:
        device.release(buffer)
    times = {name: float(min(some[1:], default=0)) for name, some in spent.items()}
    best = WIDE if not refused and 0 < times[WIDE] < GAIN * times[PORTABLE] else PORTABLE
    return Tuned(
        engine=TRIAL,
        adapter=device.info.key,
        driver=device.info.driver,
        software=device.info.software,
        best=best,
        best_on_adapter=best,
        because=refused or f"portable takes {times[PORTABLE] / max(times[WIDE], 1):.2f} times as long as wide",
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        run="",
        times_ns=times,
        size_class=EVERY_SIZE,
    )


def _expected(values: np.ndarray) -> bytes:
    """What the chain leaves of each value b: b times (b / R) to the power of its length, with Python's integers."""
    unscale = pow(1 << R_BITS, -1, P)
    starts = [int.from_bytes(row.tobytes(), "little") for row in values]
    return b"".join((b * pow(b * unscale, LENGTH, P) % P).to_bytes(32, "little") for b in starts)
