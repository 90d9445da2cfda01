"""How many workers replay a graph when the caller leaves it open: all of them, or one where that was faster.

Tasks far below a microsecond can cost more to hand from core to core than to run, and Python bodies that take turns at
the interpreter lock cost more to hand over than most of them take. Whether they do depends on the graph and on the
machine, so both ways are timed on the first replays, which do the work they were asked for anyway.
"""

from __future__ import annotations

TRIES = 2
# Per task. What takes longer gains from every core, and is not slowed down by a trial on one.
WORTH_A_TRIAL_NS = 500.0
PYTHON_WORTH_A_TRIAL_NS = 50_000.0
# Which replays, counted from 1, time the slower way once more: the bodies may have changed.
SECOND_LOOKS = frozenset(64 * 4**i for i in range(16))


class WorkerChoice:
    """For one graph. `next` says how many workers to use, `took` what came of it."""

    def __init__(self, most: int, *, python: bool = False) -> None:
        self._most = most
        self._worth_ns = PYTHON_WORTH_A_TRIAL_NS if python else WORTH_A_TRIAL_NS
        self._times: dict[int, list[float]] = {most: [], 1: []}
        self._replays = 0

    def next(self) -> int:
        self._replays += 1
        if self._most == 1 or len(self._times[self._most]) < TRIES:
            return self._most
        if self._best(self._most) > self._worth_ns:
            return self._most
        if len(self._times[1]) < TRIES:
            return 1
        faster = 1 if self._best(1) < self._best(self._most) else self._most
        if self._replays in SECOND_LOOKS:
            return self._most if faster == 1 else 1
        return faster

    def took(self, workers: int, ns_per_task: float) -> None:
        # The last few: one slow replay does not decide, and neither does one of long ago.
        self._times[workers] = [*self._times[workers], ns_per_task][-TRIES:]

    def _best(self, workers: int) -> float:
        return min(self._times[workers])
