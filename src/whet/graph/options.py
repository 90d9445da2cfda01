"""Checks of options; each complaint names the option and what it takes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from whet.errors import BadInput


def one_of(option: str, value: Any, choices: tuple[str, ...]) -> int:
    if value not in choices:
        raise BadInput(f"{option}={value!r} is not known", cure=f"one of {', '.join(choices)}")
    return choices.index(value)


def number_in(option: str, value: Any, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not low <= value <= high:
        raise BadInput(
            f"{option}={value!r} is not a whole number from {low} to {high}", cure="give one, or leave it out"
        )
    if option in ("window", "tensormap_capacity", "output_align") and value & (value - 1):
        raise BadInput(
            f"{option}={value} is not a power of two", cure=f"{1 << int(value).bit_length()} is the next one"
        )
    return int(value)


def seconds(option: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1e9:
        raise BadInput(f"{option}={value!r} is not a number of seconds above 0", cure="such as 1.5")
    return float(value)


def limit_of(timeout: Any) -> float | None:
    """The `timeout` of a future: seconds, None and infinity are no limit, and 0 or less is a look."""
    if timeout is None:
        return None
    is_number = isinstance(timeout, (int, float, np.integer, np.floating)) and not isinstance(timeout, bool)
    if not is_number or math.isnan(timeout):
        raise BadInput(f"timeout={timeout!r} is not a number of seconds", cure="such as 1.5, or None for no limit")
    if timeout == math.inf:
        return None
    return max(1e-9, float(timeout))
