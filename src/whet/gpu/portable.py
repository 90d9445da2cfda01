"""A program with its inputs as plain JSON, and the answer of whoever ran it.

This is the one place that knows the form in which a program leaves this process. `runner.js` reads it in a browser,
`dawn_child.py` under Dawn; both answer in the form that `decode` reads. Buffers travel as base64 of their bytes, or by
an address from which the runner fetches them.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from whet.errors import BadInput, DeviceError, DeviceLost, DeviceOutOfMemory, Unsupported, WhetError
from whet.gpu.device import Device
from whet.gpu.faults import CURES, shader_error
from whet.gpu.program import Clear, Command, Copy, Kernel, Pass, Program, Span
from whet.gpu.running import run, split_inputs
from whet.gpu.schedule import Pace, Submission

Words = npt.NDArray[np.uint32]


@dataclass(frozen=True)
class Outcome:
    """What a run left behind: the asked-for buffers, each pass with its nanoseconds, who ran it and what was said.

    `walls_ns` has the wall time of each submission, whether the adapter has timestamps or not.
    """

    outputs: Mapping[str, Words]
    passes: Sequence[tuple[str, int | None]]
    walls_ns: Sequence[int]
    adapter: Mapping[str, Any]
    messages: Sequence[str] = field(default_factory=tuple)


def run_here(
    device: Device,
    program: Program,
    inputs: Mapping[str, npt.NDArray[Any]],
    outputs: Sequence[str],
    *,
    timed: bool = True,
    pace: Pace | None = None,
) -> Outcome:
    """The same run on a device of this process; buffers are released whatever happens."""
    check_names(program, inputs, outputs)
    made = device.allocate(program)
    try:
        ran = run(device, program, inputs, timestamps=timed, pace=pace)
        read = {name: device.read(made[name]) for name in outputs}
    finally:
        for buffer in made.values():
            device.release(buffer)
    adapter = {"device": device.info.name, "description": device.info.driver, "backend": device.info.backend}
    return Outcome(read, ran.passes, ran.walls_ns, adapter)


def check_names(program: Program, inputs: Mapping[str, npt.NDArray[Any]], outputs: Sequence[str]) -> None:
    """Refuses names that are no buffers and data that does not fit, before anything is sent anywhere."""
    for name in (*inputs, *outputs):
        if name not in program.buffers and (name in outputs or name not in program.uploads):
            raise BadInput(f"the program has no buffer {name!r}", cure=f"buffers: {', '.join(program.buffers)}")
    contents, _ = split_inputs(program, inputs)
    for name, data in contents.items():
        if data.nbytes > program.buffers[name] or data.nbytes % 4:
            raise BadInput(
                f"{data.nbytes} bytes for {name}, which holds {program.buffers[name]}",
                cure="give at most as many, in multiples of four",
            )


def encode(
    program: Program,
    inputs: Mapping[str, npt.NDArray[Any]],
    outputs: Sequence[str],
    *,
    timed: bool = True,
    pace: Pace | None = None,
    carry: Callable[[npt.NDArray[Any]], str | dict[str, str]] | None = None,
) -> dict[str, Any]:
    """The request that a runner elsewhere understands. Each kernel is sent once; submissions are cut here.

    `carry` gives what stands for the bytes of a buffer: base64 by default, or {"url": ...} for a page that can fetch.
    """
    check_names(program, inputs, outputs)
    contents, uploads = split_inputs(program, inputs)
    carry = carry or _base64
    kernels = {kernel: number for number, kernel in enumerate(kernels_of(program))}
    submissions = [_submission(one, kernels) for one in (pace or Pace()).submissions(program.steps)]
    return {
        "buffers": dict(program.buffers),
        "contents": {name: carry(data) for name, data in {**program.constants, **contents}.items()},
        "uploads": {name: carry(data) for name, data in uploads.items()},
        "kernels": [
            {"source": kernel.source, "entry": kernel.entry, "constants": dict(kernel.constants)} for kernel in kernels
        ],
        "submissions": submissions,
        "timed": timed,
        "outputs": list(outputs),
    }


def decode(answer: Mapping[str, Any], *, where: str, program: Program | None = None) -> Outcome:
    """The outcome, or the typed fault that the runner met. `where` names the runner in messages.

    With the program that was encoded, a kernel that does not compile is told with the file that it comes from.
    """
    if fault := answer.get("fault"):
        raise fault_of(fault, where, kernels_of(program) if program is not None else ())
    try:
        return Outcome(
            outputs={
                name: np.frombuffer(base64.b64decode(text, validate=True), np.uint32)
                for name, text in answer["outputs"].items()
            },
            passes=[(str(name), None if spent is None else round(spent)) for name, spent in answer["passes"]],
            walls_ns=[round(spent) for spent in answer["walls"]],
            adapter=dict(answer["adapter"]),
            messages=tuple(map(str, answer["messages"])),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise DeviceError(f"{where} answered with nonsense: {error!r}", cure="run it again") from error


def kernels_of(program: Program) -> list[Kernel]:
    """Every kernel of a program once, in the order in which `encode` numbers them."""
    return list(dict.fromkeys(step.kernel for step in program.steps if isinstance(step, Pass)))


def _submission(submission: Submission, kernels: dict[Kernel, int]) -> dict[str, Any]:
    return {
        "writes": [asdict(write) for write in submission.writes],
        "steps": [_step(command, kernels) for command in submission.commands],
    }


def _step(step: Command, kernels: dict[Kernel, int]) -> dict[str, Any]:
    match step:
        case Clear(buffer, offset, size):
            return {"clear": buffer, "offset": offset, "size": size}
        case Copy(source, target, size, source_offset, target_offset):
            return {
                "copy": source,
                "target": target,
                "size": size,
                "source_offset": source_offset,
                "target_offset": target_offset,
            }
        case Pass(name, kernel, bindings, workgroups, indirect, _):
            return {
                "pass": name,
                "kernel": kernels[kernel],
                "bindings": [_binding(one) for one in bindings],
                "workgroups": workgroups,
                "indirect": indirect,
            }


def _binding(binding: str | Span) -> dict[str, Any]:
    span = binding if isinstance(binding, Span) else Span(binding)
    return {"buffer": span.buffer, "offset": span.offset_bytes, "size": span.size_bytes}


def _base64(data: npt.NDArray[Any]) -> str:
    return base64.b64encode(np.ascontiguousarray(data).tobytes()).decode()


def fault_of(fault: Mapping[str, Any], where: str, kernels: Sequence[Kernel] = ()) -> WhetError:
    """What a runner met, as the error that says so here."""
    kind, said = str(fault.get("kind")), str(fault.get("message", "no message")).strip()
    first = said.splitlines()[0] if said else "no message"
    if kind == "shader":
        number = fault.get("number")
        kernel = kernels[number] if isinstance(number, int) and 0 <= number < len(kernels) else None
        cause = f"shader {fault.get('kernel', '?')} does not compile under {where}"
        return shader_error(cause, fault.get("line"), first, said, kernel)
    if kind == "adapter":
        return Unsupported(f"{where} has no WebGPU adapter: {first}", cure="run `whet doctor`")
    if kind == "memory":
        return DeviceOutOfMemory(f"{where} is out of memory: {first}", cure=CURES[DeviceOutOfMemory])
    if kind == "lost":
        return DeviceLost(f"{where} lost its device: {first}", cure=CURES[DeviceLost])
    return DeviceError(f"{where} refused the program: {first}", cure="run it here in debug mode to see which step")
