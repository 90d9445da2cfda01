"""What an engine submits on a device of this process, kept as a program with all contents, to run it elsewhere."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from whet.gpu import Program


@dataclass
class Submission:
    program: Program
    contents: dict[str, np.ndarray]


@contextmanager
def recorded(device):
    """Yields a list that gets one Submission per call of `device.submit`, with the bytes as they were before it."""
    kept = []
    submit = device.submit

    def record(steps, **more):
        contents = {name: device.read(buffer) for name, buffer in device._buffers.items()}
        sizes = {name: buffer.size_bytes for name, buffer in device._buffers.items()}
        kept.append(Submission(Program(sizes, tuple(steps)), contents))
        return submit(steps, **more)

    device.submit = record
    try:
        yield kept
    finally:
        del device.submit
