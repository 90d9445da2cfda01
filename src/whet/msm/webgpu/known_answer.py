"""A sum whose answer is known, before a device is asked for one that is not: per adapter, driver and set of kernels.

1,024 points of known logarithm, among them equal ones, opposite ones and infinity, with scalars of which many are equal
too: points meet in the buckets, double and cancel. Full-length scalars reach every window with both signs. The answer
is (sum s_i k_i) G from Python's integers.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import cache

import numpy as np

from whet.errors import Unsupported, WrongAnswer
from whet.gpu import Device, Pass
from whet.gpu.ledger import Ledger
from whet.gpu.trusted import keep, passed
from whet.msm import inputs as make
from whet.msm.oracle import known_multiples
from whet.msm.validate import Limbs
from whet.msm.webgpu.finish import finish, kept_points, upload_scalars, window_sums
from whet.msm.webgpu.knobs import Choice
from whet.msm.webgpu.plan import Plan, build

POINTS = 1024
SEED = 254


@cache
def question() -> tuple[Limbs, Limbs, bytes]:
    """Points, scalars and the sum: half of them meet each other all the time, half are independent."""
    half = POINTS // 2
    logs = np.concatenate([make.logs("collide", half, SEED), make.logs("random", half, SEED)])
    kinds = {"clustered": half, "edges": half // 2, "random": half // 2}
    scalars = np.concatenate([make.scalars(kind, size, SEED) for kind, size in kinds.items()])
    answer = known_multiples(make.to_ints(logs), make.to_ints(scalars))
    return make.points_from_logs(logs), scalars, answer.to_bytes()


def require_known_answer(device: Device, choice: Choice, *, wide: bool) -> None:
    """Refuses a device whose sum is wrong. What it allocates is gone from the ledger afterwards."""
    points, scalars, expected = question()
    plan = build(POINTS, replace(choice.kernels(), glv=choice.glv), wide=wide)
    what = f"msm {choice.accumulator} {_digest(plan)}"
    if passed(what, device.info):
        return
    try:
        found = _answer(device, plan, points, scalars)
    except WrongAnswer:
        found = b""
    device.ledger = Ledger()
    if found != expected:
        multiply = "wide" if wide else "portable"
        other = "try multiply=portable, another" if wide else "use another"
        raise Unsupported(
            f"this driver is refused: {device.info.name} ({device.info.driver}) gives a wrong sum of {POINTS:,} points "
            f"whose sum is known ({choice.accumulator}, multiply={multiply})",
            cure=f"{other} adapter or driver (`whet doctor`), or fallback=True for the CPU's answer",
        )
    keep(what, device.info)


def _answer(device: Device, plan: Plan, points: Limbs, scalars: Limbs) -> bytes:
    buffers = device.allocate(plan.program)
    try:
        kept = kept_points(points, glv=plan.geometry.glv, compressed=plan.request.choice.compressed)
        for name, words in kept.items():
            device.write(buffers[name], words)
        device.write(buffers["scalars"], upload_scalars(scalars, geometry=plan.geometry))
        device.submit(plan.program.steps)
        sums = window_sums(plan.geometry, device.read(buffers["result"]))
    finally:
        for buffer in buffers.values():
            device.release(buffer)
    return finish(plan.geometry, sums)[0].tobytes()


def _digest(plan: Plan) -> str:
    """Of every source in the program, so that other kernels are asked again."""
    kernels = {step.kernel for step in plan.program.steps if isinstance(step, Pass)}
    digest = hashlib.sha256("".join(sorted(kernel.source for kernel in kernels)).encode())
    return digest.hexdigest()[:16]
