"""What `auto` means: what `whet tune` found best for as many points on this adapter, else the safe default."""

from __future__ import annotations

from collections.abc import Callable

from whet.errors import BadInput, WhetError
from whet.gpu.adapter import choose_adapter
from whet.gpu.tuned import recall, size_class
from whet.msm.webgpu.candidates import DEFAULT as GPU_DEFAULT
from whet.msm.webgpu.knobs import SPECS as GPU_SPECS
from whet.protocol import choose_variant


def measured_variant(where: str, adapter: str, count: Callable[[], int]) -> str:
    """For a device `auto`, `cpu` or `webgpu`, part of an adapter's key and that many points.

    Without an entry no driver is loaded and nothing is counted. Sizes of another class than was measured get the safe
    default.
    """
    safe = GPU_DEFAULT if where == "webgpu" else "auto"
    if where == "cpu" or recall("msm") is None:
        return safe
    wanted = size_class(count())
    newest = recall("msm", size_class=wanted)
    if newest is None or (where == "auto" and not _on_gpu(newest.best)):
        return safe
    try:
        info, _ = choose_adapter(adapter or None)
    except WhetError:
        return safe  # opening the device says why
    entry = recall("msm", info.key, info.driver, wanted)
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
