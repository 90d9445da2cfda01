"""What both systems speak of."""

from __future__ import annotations

from dataclasses import dataclass, field

STOP_LIMIT_S = 20.0


class NotStopped(Exception):
    """A process could not be frozen or thawed: it is gone, or it will not stop."""


@dataclass(frozen=True)
class Usage:
    """Processor time of a process so far, and how long it was ready but had no core."""

    cpu_ns: int
    waited_ns: int


@dataclass
class Granted:
    """What keeps a process apart, and what the system refused with its reason."""

    kept: list[str] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
