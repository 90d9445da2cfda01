"""The kernels of every pass, put together from the files in wgsl/. Geometry is in uniforms, so kernels are few."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from whet.gpu import Kernel
from whet.gpu.assembler import Folder

WGSL = Folder(Path(__file__).parent / "wgsl")


@cache
def product_kernel(stage: str, kind: str, tile: int) -> Kernel:
    """The product of one stage with weights of one type, for `tile` vectors at a time."""
    return Kernel.of(WGSL.assemble("product", stage=stage, kind=kind, tile=tile), stage)


@cache
def attend_kernel(kv_type: str) -> Kernel:
    return Kernel.of(WGSL.assemble("attend", kv_type=kv_type), "attend")


@cache
def norm_kernel(entry: str) -> Kernel:
    return Kernel.of(WGSL.assemble("norm"), entry)


@cache
def exponentials_kernel() -> Kernel:
    return Kernel.of(WGSL.assemble("exponentials"), "exponentials")
