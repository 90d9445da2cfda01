"""What was measured as best on this machine, in a small file that `auto` reads. It knows no engine, only names.

An entry holds for one size class, on one adapter with one driver, under one version of whet; anything else is as good
as not measured. What is best for a few points is often not what is best for many.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from whet import __version__
from whet.gpu.kept_file import entries, replace_entries, tuned_file

ADVICE = "run `whet tune` to measure again"
EVERY_SIZE = 0
_BEFORE_CLASSES = 12  # entries without a class were measured at 2^12


def size_class(elements: int) -> int:
    """The even k for which `elements` are at least 2^(k-1) and below 2^(k+1)."""
    power = max(elements, 1).bit_length() - 1
    return power + power % 2


class Tuned(msgspec.Struct, frozen=True, kw_only=True):
    """`best` over all devices, `best_on_adapter` among the variants that run on the adapter; times per call.

    `size_class` is EVERY_SIZE for what does not depend on the size.
    """

    engine: str
    adapter: str
    driver: str
    software: bool
    best: str
    best_on_adapter: str
    because: str
    created: str
    run: str
    times_ns: dict[str, float]
    size_class: int = _BEFORE_CLASSES
    version: str = __version__


def recall(
    engine: str, adapter: str | None = None, driver: str | None = None, size_class: int | None = None
) -> Tuned | None:
    """The newest entry for this engine, and for that adapter, driver and size class if they are given."""
    matching = [
        one
        for one in _entries()
        if one.engine == engine
        and one.version == __version__
        and adapter in (None, one.adapter)
        and driver in (None, one.driver)
        and size_class in (None, one.size_class)
    ]
    return max(matching, key=lambda one: one.created, default=None)


def remember(tuned: Tuned) -> Path:
    """Replaces what was known about this engine at this size on this adapter and driver. Whole or not at all."""
    path = tuned_file()
    kept = [one for one in _entries() if _about(one) != _about(tuned)]
    replace_entries(path, [*kept, tuned])
    return path


def _about(one: Tuned) -> tuple[str, str, str, int]:
    return one.engine, one.adapter, one.driver, one.size_class


def _entries() -> list[Tuned]:
    return entries(tuned_file(), Tuned, ADVICE)
