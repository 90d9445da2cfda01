"""A sum as work for a device that is elsewhere: the plan within what every browser grants, fed and finished here."""

from __future__ import annotations

from whet.errors import Unsupported, WrongAnswer
from whet.gpu.faults import CURES
from whet.gpu.program import Program
from whet.msm.validate import Limbs
from whet.msm.webgpu.finish import finish, kept_points, upload_scalars, window_sums
from whet.msm.webgpu.kernels import Plant
from whet.msm.webgpu.knobs import Choice
from whet.msm.webgpu.pieces import place
from whet.msm.webgpu.plan import build
from whet.msm.webgpu.request import Request
from whet.protocol import Arrays, PortableProgram


def portable_of(points: Limbs, choice: Choice, *, plant: Plant | None = None) -> PortableProgram:
    """The sum of all `points` with new scalars in every call. `plant` puts a fault into a kernel, for tests."""
    n = len(points)
    if not n:
        return PortableProgram(Program({}, ()), (), lambda inputs: {}, _infinity)
    placement = place(Request(n, choice, n))
    if placement.pieces > 1:
        raise Unsupported(f"{n} points in pieces are no single program", cure="choose fewer points, or points=resident")
    if choice.multiply == "wide":
        raise Unsupported("browsers have no 64-bit integers", cure="use multiply=portable")
    used = placement.piece.choice
    plan = build(n, used, resident=n, plant=plant)

    def feed(inputs: Arrays) -> Arrays:
        return plan.scalars(upload_scalars(inputs["scalars"], geometry=plan.geometry))

    def finished(read: Arrays, outputs: Arrays) -> None:
        result = read["result"]
        if rootless := plan.counters(result)["rootless"]:
            raise WrongAnswer(f"the device found no y for {rootless:,} points of the curve", cure=CURES[WrongAnswer])
        outputs["point"][:] = finish(plan.geometry, window_sums(plan.geometry, result))[0]

    kept = kept_points(points, glv=used.glv, compressed=used.compressed)
    return PortableProgram(plan.program, ("result",), feed, finished, kept)


def _infinity(read: Arrays, outputs: Arrays) -> None:
    outputs["point"][:] = 0
