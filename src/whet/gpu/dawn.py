"""Programs under Dawn, the WebGPU of Chromium, without a browser: the same compiler on a faster driver.

Dawn runs in a process of its own: it and wgpu export the same C names, and a driver that crashes takes only its own
process down.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
import numpy.typing as npt

from whet.errors import DeviceLost, DeviceTimeout, Unsupported
from whet.gpu import driver
from whet.gpu.faults import CURES
from whet.gpu.portable import Outcome, decode, encode
from whet.gpu.program import Program
from whet.gpu.schedule import Pace
from whet.gpu.trust import require_good_runner

_believed: set[str] = set()


def run(
    program: Program,
    inputs: Mapping[str, npt.NDArray[Any]],
    outputs: Sequence[str],
    *,
    timed: bool = True,
    pace: Pace | None = None,
    time_limit_s: float = 300,
) -> Outcome:
    """Runs the program once in a fresh process. Before the first one Dawn is asked for a known answer."""
    if not _believed:
        require_good_runner(partial(_run, timed=False, pace=None, time_limit_s=time_limit_s))
        _believed.add("Dawn")
    return _run(program, inputs, outputs, timed=timed, pace=pace, time_limit_s=time_limit_s)


def _run(
    program: Program,
    inputs: Mapping[str, npt.NDArray[Any]],
    outputs: Sequence[str],
    *,
    timed: bool,
    pace: Pace | None,
    time_limit_s: float,
) -> Outcome:
    if importlib.util.find_spec("pydawn") is None:
        raise Unsupported("the dawn-python package is not installed", cure="pip install dawn-python")
    driver.activate()
    request = msgspec.json.encode(encode(program, inputs, outputs, timed=timed, pace=pace))
    command = [sys.executable, "-m", "whet.gpu.dawn_child"]
    try:
        done = subprocess.run(
            command, input=request, capture_output=True, timeout=time_limit_s, check=False, env=dict(os.environ)
        )
    except subprocess.TimeoutExpired:
        raise DeviceTimeout(f"Dawn gave no answer within {time_limit_s:g} s", cure=CURES[DeviceTimeout]) from None
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        said = last[0] if last else "it said nothing"
        raise DeviceLost(f"Dawn's process ended with {done.returncode}: {said}", cure=CURES[DeviceLost])
    return decode(msgspec.json.decode(done.stdout.splitlines()[-1]), where="Dawn", program=program)
