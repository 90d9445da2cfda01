"""What a device is to do, as plain data: buffers by name and steps in order.

Nothing here holds a handle, so the same program runs on a device of this process, under another WebGPU
implementation or in a browser, and its buffers can be added up without any GPU. `schedule.py` cuts the steps into
submissions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import numpy.typing as npt

from whet.gpu.assembler import Assembled, Line


@dataclass(frozen=True)
class Kernel:
    """WGSL source and its entry point. Equal kernels share one pipeline.

    `lines` has for each line of the source the one in a file that it comes from, if it comes from files: what a
    compiler complains about is told with it.
    """

    source: str
    entry: str
    constants: tuple[tuple[str, float], ...] = ()
    lines: tuple[Line, ...] = field(default=(), compare=False, repr=False)

    @classmethod
    def of(cls, made: Assembled, entry: str, constants: tuple[tuple[str, float], ...] = ()) -> Self:
        """A kernel from files."""
        return cls(made.source, entry, constants, made.lines)

    def origin(self, line: int | None) -> str:
        """File and line in which a line of the source was written; empty where nobody knows."""
        if line is None or not 1 <= line <= len(self.lines) == self.source.count("\n"):
            return ""
        return str(self.lines[line - 1])


@dataclass(frozen=True)
class Span:
    """A part of a buffer as a binding. The offset must be a multiple of 256; without a size it goes to the end."""

    buffer: str
    offset_bytes: int = 0
    size_bytes: int | None = None


@dataclass(frozen=True)
class Pass:
    """One dispatch. `bindings` follow the order of @binding.

    It is in a compute pass of its own where it is timed; otherwise passes that follow each other are merged into one.
    `cost_ns` is what it takes by a model of the engine: how much fits one submission is judged by it.
    """

    name: str
    kernel: Kernel
    bindings: tuple[str | Span, ...]
    workgroups: tuple[int, int, int] | None = None
    indirect: tuple[str, int] | None = None
    cost_ns: float = 0.0


@dataclass(frozen=True)
class Clear:
    """Zeroes a buffer or a part of it, in order with the passes around it."""

    buffer: str
    offset_bytes: int = 0
    size_bytes: int | None = None


@dataclass(frozen=True)
class Copy:
    """Copies bytes between buffers, in order with the passes around it."""

    source: str
    target: str
    size_bytes: int
    source_offset: int = 0
    target_offset: int = 0


@dataclass(frozen=True)
class Write:
    """Copies a part of an upload, which is on the host, into a buffer. What comes after it is another submission."""

    upload: str
    buffer: str
    size_bytes: int
    upload_offset: int = 0
    buffer_offset: int = 0


Command = Pass | Clear | Copy
Step = Command | Write


@dataclass(frozen=True)
class Program:
    """Buffers with their bytes, contents that never change (tables, parameters), and the steps of one run.

    `uploads` are what its writes read from, with their bytes: data of the host, never on the device as a whole.
    """

    buffers: Mapping[str, int]
    steps: tuple[Step, ...]
    constants: Mapping[str, npt.NDArray[np.uint32]] = field(default_factory=dict)
    uploads: Mapping[str, int] = field(default_factory=dict)
