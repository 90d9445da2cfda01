"""Typed faults of a device, and the hooks that let a test make each of them happen at a chosen moment."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from whet.errors import (
    BadInput,
    DeviceError,
    DeviceLost,
    DeviceOutOfMemory,
    DeviceTimeout,
    ShaderError,
    WhetError,
    WrongAnswer,
)
from whet.gpu.lies import Liar
from whet.gpu.program import Kernel, Step

MOMENTS = ("allocate", "compile", "submit", "wait", "read")
FAULTS: dict[str, type[WhetError]] = {
    "lost": DeviceLost,
    "memory": DeviceOutOfMemory,
    "shader": ShaderError,
    "timeout": DeviceTimeout,
}

CURES = {
    DeviceLost: "call again: the next call opens a new device; if it happens again, use smaller batches",
    DeviceOutOfMemory: "lower memory_budget, or close other users of the GPU",
    DeviceTimeout: "use smaller batches, or raise the time limit",
    WrongAnswer: "use another adapter or driver (`whet doctor`), or fallback=True for the CPU's answer",
    ShaderError: "this is a fault of the kernel or its compiler: please report the message with `whet doctor --json`",
}


# naga points at a line by marks under it, inside a picture that begins with the place of the whole function.
_MARKED = re.compile(r"^ *(\d+) │.*\n *│[^\n╰]*\^", re.M)
_PLACE = re.compile(r"┌─ [^\n]*?:(\d+):\d+")
_REASON = re.compile(r"^ *= (.+)", re.M)


def translate(error: Exception, *, doing: str, kernel: Kernel | None = None) -> WhetError:
    """The typed form of what wgpu raised, while building `kernel` if one is given."""
    text = str(error)
    lowered = text.lower()
    if "device is lost" in lowered or "devicelost" in lowered or "device lost" in lowered:
        return _make(DeviceLost, f"the device was lost while {doing}")
    if type(error).__name__ == "GPUOutOfMemoryError" or "out of memory" in lowered or "not enough memory" in lowered:
        return _make(DeviceOutOfMemory, f"the device is out of memory while {doing}")
    if "greater than the maximum buffer size" in lowered or "exceeds the limit" in lowered:
        return _make(DeviceOutOfMemory, f"over a limit of the device while {doing}: {_last_line(text)}")
    if "shader" in lowered and ("parsing error" in lowered or "validation error" in lowered or "wgsl" in lowered):
        where = _MARKED.search(text) or _PLACE.search(text)
        line = int(where.group(1)) if where else None
        return shader_error(f"shader does not compile while {doing}", line, _shader_line(text), text, kernel)
    return DeviceError(f"the device failed while {doing}: {_last_line(text)}", cure="run `whet doctor`")


def shader_error(cause: str, line: int | None, said: str, log: str, kernel: Kernel | None) -> ShaderError:
    """A complaint about a line of a rendered source, told with the file and line that it was written in."""
    origin = kernel.origin(line) if kernel is not None else ""
    if origin:
        cause += f" at {origin} (line {line} as rendered)"
    elif line:
        cause += f", line {line}"
    return ShaderError(f"{cause}: {said}", cure=CURES[ShaderError], line=line, origin=origin, log=log)


class Injector:
    """Fails the next visit to a moment. A device asks it at each of MOMENTS; without a plan it does nothing."""

    def __init__(self) -> None:
        self._plan: dict[str, str] = {}
        self._liar: Liar | None = None

    @contextmanager
    def plan(self, moment: str, fault: str) -> Iterator[None]:
        """Within the block the first visit to `moment` raises `fault`."""
        if moment not in MOMENTS or fault not in FAULTS:
            raise BadInput(f"no fault {fault!r} at {moment!r}", cure=f"moments: {MOMENTS}; faults: {tuple(FAULTS)}")
        self._plan[moment] = fault
        try:
            yield
        finally:
            self._plan.pop(moment, None)

    @contextmanager
    def lie(self, kind: str, rng: np.random.Generator) -> Iterator[Liar]:
        """Within the block the device answers wrongly once, without an error; `told` says how."""
        self._liar = Liar(kind, rng)
        try:
            yield self._liar
        finally:
            self._liar = None

    def drops_write(self, name: str) -> bool:
        """Whether a write is not done, in silence."""
        return self._liar is not None and self._liar.drops_write(name)

    def bent(self, steps: Sequence[Step], sizes: Mapping[str, int]) -> Sequence[Step]:
        """The steps that are really done."""
        return steps if self._liar is None else self._liar.bent(steps, sizes)

    def visit(self, moment: str, device: Any) -> None:
        """Raises what is planned for this moment; a planned loss really destroys the device."""
        fault = self._plan.pop(moment, None)
        if fault is None:
            return
        if fault == "lost":
            device.destroy()
        raise _make(FAULTS[fault], f"injected {fault} fault at {moment}")


def _make(kind: type[WhetError], cause: str) -> WhetError:
    return kind(cause, cure=CURES[kind])  # type: ignore[index]


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no message"


def _shader_line(text: str) -> str:
    """What is wrong in one line: the first thing said, and the last of its reasons where there are any."""
    message = re.search(r"(?:parsing|validation) error:\s*(.+)", text, re.I)
    if message is None:
        return _last_line(text)
    return ": ".join([message.group(1).strip(), *_REASON.findall(text)[-1:]])
