"""What was measured as best on this machine, in a small file that `auto` reads. It knows no engine, only names.

An entry holds for one adapter with one driver under one version of whet; anything else is as good as not measured.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from whet import __version__
from whet.gpu.kept_file import entries, replace_entries, tuned_file

ADVICE = "run `whet tune` to measure again"


class Tuned(msgspec.Struct, frozen=True, kw_only=True):
    """`best` over all devices, `best_on_adapter` among the variants that run on the adapter; times per call."""

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
    version: str = __version__


def recall(engine: str, adapter: str | None = None, driver: str | None = None) -> Tuned | None:
    """The newest entry for this engine, and for that adapter and driver if they are given."""
    matching = [
        one
        for one in _entries()
        if one.engine == engine
        and one.version == __version__
        and adapter in (None, one.adapter)
        and driver in (None, one.driver)
    ]
    return max(matching, key=lambda one: one.created, default=None)


def remember(tuned: Tuned) -> Path:
    """Replaces what was known about this engine on this adapter and driver. Whole or not at all."""
    path = tuned_file()
    about = (tuned.engine, tuned.adapter, tuned.driver)
    kept = [one for one in _entries() if (one.engine, one.adapter, one.driver) != about]
    replace_entries(path, [*kept, tuned])
    return path


def _entries() -> list[Tuned]:
    return entries(tuned_file(), Tuned, ADVICE)
