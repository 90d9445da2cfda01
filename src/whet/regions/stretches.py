"""Stretches: what a worker recorded from one wait to the next, so that a barrier in a loop keeps its arrival times."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from whet.errors import BadInput

FIELDS = ("worker", "region", "entry", "exit", "ticks", "count")
# One region in one stretch of one worker; the rows of a worker stand in the order of their time.
STRETCH = np.dtype([(name, "<i8") for name in FIELDS])
MAX_STRETCHES = 1 << 22


def check_stretches(stretches: Any, cells: npt.NDArray[np.void], origin: str) -> None:
    """They must say what the cells say, cut finer: every tick and every trip of a cell is in one of its stretches."""
    if not isinstance(stretches, np.ndarray) or stretches.dtype != STRETCH or stretches.ndim != 1:
        raise BadInput(f"{origin}: its stretches are no table of {', '.join(FIELDS)}", cure="capture again")
    if len(stretches) > MAX_STRETCHES:
        raise BadInput(
            f"{origin}: {len(stretches)} stretches", cure=f"at most {MAX_STRETCHES}: give the sheet less room"
        )
    worker, region, entry, leave, ticks, count = (stretches[name] for name in FIELDS)
    inside = (worker >= 0) & (worker < cells.shape[0]) & (region >= 0) & (region < cells.shape[1])
    sound = inside & (entry > 0) & (entry <= leave) & (count > 0) & (ticks >= 0) & (ticks <= leave - entry)
    if not sound.all():
        at = int(np.argmin(sound))
        raise BadInput(f"{origin}: stretch {at} makes no sense: {stretches[at]}", cure="capture again", index=at)
    later = (worker[1:] == worker[:-1]) & (region[1:] == region[:-1]) & (entry[1:] < leave[:-1])
    if later.any():
        at = int(np.argmax(later)) + 1
        raise BadInput(f"{origin}: stretch {at} begins before the one before it ended", cure="capture again", index=at)
    for name, values in (("ticks", ticks), ("count", count)):
        sums = np.zeros(cells.shape, dtype=np.int64)
        np.add.at(sums, (worker, region), values)
        differ = sums != cells[name]
        if differ.any():
            where = tuple(int(i[0]) for i in np.nonzero(differ))
            raise BadInput(
                f"{origin}: worker {where[0]}, region {where[1]}: its stretches hold {sums[where]} {name},"
                f" the sheet {cells[name][where]}",
                cure="keep both files of one capture together, and capture again",
                index=where[0],
            )
