"""Two compilers of WGSL, without running anything: Tint, which Chromium has, and naga, which Firefox and wgpu have.

Each is asked in a process of its own, because Dawn and wgpu export the same C names. Tint sits in Dawn, whose null
backend needs no driver; naga sits in wgpu, which needs an adapter of any kind.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path

from every_kernel import Made

ROOT = Path(__file__).parents[2]

# Gives what the compiler complains about, or nothing.
Compiler = Callable[[str], str]


def tint() -> Compiler:
    from pydawn import utils, webgpu

    utils.supported_backends["Null"] = webgpu.WGPUBackendType_Null
    os.environ["BACKEND_TYPE"] = "Null"
    device = utils.request_device_sync(utils.request_adapter_sync(webgpu.WGPUPowerPreference_HighPerformance))

    def complaint(source: str) -> str:
        try:
            # pydawn counts characters where Dawn wants bytes; outside of comments WGSL is ASCII.
            utils.create_shader_module(device, source.encode("ascii", "replace").decode())
        except RuntimeError as error:
            return str(error)
        return ""

    return complaint


def naga() -> Compiler:
    import wgpu

    from whet.gpu import driver

    driver.activate()
    adapter = wgpu.gpu.request_adapter_sync()
    features = ["shader-int64"] if "shader-int64" in adapter.features else []
    device = adapter.request_device_sync(required_features=features)

    def complaint(source: str) -> str:
        try:
            device.create_shader_module(code=source)
        except wgpu.GPUError as error:
            return str(error)
        return ""

    return complaint


COMPILERS = {"tint": tint, "naga": naga}
_PLACE = re.compile(r"(?:^|\D):(\d+):\d+")
_ERROR = re.compile(r"\berror: (.*)")


def place(complaint: str) -> tuple[int, str]:
    """The line that a complaint is about, 1 if it names none, and what it says in one line."""
    line, error = _PLACE.search(complaint), _ERROR.search(complaint)
    return int(line.group(1)) if line else 1, error.group(1) if error else complaint.strip().splitlines()[0]


def complaints(kernels: Iterable[Made], compiler: Compiler) -> tuple[int, list[str]]:
    """How many kernels were read, and what is wrong: each fault once, with the first kernel that shows it."""
    read, found = 0, {}
    for made in kernels:
        read += 1
        if said := compiler(made.assembled.source):
            line, what = place(said)
            origin = made.assembled.origin(line)
            path = (made.folder.path / f"{origin.file}.wgsl").resolve()
            shown = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
            found.setdefault(f"{shown}:{origin.number}: {what}", made.about)
    return read, [f"{told} ({about})" for told, about in found.items()]
