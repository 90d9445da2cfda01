"""Runs a program on a device of this process, submission by submission."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from whet.errors import BadInput
from whet.gpu.device import Device
from whet.gpu.program import Program
from whet.gpu.schedule import Pace

Inputs = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Ran:
    """Each pass with its nanoseconds, each submission's wall time, and the span of all passes on the device's clock.

    `span_ns` goes from the begin of the first pass to the end of the last; None where it was not timed.
    """

    passes: list[tuple[str, int | None]]
    walls_ns: list[int]
    span_ns: int | None


def run(
    device: Device,
    program: Program,
    inputs: Inputs | None = None,
    *,
    timestamps: bool = False,
    pace: Pace | None = None,
    between: Callable[[], None] | None = None,
) -> Ran:
    """Runs a program whose buffers are allocated. `between` is called before each submission.

    Inputs that are buffers are written before the first one; of those that are uploads the program's writes take parts.
    """
    contents, uploads = split_inputs(program, inputs or {})
    for name, data in contents.items():
        device.write(device.named(name), data)
    sent = {name: np.ascontiguousarray(data).reshape(-1).view(np.uint8) for name, data in uploads.items()}
    pace = pace or Pace()
    passes: list[tuple[str, int | None]] = []
    walls_ns: list[int] = []
    stamps_ns: list[int] = []
    for submission in pace.submissions(program.steps):
        if between is not None:
            between()
        for write in submission.writes:
            part = sent[write.upload][write.upload_offset : write.upload_offset + write.size_bytes]
            device.write(device.named(write.buffer), part, write.buffer_offset)
        start_ns = time.monotonic_ns()
        passes += device.submit(submission.commands, timestamps=timestamps)
        walls_ns.append(time.monotonic_ns() - start_ns)
        pace.observe(submission, walls_ns[-1])
        stamps_ns += device.stamps_ns or ()
    return Ran(passes, walls_ns, stamps_ns[-1] - stamps_ns[0] if stamps_ns else None)


def split_inputs(program: Program, inputs: Inputs) -> tuple[dict[str, npt.NDArray[Any]], dict[str, npt.NDArray[Any]]]:
    """Contents of buffers, and uploads. Refuses uploads that are missing or not of the size that the writes expect."""
    uploads = {name: data for name, data in inputs.items() if name in program.uploads}
    given = {name: data.nbytes for name, data in uploads.items()}
    if given != dict(program.uploads):
        raise BadInput(
            f"uploads of {given} bytes, the program has {dict(program.uploads)}", cure="give each with all its bytes"
        )
    return {name: data for name, data in inputs.items() if name not in uploads}, uploads
