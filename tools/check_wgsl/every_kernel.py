"""Every kernel of the package, put together for every kind of knob that changes its text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from whet.decode.stored import KV_TYPES, WEIGHT_TYPES
from whet.decode.webgpu import sources as decode
from whet.decode.webgpu.geometry import STAGES
from whet.gpu.assembler import Assembled, Folder
from whet.gpu.trust import PROBES
from whet.msm.webgpu import kernels as msm
from whet.msm.webgpu.knobs import SCRATCHES, Choice
from whet.msm.webgpu.layout import WGSL

CHOICES = (
    Choice("gpu_plain"),
    *(Choice("walker", scratch=scratch) for scratch in SCRATCHES),
    *(Choice("coop", g=g) for g in (1, 8, 64)),
    Choice("pairs", g=8),
    Choice(points="compressed"),
)


@dataclass(frozen=True)
class Made:
    """A kernel with the folder it comes from. `wide`: it has 64-bit integers, which browsers do not."""

    folder: Folder
    entry: str
    about: str
    assembled: Assembled
    wide: bool = False


def every_kernel() -> Iterator[Made]:
    yield from _sum()
    yield from _decode()
    for name in PROBES.names():
        yield Made(PROBES, name, name, PROBES.assemble(name))


def _sum() -> Iterator[Made]:
    seen = set()
    for choice, wide in product(CHOICES, (False, True)):
        for file in msm.files(choice).values():
            made = msm.assembled(file, choice, wide=wide)
            if made.source not in seen:
                seen.add(made.source)
                about = f"{file} of {choice.accumulator}, scratch={choice.scratch}, g={choice.g}, wide={wide}"
                yield Made(WGSL, file, about, made, "u64(" in made.source)
    for operation, multiply in product(("multiply", "invert"), ("portable", "wide")):
        keys = {"operation": operation, "multiply": multiply, "length": 8, "workgroup": msm.WORKGROUP}
        yield Made(WGSL, "chain", f"chain, {operation}, {multiply}", WGSL.assemble("chain", **keys), multiply == "wide")


def _decode() -> Iterator[Made]:
    folder = decode.WGSL
    for stage, kind, tile in product(STAGES, WEIGHT_TYPES, (1, 2, 4)):
        made = folder.assemble("product", stage=stage, kind=kind, tile=tile)
        yield Made(folder, stage, f"{stage}, {kind}, {tile} vectors", made)
    for kv_type in KV_TYPES:
        yield Made(folder, "attend", f"attend, {kv_type}", folder.assemble("attend", kv_type=kv_type))
    for entry in ("norm", "gather"):
        yield Made(folder, entry, entry, folder.assemble("norm"))
    yield Made(folder, "exponentials", "exponentials", folder.assemble("exponentials"))
