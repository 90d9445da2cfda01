"""Recording regions from Python: `with regions.record("load"):` costs two clock reads and a few stores per trip.

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


class _Place:
    """One region at its place on one thread, and the context manager that times it: entering it allocates nothing.

    It is written by its thread alone and read when the recording is over. A name below itself maps to None.
    """

    __slots__ = ("begun", "count", "entry", "exit", "inner", "outer", "path", "thread", "ticks")

    def __init__(self, thread: _Thread, path: Path, outer: _Place | None) -> None:
        self.thread, self.path, self.outer = thread, path, outer
        self.inner: dict[str, _Place | None] = {}
        self.begun = self.entry = self.exit = self.ticks = self.count = 0

    def __enter__(self) -> None:
        self.thread.place = self
        self.begun = time.perf_counter_ns()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        leave = time.perf_counter_ns()
        if self.count == 0:
            self.entry = self.begun
        self.exit = leave
        self.ticks += leave - self.begun
        self.count += 1
        assert self.outer is not None, "the root of a thread is never entered"
        self.thread.place = self.outer

    def below(self) -> Iterator[_Place]:
        for place in self.inner.values():
            if place is not None:
                yield place
                yield from place.below()


class _Thread:
    """Where one thread is in one recording."""

    __slots__ = ("place", "recording", "root")

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.root = self.place = _Place(self, (), None)


class _Here(threading.local):
    thread: _Thread | None = None


_here = _Here()
_active: Recording | None = None


def record(name: str, *, role: Role = "work", tags: tuple[str, ...] = ()) -> AbstractContextManager[None]:
    """Times the block under it as one trip of region `name`, inside the region that encloses it on this thread."""
    recording = _active
    if recording is None:
        return OFF
    thread = _here.thread
    if thread is None or thread.recording is not recording:
        thread = _here.thread = recording.join()
    outer = thread.place
    try:
        return outer.inner[name] or OFF
    except KeyError:
        return recording.add(outer, name, role, tags) or OFF


class Recording:
    """One capture in the making."""

    def __init__(self, name: str, launch: dict[str, LaunchValue]) -> None:
        self.name = name
        self.launch = launch
        self.window = (time.perf_counter_ns(), 0)
        self._declared: dict[Path, tuple[Role, tuple[str, ...]]] = {}
        self._threads: list[_Thread] = []
        self._lock = threading.Lock()

    def join(self) -> _Thread:
        thread = _Thread(self)
        with self._lock:
            self._threads.append(thread)
        return thread

    def add(self, outer: _Place, name: str, role: Role, tags: tuple[str, ...]) -> _Place | None:
        """A region's first time at its place. None where it is inside itself: then it is being timed already."""
        if name in outer.path:
            outer.inner[name] = None
            return None
        path = (*outer.path, name)
        with self._lock:
            known = self._declared.setdefault(path, (role, tags))
        if known != (role, tags):
            raise BadInput(f"region {'/'.join(path)} is declared twice, differently", cure="give it one role and tags")
        place = outer.inner[name] = _Place(outer.thread, path, outer)
        return place

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
        for worker, thread in enumerate(self._threads):
            for place in thread.root.below():
                if place.count:
                    cells[worker, paths.index(place.path)] = (place.entry, place.exit, place.ticks, place.count, 1)
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
