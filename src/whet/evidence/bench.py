"""The process in which one variant runs. It knows neither seeds nor expected values, sees the inputs of a turn only
while that turn lasts, and holds no output but its own. Whatever a variant does to this process stays in it.
"""

from __future__ import annotations

import contextlib
import gc
import os
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from whet.errors import DeviceError, Unsupported, WhetError
from whet.evidence import messages, system
from whet.evidence.buffers import bytes_of, fill, set_guards, unpacked, views
from whet.evidence.messages import (
    Attempt,
    Attempted,
    Claim,
    Describe,
    Described,
    Done,
    Fed,
    Feed,
    Finish,
    Layout,
    Load,
    Raised,
    Seal,
    Turn,
    WarmUp,
)
from whet.evidence.registry import where
from whet.evidence.runnable import Portable, Runnable, runnable
from whet.evidence.serving import answer_requests, limit_memory, map_bytes, plain_arithmetic, private_copy
from whet.evidence.system import Granted
from whet.functions.values import import_for
from whet.protocol import Array, Arrays

# What glibc's allocator takes at most for a block of its heap; beyond, a block gets pages of its own.
LARGEST_HEAP_BLOCK = 32 << 20
PAGE_BYTES = 4096
# Of what an exception says so many characters are told.
LONGEST_TEXT = 3000
PAD_STEP = 16
# Imports leave holes in a heap, whose places are not left to chance: they are filled first.
HOLE_BYTES = (1 << 14) - 64
HOLES = 128
# Smaller than what the allocator gives pages of its own.
PAD_BYTES = 1 << 16

Pair = tuple[Arrays, Arrays]
T = TypeVar("T")
# The clocks as they were before anything foreign was imported.
CLOCKS = {
    f"{name}{unit}": getattr(time, f"{name}{unit}")
    for name in ("monotonic", "perf_counter", "process_time", "thread_time", "time")
    for unit in ("", "_ns")
}


def stopwatch(clock: Callable[[], int] = time.monotonic_ns) -> Callable[..., tuple[int, list[int]]]:
    """A timed loop that stamps the end of every call."""

    def timed(run: Callable[..., None], state: Any, pairs: Sequence[Pair]) -> tuple[int, list[int]]:
        ends = [0] * len(pairs)
        start = clock()
        for number, (inputs, outputs) in enumerate(pairs):
            run(state, inputs, outputs)
            ends[number] = clock()
        return start, ends

    return timed


class Buffers(dict[str, Array]):
    """Named buffers that stay where they are: `outputs["y"] += x` works, rebinding a name does not."""

    def __setitem__(self, name: str, value: Array) -> None:
        if self.get(name) is not value:
            raise TypeError(f"the buffer {name!r} cannot be replaced; write into it: outputs[{name!r}][...] = value")


def settle_allocator() -> None:
    """Brings the C library's allocator into the state that a process reaches once it has freed something large.

    glibc returns free memory to the system until blocks of that size have been freed once, so one kernel with the same
    temporary arrays costs a page fault for each of their pages or none at all, four times as long or not, by what the
    process happened to read before, such as a longer source file. All benches begin settled.
    """
    bytearray(LARGEST_HEAP_BLOCK - 2 * PAGE_BYTES)


