"""The options of an engine and of a call, checked before anything else happens."""

from __future__ import annotations

import math
import operator
import os
from typing import Any

from whet.errors import BadInput, Unsupported
from whet.protocol import Knob, Variant

MAX_THREADS = 256
MEMORY_BUDGET = Knob("memory_budget", 0, minimum=0, maximum=1 << 45, help="most bytes to allocate; 0 is any")
MAX_PRECOMPUTE = 16
PRECOMPUTE = Knob(
    "precompute", 1, minimum=1, maximum=MAX_PRECOMPUTE, help="most multiples to keep of each point: memory for time"
)
DEVICES = ("auto", "cpu", "webgpu")


def read_threads(threads: Any) -> int | None:
    """How many threads were asked for; None leaves it to the variant."""
    if threads is None:
        return None
    cure = f"give a whole number from 1 to {MAX_THREADS}, or leave it out"
    count = _whole(threads, f"threads={threads!r} is not a number of threads", cure)
    if not 1 <= count <= MAX_THREADS:
        raise BadInput(f"threads={count} is not from 1 to {MAX_THREADS}", cure=cure)
    return count


def read_budget(memory_budget: Any) -> int | None:
    """A budget in bytes; None where there is none."""
    if memory_budget is None:
        return None
    cure = "give bytes above 0 as a whole number, such as 100_000_000"
    size_bytes = _whole(memory_budget, f"memory_budget={memory_budget!r} is not a number of bytes", cure)
    if size_bytes < 1:
        raise BadInput(f"a memory budget of {size_bytes} bytes", cure=cure)
    return size_bytes


def with_precompute(variant: str, precompute: Any) -> str:
    """The spelling of a variant that keeps up to so many multiples of each point; as it is where None is asked for."""
    if precompute is None:
        return variant
    cure = f"give a whole number from 1 to {MAX_PRECOMPUTE}, or leave it out"
    most = _whole(precompute, f"precompute={precompute!r} is not a number of multiples", cure)
    if not 1 <= most <= MAX_PRECOMPUTE:
        raise BadInput(f"precompute={most} is not from 1 to {MAX_PRECOMPUTE}", cure=cure)
    name = "affine" if variant == "auto" else variant
    return f"{name}{',' if ':' in name else ':'}precompute={most}"


def read_submission_limit(submission_limit_s: Any) -> float | None:
    """The longest that a submission to a GPU should take, in seconds; None leaves it to the schedule."""
    if submission_limit_s is None:
        return None
    number = isinstance(submission_limit_s, int | float) and not isinstance(submission_limit_s, bool)
    if not number or not 0 < submission_limit_s < math.inf:
        raise BadInput(
            f"submission_limit_s={submission_limit_s!r} is not a time",
            cure="give seconds above 0, such as 0.1, or leave it out",
        )
    return float(submission_limit_s)


def within(variant: Variant, budget_bytes: int | None) -> str:
    """The spelling of a variant that works within that many bytes."""
    return str(Variant(variant.name, {**variant.knobs, MEMORY_BUDGET.name: budget_bytes or 0}))


def read_device(device: Any) -> tuple[str, str]:
    """auto, cpu or webgpu, and the part of an adapter's key behind the colon."""
    where, _, adapter = device.partition(":") if isinstance(device, str) else ("", "", "")
    if where not in DEVICES:
        raise Unsupported(f"msm has no device {device!r}", cure=f"devices: {', '.join(DEVICES)}, webgpu:<adapter>")
    return where, adapter


def system_path(path: Any) -> bytes:
    """A path as the system has it: bytes, which need not be text."""
    try:
        return os.fsencode(path)
    except (TypeError, UnicodeError):
        raise BadInput(f"{path!r:.80} is not a path", cure="give text, bytes or a pathlib.Path") from None


def require_callbacks(cancel: Any, progress: Any) -> None:
    if cancel is not None and not callable(getattr(cancel, "is_set", None)):
        raise BadInput(f"cancel={cancel!r} has no is_set()", cure="give a threading.Event, or leave it out")
    if progress is not None and not callable(progress):
        raise BadInput(f"progress={progress!r} cannot be called", cure="give a function of the share done")


def _whole(value: Any, cause: str, cure: str) -> int:
    try:
        if isinstance(value, bool):
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise BadInput(cause, cure=cure) from None
