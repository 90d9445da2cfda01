"""A program's steps as submissions, so that none keeps a device busy for long: plain data, decided on the host.

A submission is writes, then commands. It ends where the next write comes, and where one more pass would take it over a
time limit at the speed that was measured so far: systems take a device away from who holds it for seconds. Commands are
never reordered, so where the cuts are changes no answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from whet.gpu.program import Command, Pass, Step, Write

LIMIT_NS = 500_000_000
UNKNOWN_SLOWNESS = 8.0  # times the engine's model, for a device that has not been measured yet
MOST_CHANGE = 4.0  # of the slowness by one measurement: the first ones include the driver's compiler
MOST_PASSES = 2048  # a query set holds 4,096 timestamps


@dataclass(frozen=True)
class Submission:
    """What goes to the device at once: the writes, then the commands in order."""

    writes: tuple[Write, ...]
    commands: tuple[Command, ...]

    @property
    def cost_ns(self) -> float:
        return sum(_cost_ns(command) for command in self.commands)


class Pace:
    """How much goes into a submission: what fits the limit at the measured speed. One per device; calls take turns."""

    def __init__(self, limit_ns: float = LIMIT_NS) -> None:
        self.limit_ns = limit_ns
        self.slowness = UNKNOWN_SLOWNESS

    def submissions(self, steps: Sequence[Step]) -> Iterator[Submission]:
        """Made one by one, so that each is of the size that those before it allow.

        A pass that takes longer than the limit by itself has a submission of its own.
        """
        writes: list[Write] = []
        commands: list[Command] = []
        cost_ns, passes = 0.0, 0
        for step in steps:
            more_ns = 0.0 if isinstance(step, Write) else _cost_ns(step)
            full = isinstance(step, Write) or passes == MOST_PASSES or (more_ns and self._over(cost_ns + more_ns))
            if commands and full:
                yield Submission(tuple(writes), tuple(commands))
                writes, commands, cost_ns, passes = [], [], 0.0, 0
            if isinstance(step, Write):
                writes.append(step)
            else:
                commands.append(step)
                cost_ns += more_ns
                passes += isinstance(step, Pass)
        if writes or commands:
            yield Submission(tuple(writes), tuple(commands))

    def observe(self, submission: Submission, taken_ns: float) -> None:
        """Takes the wall time of a submission into account."""
        if submission.cost_ns > 0:
            change = taken_ns / submission.cost_ns / self.slowness
            self.slowness *= min(MOST_CHANGE, max(1 / MOST_CHANGE, change))

    def _over(self, cost_ns: float) -> bool:
        return cost_ns * self.slowness > self.limit_ns


def _cost_ns(command: Command) -> float:
    return command.cost_ns if isinstance(command, Pass) else 0.0
