"""Engines with a fault in their WGSL, for the gate to find on a device elsewhere."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

from saxpy_webgpu import Saxpy

from whet.msm.engine import MsmEngine
from whet.msm.validate import read_points
from whet.msm.webgpu.knobs import Choice
from whet.msm.webgpu.portable import portable_of
from whet.protocol import VariantSpec

FAULTS = {
    "large": ("3u * x[id.x]", "3u * x[id.x] + (x[id.x] & 1u)"),
    "broken": ("var<storage, read> x", "var<x"),
}


SOUND, WRONG = "fe_sub(fe_sub(", "fe_sub(fe_add("


class WrongSaxpy(Saxpy):
    """`large` adds once too much where the sum is even, `mute` writes nothing, `broken` does not compile."""

    name = "wrong-saxpy"

    def variants(self):
        return [*super().variants(), VariantSpec("broken", "no WGSL"), VariantSpec("mute", "writes nothing")]

    def portable(self, variant, case, fixed):
        import saxpy_webgpu

        sound, wrong = FAULTS.get(variant.name, ("", ""))
        kept, saxpy_webgpu.WGSL = saxpy_webgpu.WGSL, saxpy_webgpu.WGSL.replace(sound, wrong, 1)
        saxpy_webgpu.WIDTHS = {"small": 32, "large": 256, "broken": 32, "mute": 32}
        try:
            work = super().portable(variant, case, fixed)
        finally:
            saxpy_webgpu.WGSL = kept
        if variant.name == "mute":
            from dataclasses import replace

            from whet.gpu import Program

            buffers = {**work.program.buffers, "out": 4 * case.sizes["n"]}

            def finish(read, outputs):
                outputs["y"][:] = read["out"]

            return replace(work, program=Program(buffers, work.program.steps), outputs=("out",), finish=finish)
        return work


class SlowSaxpy(Saxpy):
    """`large` is right and slow: many passes before its own, into a buffer that nobody reads."""

    name = "slow-saxpy"

    def portable(self, variant, case, fixed):
        from dataclasses import replace

        from whet.gpu import Program

        work = super().portable(variant, case, fixed)
        if variant.name != "large":
            return work
        (step,) = work.program.steps
        waste = replace(step, name="waste", bindings=("x", "waste"))
        buffers = {**work.program.buffers, "waste": 4 * case.sizes["n"]}
        return replace(work, program=Program(buffers, (*[waste] * 300, step)))


class WrongSum(MsmEngine):
    """`coop` adds where its reduction subtracts."""

    name = "wrong-sum"

    def portable(self, variant, case, fixed):
        def plant(file, source):
            if file != "reduce":
                return source
            assert SOUND in source
            return source.replace(SOUND, WRONG, 1)

        points, choice = read_points(fixed["points"]), Choice.of(variant.name, variant.knobs)
        return portable_of(points, choice, plant=plant if variant.name == "coop" else None)