def moved_heap() -> list[bytearray]:
    """Blocks that move what is allocated after them by a chance part of a page, as long as they are held.

    The system chooses a heap's pages by chance, not the place within a page: there two variants that allocate alike but
    were loaded from files with names of other lengths would differ in every fresh process in the same way. Arrays below
    16 KiB may still find a hole.
    """
    fill = [bytearray(HOLE_BYTES) for _ in range(HOLES)]
    return [*fill, bytearray(PAD_BYTES + int.from_bytes(os.urandom(2)) % PAGE_BYTES // PAD_STEP * PAD_STEP)]


class Bench:
    """Serves one variant on one case, or on hard cases one after the other."""

    def __init__(self) -> None:
        settle_allocator()
        self._heap = moved_heap()
        self._runnable: Runnable | None = None
        self._state: Any = None
        self._timed = stopwatch()

    def load(self, asked: Load) -> Done | Raised:
        if asked.memory_bytes:
            limit_memory(asked.memory_bytes)
        if asked.variant is not None and asked.variant.file:
            try:
                self._runnable = runnable(asked)
            except WhetError as error:
                return Raised(text=str(error))
            except BaseException as error:
                return Raised(text=f"import: {type(error).__name__}: {error}")
        else:
            self._runnable = runnable(asked)
        # What an import did to rounding holds for no variant: the oracle rounds as usual.
        plain_arithmetic()
        return Done()

    def open(self, layout: Layout, fds: list[int]) -> Done | Raised:
        assert self._runnable is not None
        self._release()
        read_fixed = map_bytes(fds[0], layout.fixed.size_bytes, writeable=False)
        read = map_bytes(fds[1], layout.inputs.size_bytes, writeable=False)
        written = map_bytes(fds[2], layout.outputs.size_bytes, writeable=True)
        fixed = {
            field.name: private_copy(bytes_of(read_fixed, field)).view(field.dtype).reshape(field.shape)
            for field in layout.fixed.groups[0]
        }
        self._pairs = [
            (Buffers({**fixed, **views(read, given)}), Buffers(views(written, wanted)))
            for given, wanted in zip(layout.inputs.groups, layout.outputs.groups, strict=True)
        ]
        # Once sealed, a process cannot import what tensors need.
        import_for(field.name for field in layout.inputs.groups[0])
        start = time.monotonic_ns()
        try:
            self._state = self._runnable.setup(layout.case, Buffers(fixed))
        except WhetError:
            raise
        except BaseException as error:
            return Raised(text=f"setup: {self._told(error)}")
        gc.collect()
        gc.freeze()
        gc.disable()
        return Done(spent_ns=time.monotonic_ns() - start)

    def seal(self, _: Seal) -> Done:
        system.host().seal()
        return Done()

    def warm_up(self, asked: WarmUp) -> Done | Raised:
        assert self._runnable is not None
        try:
            for inputs, outputs in self._pairs[: asked.calls]:
                self._runnable.run(self._state, inputs, outputs)
            gc.collect()
        except (Unsupported, DeviceError):
            raise
        except BaseException as error:
            return Raised(text=self._told(error))
        return Done(patched=[name for name, clock in CLOCKS.items() if getattr(time, name, None) is not clock])

    def turn(self, asked: Turn) -> Claim | Raised:
        """The very first thing is the clock, the very last the answer."""
        assert self._runnable is not None
        try:
            start, ends = self._timed(self._runnable.run, self._state, self._pairs[asked.first :][: asked.calls])
            if not asked.with_timing:
                return Claim(start_ns=start, ends_ns=ends)
            timing = self._runnable.timing(self._state)
        except (Unsupported, DeviceError):
            raise
        except BaseException as error:
            return Raised(text=self._told(error))
        if timing is None:
            return Claim(start_ns=start, ends_ns=ends)
        return Claim(
            start_ns=start,
            ends_ns=ends,
            device_ns=timing.device_ns,
            regions_ns=dict(timing.regions_ns),
            tags={region: list(tags) for region, tags in timing.tags.items()},
            waits=sorted(timing.waits),
            sheet=timing.sheet,
        )

    def describe(self, _: Describe) -> Described | Raised:
        assert isinstance(self._runnable, Portable)
        portable = self._runnable
        return self._guarded(lambda: portable.describe(self._state, self._pairs[0][0]))

    def feed(self, asked: Feed) -> Fed | Raised:
        assert isinstance(self._runnable, Portable)
        portable, pairs = self._runnable, self._pairs[: asked.calls]
        return self._guarded(lambda: Fed(calls=[portable.feed(self._state, inputs) for inputs, _ in pairs]))

    def finish(self, asked: Finish) -> Done | Raised:
        assert isinstance(self._runnable, Portable)
        portable, pairs = self._runnable, self._pairs[: len(asked.read)]

        def finish() -> Done:
            for read, (_, outputs) in zip(asked.read, pairs, strict=True):
                portable.finish(self._state, read, outputs)
            return Done()

        return self._guarded(finish)

    def _guarded(self, step: Callable[[], T]) -> T | Raised:
        """What a step gives; what it raises is the variant's, but for what its device cannot do."""
        try:
            return step()
        except (Unsupported, DeviceError):
            raise
        except BaseException as error:
            return Raised(text=self._told(error))

    def attempt(self, asked: Attempt) -> Attempted | Raised:
        assert self._runnable is not None
        memory = np.zeros(asked.outputs.size_bytes, np.uint8)
        set_guards(memory, asked.outputs)
        for field in asked.outputs.groups[0]:
            fill(bytes_of(memory, field), asked.poison)
        given = unpacked(asked.fixed)
        outputs = Buffers(views(memory, asked.outputs.groups[0]))
        try:
            state = self._runnable.setup(asked.case, Buffers(given))
            try:
                self._runnable.run(state, Buffers({**given, **unpacked(asked.inputs)}), outputs)
            finally:
                self._runnable.close(state)
        except (Unsupported, DeviceError):
            raise
        except BaseException as error:
            return Raised(text=self._told(error))
        return Attempted(arena=memory.tobytes())

    def _told(self, error: BaseException) -> str:
        assert self._runnable is not None
        told = f"{type(error).__name__}: {error}"[:LONGEST_TEXT].encode("utf-8", "backslashreplace").decode()
        return f"{told} ({where(error, self._runnable.source)})"

    def _release(self) -> None:
        if self._runnable is not None and self._state is not None:
            with contextlib.suppress(Exception):
                self._runnable.close(self._state)
        self._state = None


def serve(channel_fd: int, pid: int, granted: Granted) -> None:
    bench = Bench()
    handlers: dict[type[messages.Request], Any] = {
        Load: bench.load,
        Layout: bench.open,
        Seal: bench.seal,
        WarmUp: bench.warm_up,
        Turn: bench.turn,
        Describe: bench.describe,
        Feed: bench.feed,
        Finish: bench.finish,
        Attempt: bench.attempt,
    }
    system.host().ask_the_parent(granted)
    answer_requests(channel_fd, messages.ToBench, handlers, pid, granted)
