"""Who is to blame when a device fails while a variant runs: the variant, or a device that is busy with other things.

A strike is a device that was lost, a page that died, a call that ran out of time, or memory that ran out. Any of them
happens on a busy machine as well, whoever has the turn. So a variant is suspected after two in a row with no finished
turn of its own in between, or after four in all while no other had any; and it is blamed only if the device, opened
anew, runs a kernel that never changes.
"""

from __future__ import annotations

from collections import Counter

IN_A_ROW = 2
ALONE = 4
# Whoever had the turn: on a device that fails so often in one run nothing can be measured.
OF_ALL = 12


class Strikes:
    """Those of one run. The arm "" is the lab's own: never suspected."""

    def __init__(self, innocent: frozenset[str] = frozenset({""})) -> None:
        self._innocent = innocent
        self._row: Counter[str] = Counter()
        self._all: Counter[str] = Counter()

    def note(self, arm: str) -> None:
        self._row[arm] += 1
        self._all[arm] += 1

    def finished(self, arm: str) -> None:
        """It had a whole turn."""
        self._row.pop(arm, None)

    @property
    def total(self) -> int:
        return self._all.total()

    @property
    def hopeless(self) -> bool:
        return self.total >= OF_ALL

    def suspects(self, arm: str) -> bool:
        if arm in self._innocent:
            return False
        return self._row[arm] >= IN_A_ROW or (self._all[arm] >= ALONE and self._all[arm] == self.total)
