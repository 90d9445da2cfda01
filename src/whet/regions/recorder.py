"""Recording regions from Python: `with regions.record("load"):` costs two clock reads and one list update per trip.

Outside a `recording()` it is one shared object that does nothing. A region inside a loop accumulates; threads are
workers, each with its own rows, so nothing is locked while time is being taken.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime
from types import TracebackType
from typing import Literal

import numpy as np

from whet.errors import BadInput
from whet.regions.capture import CELL, About, Capture, LaunchValue, make_capture
from whet.regions.schema import Region, Schema, check

Role = Literal["work", "wait", "boundary"]
Path = tuple[str, ...]
OFF: AbstractContextManager[None] = nullcontext()


class _Thread(threading.local):
    """What one thread is inside of. `slots` belongs to that thread alone until the recording ends."""

    recording: Recording | None = None
    slots: dict[Path, list[int]]
    path: Path = ()


_here = _Thread()
_active: Recording | None = None


class _Scope:
    __slots__ = ("entry", "name", "outer", "slot")

    def __init__(self, name: str, slot: list[int], outer: Path) -> None:
        self.name, self.slot, self.outer = name, slot, outer

    def __enter__(self) -> None:
        _here.path = (*self.outer, self.name)
        self.entry = time.perf_counter_ns()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        leave = time.perf_counter_ns()
        slot = self.slot
        if slot[3] == 0:
            slot[0] = self.entry
        slot[1] = leave
        slot[2] += leave - self.entry
        slot[3] += 1
        _here.path = self.outer


def record(name: str, *, role: Role = "work", tags: tuple[str, ...] = ()) -> AbstractContextManager[None]:
    """Times the block under it as one trip of region `name`, inside the region that encloses it on this thread."""
    recording = _active
    if recording is None:
        return OFF
    if _here.recording is not recording:
        _here.recording, _here.slots, _here.path = recording, recording.join(), ()
    outer = _here.path
    if name in outer:
        # A region that calls itself is already being timed.
        return OFF
    slot = _here.slots.get((*outer, name))
    if slot is None:
        recording.declare((*outer, name), role, tags)
        slot = _here.slots[(*outer, name)] = [0, 0, 0, 0]
    return _Scope(name, slot, outer)


class Recording:
    """One capture in the making."""

    def __init__(self, name: str, launch: dict[str, LaunchValue]) -> None:
        self.name = name
        self.launch = launch
        self.window = (time.perf_counter_ns(), 0)
        self._declared: dict[Path, tuple[Role, tuple[str, ...]]] = {}
        self._threads: list[dict[Path, list[int]]] = []
        self._lock = threading.Lock()

    def join(self) -> dict[Path, list[int]]:
        with self._lock:
            self._threads.append({})
            return self._threads[-1]

    def declare(self, path: Path, role: Role, tags: tuple[str, ...]) -> None:
        with self._lock:
            known = self._declared.setdefault(path, (role, tags))
        if known != (role, tags):
            raise BadInput(f"region {'/'.join(path)} is declared twice, differently", cure="give it one role and tags")

    def finish(self) -> None:
        self.window = (self.window[0], time.perf_counter_ns())

    @property
    def schema(self) -> Schema:
        """What was seen, as a schema: nesting gives parents; which workers run a region is observed, not declared."""
        paths = sorted(self._declared, key=len)
        if not paths:
            raise BadInput("no region was recorded", cure='put `with regions.record("name"):` around the work')
        names = [path[-1] if sum(p[-1] == path[-1] for p in paths) == 1 else "/".join(path) for path in paths]
        regions = []
        for index, (path, name) in enumerate(zip(paths, names, strict=True)):
            role, tags = self._declared[path]
            parent = paths.index(path[:-1]) if len(path) > 1 else None
            regions.append(Region(id=index, name=name, role=role, tags=tags, elected=True, per="trip", parent=parent))
        schema = Schema(name=self.name, regions=tuple(regions))
        check(schema, self.name)
        return schema

    def capture(self) -> Capture:
        """The capture, once the recording is over."""
        if not self.window[1]:
            raise BadInput("the recording is still going on", cure="leave its `with` block first")
        schema = self.schema
        paths = sorted(self._declared, key=len)
        cells = np.zeros((len(self._threads), len(paths)), dtype=CELL)
        for worker, slots in enumerate(self._threads):
            for index, path in enumerate(paths):
                if path in slots and slots[path][3]:
                    cells[worker, index] = (*slots[path], 1)
        about = About(
            tick_source="monotonic",
            grid={"workers": len(self._threads)},
            launch=self.launch,
            window=self.window,
            total_ns=float(self.window[1] - self.window[0]),
            created=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        return make_capture(cells, schema, about, origin=self.name)


@contextmanager
def recording(name: str = "recording", **launch: LaunchValue) -> Iterator[Recording]:
    """Turns `record` on, for all threads, until the block ends. One recording at a time."""
    global _active  # noqa: PLW0603  one switch for all threads is the point
    if _active is not None:
        raise BadInput(f"{_active.name!r} is being recorded already", cure="end it first")
    _active = made = Recording(name, launch or {"name": name})
    try:
        yield made
    finally:
        _active = None
        made.finish()
