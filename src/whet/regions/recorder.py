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
from whet.regions.stretches import STRETCH

Role = Literal["work", "wait", "boundary"]
Path = tuple[str, ...]
_Seen = tuple[Path, int, int, int, int]
MAX_CUTS = 100_000  # waits of one thread that keep their times; later ones are summed
OFF: AbstractContextManager[None] = nullcontext()


class _Place:
    """One region at its place on one thread, and the context manager that times it: entering it allocates nothing.

    It is written by its thread alone. Others may read it at any time, ticks first: they are stored last, so they never
    exceed what lies between entry and exit. A name below itself maps to None.
    """

    __slots__ = ("begun", "count", "entry", "exit", "inner", "is_wait", "outer", "path", "stretch", "thread", "ticks")

    def __init__(self, thread: _Thread, path: Path, outer: _Place | None, is_wait: bool = False) -> None:
        self.thread, self.path, self.outer, self.is_wait = thread, path, outer, is_wait
        self.inner: dict[str, _Place | None] = {}
        self.begun = self.entry = self.exit = self.ticks = self.count = 0
        self.stretch = -1

    def __enter__(self) -> None:
        self.thread.place = self
        self.begun = time.perf_counter_ns()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        leave = time.perf_counter_ns()
        thread = self.thread
        if self.stretch != thread.stretch:
            self.entry = self.begun
            self.stretch = thread.stretch
            thread.touched.append(self)
        self.count += 1
        self.exit = leave
        self.ticks += leave - self.begun
        assert self.outer is not None, "the root of a thread is never entered"
        thread.place = self.outer
        if self.is_wait:
            thread.cut()

    def seen(self) -> _Seen:
        ticks, leave = self.ticks, self.exit
        return self.path, self.entry, leave, ticks, self.count


class _Thread:
    """Where one thread is in one recording."""

    __slots__ = ("cuts", "place", "recording", "root", "stretch", "touched")

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.root = self.place = _Place(self, (), None)
        self.stretch = 0
        self.touched: list[_Place] = []
        self.cuts: list[list[_Seen]] = []

    def cut(self) -> None:
        """A wait was left: another stretch begins. Sums go on, so nothing is lost where this is interrupted."""
        if len(self.cuts) < MAX_CUTS:
            self.cuts.append([place.seen() for place in self.touched])
            self.touched = []
            self.stretch += 1

    def stretches(self) -> list[tuple[Path, int, int, int, int]]:
        """(path, entry, exit, ticks, count) of each region in each stretch, in order. Sums become differences here."""
        while True:
            number = len(self.cuts)
            last = [place.seen() for place in list(self.touched)]
            if number == len(self.cuts):
                break
        cuts = self.cuts[:number]
        before: dict[Path, tuple[int, int, int]] = {}
        found = []
        for path, entry, leave, ticks, count in (seen for cut in (*cuts, last) for seen in cut):
            ended, spent, trips = before.get(path, (0, 0, 0))
            if count > trips and leave >= entry:
                found.append((path, max(entry, ended), leave, ticks - spent, count - trips))
                before[path] = (leave, ticks, count)
        return found


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
        place = outer.inner[name] = _Place(outer.thread, path, outer, role == "wait")
        return place

    def finish(self) -> None:
        self.window = (self.window[0], time.perf_counter_ns())

    @property
    def schema(self) -> Schema:
        """What was seen, as a schema: nesting gives parents; which workers run a region is observed, not declared."""
        return self._schema(self._paths())

    def _paths(self) -> list[Path]:
        with self._lock:
            return sorted(self._declared, key=len)

    def _schema(self, paths: list[Path]) -> Schema:
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
        return self._capture(self.window)

    def capture_so_far(self) -> Capture:
        """What there is by now, from any thread, while the recording goes on: regions that have been left."""
        return self._capture(self.window if self.window[1] else (self.window[0], time.perf_counter_ns()))

    def _capture(self, window: tuple[int, int]) -> Capture:
        with self._lock:
            threads = list(self._threads)
        # A region is declared before it is entered: what the threads have left by now is among the paths read after.
        rows = [thread.stretches() for thread in threads]
        paths = self._paths()
        schema, index = self._schema(paths), {path: at for at, path in enumerate(paths)}
        cells = np.zeros((max(1, len(threads)), len(paths)), dtype=CELL)
        stretches = []
        for worker, parts in enumerate(rows):
            for path, entry, leave, ticks, count in parts:
                cell = cells[worker, index[path]]
                begun, spent, trips = (
                    (cell["entry"], cell["ticks"], cell["count"]) if cell["written"] else (entry, 0, 0)
                )
                cells[worker, index[path]] = (begun, leave, spent + ticks, trips + count, 1)
                stretches.append((worker, index[path], entry, leave, ticks, count))
        waits = [region.id for region in schema.regions if region.role == "wait"]
        looped = bool((cells["count"][:, waits] > 1).any())
        about = About(
            tick_source="monotonic",
            grid={"workers": len(cells)},
            launch=self.launch,
            window=window,
            total_ns=float(window[1] - window[0]),
            complete=bool(self.window[1]),
            created=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        kept = np.array(stretches, dtype=STRETCH) if looped else None
        return make_capture(cells, schema, about, origin=self.name, stretches=kept)


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
