"""The options of an engine and of a call, checked before anything else happens."""

from __future__ import annotations

import operator
import os
from typing import Any

import numpy as np

from whet.errors import BadInput, Unsupported
from whet.protocol import Knob, Variant

MAX_THREADS = 256
MEMORY_BUDGET = Knob("memory_budget", 0, minimum=0, maximum=1 << 45, help="most bytes to allocate; 0 is any")
MAX_PRECOMPUTE = 16
PRECOMPUTE = Knob(
    "precompute", 1, minimum=1, maximum=MAX_PRECOMPUTE, help="most multiples to keep of each point: memory for time"
)
DEVICES = ("auto", "cpu", "webgpu")
MOST_BYTES = 1 << 62  # a budget of more is as good as none
MOST_SCALARS = 1 << 40
LONGEST_SUBMISSION_S = 1e6


def shown(value: Any, most: int = 40) -> str:
    """A value in a complaint: short, and told by its type where its own text is long or cannot be had."""
    try:
        text = repr(value)
    except Exception:  # an integer of thousands of digits, or a class of the caller's
        text = ""
    return text if 0 < len(text) <= most else f"a {type(value).__name__}"


def read_flag(value: Any, name: str) -> bool:
    """Yes or no; the text "false" is neither."""
    if not isinstance(value, bool | np.bool_):
        raise BadInput(f"{name}={shown(value)} is neither True nor False", cure="give one of them, or leave it out")
    return bool(value)


def read_count(value: Any, what: str, least: int = 0, most: int = MOST_SCALARS) -> int:
    """A whole number of something, within what makes sense."""
    cure = f"give a whole number from {least} to {most}"
    count = _whole(value, f"{what} is {shown(value)}, not a number", cure)
    if not least <= count <= most:
        raise BadInput(f"{what} is {shown(count)}", cure=cure)
    return count


def read_part(offset: Any, size: Any, available: int) -> tuple[int, int]:
    """`size` points from `offset` on, out of as many; to the end where no size is given."""
    cure = "give whole numbers within the points"
    first = _whole(offset, f"offset={shown(offset)} is not a number of points", cure)
    count = available - first if size is None else _whole(size, f"size={shown(size)} is not a number of points", cure)
    if first < 0 or count < 0 or first + count > available:
        raise BadInput(
            f"{shown(count)} points from point {shown(first)} on are outside the {available} prepared",
            cure="ask for less",
        )
    return first, count


def spelled_variant(variant: Any, backend: Any, precompute: Any) -> str:
    """A variant with the backend and the multiples that were asked for beside it."""
    if not isinstance(variant, str):
        raise BadInput(f"variant={shown(variant)} is not text", cure='give a name such as "affine", or leave it out')
    if not isinstance(backend, str) or not backend.isalnum():
        raise BadInput(f"no backend {shown(backend)}", cure='give a name such as "portable", or leave it out')
    if backend != "auto":
        variant = f"{'affine' if variant == 'auto' else variant}:backend={backend}"
    return with_precompute(variant, precompute)


def read_threads(threads: Any) -> int | None:
    """How many threads were asked for; None leaves it to the variant."""
    if threads is None:
        return None
    cure = f"give a whole number from 1 to {MAX_THREADS}, or leave it out"
    count = _whole(threads, f"threads={shown(threads)} is not a number of threads", cure)
    if not 1 <= count <= MAX_THREADS:
        raise BadInput(f"threads={shown(count)} is not from 1 to {MAX_THREADS}", cure=cure)
    return count


def read_budget(memory_budget: Any) -> int | None:
    """A budget in bytes; None where there is none."""
    if memory_budget is None:
        return None
    cure = "give bytes above 0 as a whole number, such as 100_000_000"
    size_bytes = _whole(memory_budget, f"memory_budget={shown(memory_budget)} is not a number of bytes", cure)
    if size_bytes < 1:
        raise BadInput(f"a memory budget of {shown(size_bytes)} bytes", cure=cure)
    return min(size_bytes, MOST_BYTES)


def with_precompute(variant: str, precompute: Any) -> str:
    """The spelling of a variant that keeps up to so many multiples of each point; as it is where None is asked for."""
    if precompute is None:
        return variant
    cure = f"give a whole number from 1 to {MAX_PRECOMPUTE}, or leave it out"
    most = _whole(precompute, f"precompute={shown(precompute)} is not a number of multiples", cure)
    if not 1 <= most <= MAX_PRECOMPUTE:
        raise BadInput(f"precompute={shown(most)} is not from 1 to {MAX_PRECOMPUTE}", cure=cure)
    name = "affine" if variant == "auto" else variant
    return f"{name}{',' if ':' in name else ':'}precompute={most}"


def read_submission_limit(submission_limit_s: Any) -> float | None:
    """The longest that a submission to a GPU should take, in seconds; None leaves it to the schedule."""
    if submission_limit_s is None:
        return None
    number = isinstance(submission_limit_s, int | float) and not isinstance(submission_limit_s, bool)
    if not number or not 0 < submission_limit_s <= LONGEST_SUBMISSION_S:
        raise BadInput(
            f"submission_limit_s={shown(submission_limit_s)} is not a time",
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
        raise Unsupported(f"msm has no device {shown(device)}", cure=f"devices: {', '.join(DEVICES)}, webgpu:<adapter>")
    return where, adapter


def system_path(path: Any) -> bytes:
    """A path as the system has it: bytes, which need not be text."""
    try:
        return os.fsencode(path)
    except (TypeError, UnicodeError):
        raise BadInput(f"{shown(path)} is not a path", cure="give text, bytes or a pathlib.Path") from None


def require_callbacks(cancel: Any, progress: Any) -> None:
    if cancel is not None and (isinstance(cancel, type) or not callable(getattr(cancel, "is_set", None))):
        raise BadInput(f"cancel={shown(cancel)} has no is_set()", cure="give a threading.Event, or leave it out")
    if progress is not None and not callable(progress):
        raise BadInput(f"progress={shown(progress)} cannot be called", cure="give a function of the share done")


def _whole(value: Any, cause: str, cure: str) -> int:
    try:
        if isinstance(value, bool):
            raise TypeError
        return operator.index(value)
    except Exception:
        raise BadInput(cause, cure=cure) from None
