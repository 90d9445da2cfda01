"""Which adapters there are, what they can do, and whether their driver can be believed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from whet.errors import Unsupported
from whet.gpu import driver
from whet.gpu.type_strings import show_few_names

# What every browser grants without being asked. A device opened with these limits refuses what a browser would refuse.
BROWSER_FLOOR = {
    "max-bind-groups": 4,
    "max-storage-buffers-per-shader-stage": 8,
    "max-uniform-buffers-per-shader-stage": 12,
    "max-storage-buffer-binding-size": 128 << 20,
    "max-uniform-buffer-binding-size": 64 << 10,
    "max-buffer-size": 256 << 20,
    "max-compute-workgroup-storage-size": 16384,
    "max-compute-invocations-per-workgroup": 256,
    "max-compute-workgroup-size-x": 256,
    "max-compute-workgroup-size-y": 256,
    "max-compute-workgroup-size-z": 64,
    "max-compute-workgroups-per-dimension": 65535,
}

INSTALL_CURE = f"run `{driver.INSTALL}` for a software driver, or install the driver of your GPU"


@dataclass(frozen=True)
class AdapterInfo:
    """Plain facts about one adapter, as stored with a run. `key` names it in `webgpu:<key>`."""

    key: str
    name: str
    driver: str
    backend: str
    kind: str
    software: bool
    features: tuple[str, ...]
    limits: dict[str, int] = field(hash=False)


def adapters() -> list[tuple[AdapterInfo, Any]]:
    """Every adapter of this machine with its handle, real GPUs first. Empty where there is no driver at all."""
    driver.activate()
    try:
        import wgpu
        from wgpu.backends.wgpu_native import ffi
    except ImportError:
        raise Unsupported("the wgpu package is not installed", cure="pip install 'whet[gpu]'") from None
    show_few_names(ffi)
    found = [(_describe(handle), handle) for handle in wgpu.gpu.enumerate_adapters_sync()]
    # Vulkan before OpenGL: the same chip often shows up as both, and OpenGL lacks features.
    return sorted(found, key=lambda pair: (pair[0].software, pair[0].backend != "Vulkan", pair[0].key))


def choose_adapter(wanted: str | None = None) -> tuple[AdapterInfo, Any]:
    """The best adapter, or the one whose key contains `wanted`."""
    found = adapters()
    if not found:
        raise Unsupported("no WebGPU adapter on this machine", cure=INSTALL_CURE)
    matching = [pair for pair in found if wanted is None or wanted.lower() in pair[0].key]
    if not matching:
        offer = ", ".join(info.key for info, _ in found)
        raise Unsupported(f"no adapter matches {wanted!r}", cure=f"adapters here: {offer}")
    return matching[0]


def _describe(handle: Any) -> AdapterInfo:
    info = handle.info
    backend = str(info["backend_type"])
    name = str(info["device"])
    return AdapterInfo(
        key=f"{name.split(' (', maxsplit=1)[0].lower().replace(' ', '-')}-{backend.lower()}",
        name=name,
        driver=str(info["description"]),
        backend=backend,
        kind=str(info["adapter_type"]),
        software=str(info["adapter_type"]) == "CPU",
        features=tuple(sorted(handle.features)),
        limits=dict(handle.limits),
    )
