"""What both systems speak of."""

from __future__ import annotations

from dataclasses import dataclass, field

STOP_LIMIT_S = 10.0


class NotStopped(Exception):
    """A process could not be frozen or thawed: it is gone, or it will not stop."""


@dataclass(frozen=True)
class Usage:
    """Processor time of a process and of its main thread so far, and how long that one was ready but had no core."""

    cpu_ns: int
    main_cpu_ns: int
    waited_ns: int

    def __sub__(self, before: Usage) -> Usage:
        return Usage(
            self.cpu_ns - before.cpu_ns, self.main_cpu_ns - before.main_cpu_ns, self.waited_ns - before.waited_ns
        )

    @property
    def waited_for_others_ns(self) -> int:
        """Waiting that its own other threads cannot have caused: on one core they would be what it waited for."""
        return max(0, self.waited_ns - (self.cpu_ns - self.main_cpu_ns))


@dataclass
class Granted:
    """What keeps a process apart, and what the system refused with its reason.

    `listener`: the descriptor on which its calls are asked about until it is sealed, for the parent.
    """

    kept: list[str] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    listener: int | None = None
