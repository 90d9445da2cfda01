"""What `auto` means: the measured choice where `whet tune` has left one for this adapter, else the safe default."""

from __future__ import annotations

from whet.errors import BadInput, WhetError
from whet.gpu.adapter import choose_adapter
from whet.gpu.tuned import recall
from whet.msm.webgpu.candidates import DEFAULT as GPU_DEFAULT
from whet.msm.webgpu.knobs import SPECS as GPU_SPECS
from whet.protocol import choose_variant


def measured_variant(where: str, adapter: str) -> str:
    """For a device `auto`, `cpu` or `webgpu` and part of an adapter's key. No driver is loaded without an entry."""
    safe = GPU_DEFAULT if where == "webgpu" else "auto"
    newest = recall("msm") if where != "cpu" else None
    if newest is None or (where == "auto" and not _on_gpu(newest.best)):
        return safe
    try:
        info, _ = choose_adapter(adapter or None)
    except WhetError:
        return safe  # opening the device says why
    entry = recall("msm", info.key, info.driver)
    if entry is None:
        return safe
    chosen = entry.best_on_adapter if where == "webgpu" else entry.best
    return chosen if _on_gpu(chosen) else safe


def _on_gpu(variant: str) -> bool:
    """Whether it is a variant of the GPU that this version still has: the file can be older, or edited."""
    try:
        choose_variant("msm", list(GPU_SPECS.values()), variant)
    except BadInput:
        return False
    return True
