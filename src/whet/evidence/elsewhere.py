"""Devices that are not this process's: what a rig asks of one, and how a device is found by the word that users type.

A device elsewhere runs programs that the benches describe. It is reached by a kind (`browser`, `lab:NAME`,
`webdriver:URL`) that a package registers under `whet.devices`, as engines do under `whet.engines`: nothing here knows
how it is reached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Any, Protocol

from whet.errors import BadInput
from whet.evidence.messages import Described

GROUP = "whet.devices"


@dataclass(frozen=True)
class FirstRun:
    """What a program costs once: compiling it, and its first run. Never part of a trial."""

    compile_ns: int
    run_ns: int


@dataclass(frozen=True)
class RemoteTurn:
    """A turn as the device tells it: the wall time of each call, what it left behind, and its own clock if it has one.

    `outside_ns` is the span seen from here, which has the way to the device and back in it.
    """

    walls_ns: Sequence[int]
    read: Sequence[Mapping[str, bytes]]
    outside_ns: int
    device_ns: int | None = None
    regions_ns: Mapping[str, int] = field(default_factory=dict)


class Disturbed(Exception):
    """What was going on does not count, and no variant is to blame: a tab was hidden, a page was loaded again."""


class Elsewhere(Protocol):
    """One device. Calls come one at a time; each answers, raises a `DeviceError`, or `Disturbed`.

    `DeviceGone` says that the device will not come back by itself.
    """

    name: str

    @property
    def tick_ns(self) -> int:
        """How fine its wall clock is."""
        ...

    def facts(self) -> dict[str, Any]:
        """What the adapter is, as a run stores it."""
        ...

    def begin(self, title: str, variants: Sequence[str]) -> None:
        """What is going to be compared, for whoever looks at the device."""
        ...

    def prepare(self, arm: str, work: Described | None, *, limit_s: float) -> FirstRun:
        """A program with buffers of its own under this name, in the place of what had it; None is an empty one."""
        ...

    def turn(self, arm: str, calls: Sequence[Mapping[str, bytes]], *, timing: bool, limit_s: float) -> RemoteTurn:
        """Calls on what each is fed, one after the other. Of its own clock the last one is told."""
        ...

    def reference_ns(self) -> int:
        """What a small kernel that never changes takes now."""
        ...

    def show(self, note: str, rows: Sequence[Mapping[str, Any]], *, share: float = 0.0, at_once: bool = False) -> None:
        """How far it is, for whoever looks at the device: a row per variant. Never raises.

        What comes too fast to be read is left out, unless it has to be there `at_once`.
        """
        ...


Opener = Callable[[str], AbstractContextManager[Elsewhere]]


def kinds() -> dict[str, Any]:
    """The kinds of devices elsewhere that installed packages offer."""
    return {point.name: point for point in entry_points(group=GROUP)}


def is_elsewhere(device: str) -> bool:
    return device.partition(":")[0] in kinds()


def reach(device: str) -> AbstractContextManager[Elsewhere]:
    """The device behind `browser`, `lab:NAME` and the like, for as long as the context lasts."""
    kind, _, rest = device.partition(":")
    found = kinds().get(kind)
    if found is None:
        raise BadInput(f"there is no device {device!r}", cure=f"devices elsewhere: {', '.join(sorted(kinds()))}")
    opener: Opener = found.load()
    return opener(rest)


@contextmanager
def reached(device: str | None) -> Iterator[Elsewhere | None]:
    """The same for any device: None for one that is here."""
    there = reach(device) if device is not None and is_elsewhere(device) else nullcontext()
    with there as place:
        yield place
