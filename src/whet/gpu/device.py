"""One opened device: named buffers, cached pipelines, passes with nanosecond timestamps, typed faults."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Lock, Thread
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from whet.errors import BadInput, DeviceLost, DeviceTimeout, WhetError
from whet.gpu.adapter import AdapterInfo
from whet.gpu.faults import CURES, Injector, translate
from whet.gpu.ledger import Ledger
from whet.gpu.program import Clear, Copy, Kernel, Pass, Program, Span, Step, Write

POISON = 0xDEADBEEF
# Far above any sum or layer that fits a device, software adapters included; below what a person waits for.
TIME_LIMIT_S = 900.0


@dataclass(eq=False)
class Buffer:
    """A named buffer on a device. `handle` is wgpu's object; release it through the device."""

    name: str
    size_bytes: int
    handle: Any


class Device:
    """Use `open_device`. Not thread-safe: one submission at a time."""

    def __init__(self, info: AdapterInfo, handle: Any, *, debug: bool, time_limit_s: float = TIME_LIMIT_S) -> None:
        self.info = info
        self.handle = handle
        self.debug = debug
        self.time_limit_s = time_limit_s
        self.ledger = Ledger()
        self.inject = Injector()
        self._buffers: dict[str, Buffer] = {}
        self._pipelines: dict[Kernel, Any] = {}
        # Bind groups of passes that come again; they hold buffers, so the first release forgets them all.
        self._groups: dict[tuple[Kernel, tuple[str | Span, ...]], Any] = {}
        self._closed = False
        self._given_up = False
        # From the first pass's begin to the last one's end, in the last submission; None where it was not timed.
        self.span_ns: int | None = None
        # When these were, on the device's own clock.
        self.stamps_ns: tuple[int, int] | None = None
        self.timestamp_period_ns = _timestamp_period_ns(handle) if "timestamp-query" in handle.features else None

    def buffer(self, name: str, size_bytes: int, *, data: npt.NDArray[Any] | None = None) -> Buffer:
        """A storage buffer on the ledger. In debug mode it starts as poison, so a read before a write shows."""
        import wgpu

        if size_bytes <= 0 or size_bytes % 4:
            raise BadInput(f"buffer {name!r} of {size_bytes} bytes", cure="use a positive multiple of four")
        usage = wgpu.BufferUsage.COPY_SRC | wgpu.BufferUsage.COPY_DST
        usage |= wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.UNIFORM | wgpu.BufferUsage.INDIRECT
        self.ledger.add(name, size_bytes)
        try:
            handle = self._guarded(
                "allocate",
                f"allocating {name} ({size_bytes:,} bytes)",
                lambda: self.handle.create_buffer(label=name, size=size_bytes, usage=usage),
            )
        except WhetError:
            self.ledger.remove(name)
            raise
        made = self._buffers[name] = Buffer(name, size_bytes, handle)
        if data is None and self.debug:
            data = np.full(size_bytes // 4, POISON, np.uint32)
        if data is not None:
            try:
                self.write(made, data)
            except WhetError:
                self.release(made)
                raise
        return made

    def release(self, buffer: Buffer) -> None:
        """Gives the bytes back at once; those of a device that was given up go when its driver comes back."""
        if self._given_up:
            return
        if self._buffers.pop(buffer.name, None) is buffer:
            self._groups.clear()
            buffer.handle.destroy()
            self.ledger.remove(buffer.name)

    def write(self, buffer: Buffer, data: npt.NDArray[Any], offset_bytes: int = 0) -> None:
        """Copies host data into a buffer before the next submission."""
        if offset_bytes + data.nbytes > buffer.size_bytes:
            raise BadInput(f"{data.nbytes} bytes do not fit {buffer.name} at {offset_bytes}", cure="check the sizes")
        if self.inject.drops_write(buffer.name):
            return
        self._guarded(
            "submit",
            f"writing {buffer.name}",
            lambda: self.handle.queue.write_buffer(buffer.handle, offset_bytes, np.ascontiguousarray(data)),
        )

    def read(self, buffer: Buffer, dtype: npt.DTypeLike = np.uint32, size_bytes: int | None = None) -> npt.NDArray[Any]:
        """Waits for everything submitted and copies a buffer to the host."""
        size = buffer.size_bytes if size_bytes is None else size_bytes
        fetched: npt.NDArray[np.uint8] = self._guarded(
            "read", f"reading {buffer.name}", lambda: self._fetch(buffer.handle, size)
        )
        return fetched.view(dtype)

    def allocate(self, program: Program) -> dict[str, Buffer]:
        """Makes every buffer of a program and fills its constants; all of them or none."""
        made: dict[str, Buffer] = {}
        try:
            for name, size_bytes in program.buffers.items():
                made[name] = self.buffer(name, size_bytes, data=program.constants.get(name))
        except WhetError:
            for buffer in made.values():
                self.release(buffer)
            raise
        return made

    def pipeline(self, kernel: Kernel) -> Any:
        """A compute pipeline, made once per kernel."""
        if kernel not in self._pipelines:

            def build() -> Any:
                module = self.handle.create_shader_module(label=kernel.entry, code=kernel.source)
                stage = {"module": module, "entry_point": kernel.entry, "constants": dict(kernel.constants)}
                return self.handle.create_compute_pipeline(label=kernel.entry, layout="auto", compute=stage)

            self._pipelines[kernel] = self._guarded("compile", f"building {kernel.entry}", build, kernel)
        return self._pipelines[kernel]

    def submit(self, steps: Sequence[Step], *, timestamps: bool = False) -> list[tuple[str, int | None]]:
        """Runs the steps in order as one submission and waits. Returns each pass with its nanoseconds.

        The time is None where the adapter has no timestamps or none were asked for; passes that follow each other are
        one compute pass then. A program with writes is run by `running.run`.
        """
        passes = [step for step in steps if isinstance(step, Pass)]
        if not (timestamps and self.timestamp_period_ns is not None and passes):
            self.span_ns = self.stamps_ns = None
            self._execute(steps, None)
            return [(one.name, None) for one in passes]
        with self._queries(len(passes)) as queries:
            self._execute(steps, queries)
            fetched = self._guarded("read", "reading timestamps", lambda: self._fetch(queries[1], 16 * len(passes)))
        ticks = fetched.view(np.int64) * self.timestamp_period_ns
        self.stamps_ns = round(ticks[0]), round(ticks[-1])
        self.span_ns = self.stamps_ns[1] - self.stamps_ns[0]
        return [(one.name, round(ticks[2 * i + 1] - ticks[2 * i])) for i, one in enumerate(passes)]

    def close(self) -> None:
        """Releases everything. Safe to call again."""
        if self._closed:
            return
        self._closed = True
        self._release_all()

    def _release_all(self) -> None:
        self._given_up = False
        for buffer in list(self._buffers.values()):
            self.release(buffer)
        self._pipelines.clear()
        self.handle.destroy()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _execute(self, steps: Sequence[Step], queries: tuple[Any, Any] | None) -> None:
        steps = self.inject.bent(steps, {name: buffer.size_bytes for name, buffer in self._buffers.items()})
        for step in steps:
            if isinstance(step, Pass):
                self.pipeline(step.kernel)
        command = self._guarded("submit", "recording commands", lambda: self._record(steps, queries))
        self._guarded("submit", "submitting", lambda: self.handle.queue.submit([command]))
        self._guarded("wait", "waiting", self._wait)

    def _wait(self) -> None:
        """Waits for the queue, but no longer than the limit. A device that is given up releases itself when it ends.

        The driver cannot be interrupted, and releasing anything while it works would wait for it as well. So the wait
        has a thread of its own, which cleans up in the end if nobody waits for it any more.
        """
        ended, turn = Event(), Lock()
        failed: list[Exception] = []

        def wait() -> None:
            try:
                _drain(self.handle)
            except Exception as error:
                failed.append(error)
            with turn:
                ended.set()
            if self._given_up:
                self._release_all()

        Thread(target=wait, name="whet-gpu-wait", daemon=True).start()
        if not ended.wait(self.time_limit_s):
            with turn:
                self._closed = self._given_up = not ended.is_set()
            if self._given_up:
                took = f"the device did not finish within {self.time_limit_s:g} s and is given up"
                raise DeviceTimeout(took, cure=CURES[DeviceTimeout])
        if failed:
            raise failed[0]

    def _record(self, steps: Sequence[Step], queries: tuple[Any, Any] | None) -> Any:
        encoder = self.handle.create_command_encoder()
        index, recorded = 0, None
        for step in steps:
            if isinstance(step, Pass):
                if recorded is None:
                    recorded = self._begin(encoder, step, queries[0] if queries else None, index)
                self._dispatch(recorded, step)
                index += 1
            if recorded is not None and (queries or not isinstance(step, Pass)):
                recorded.end()
                recorded = None
            if isinstance(step, Clear):
                size = self.named(step.buffer).size_bytes - step.offset_bytes
                encoder.clear_buffer(self.named(step.buffer).handle, step.offset_bytes, step.size_bytes or size)
            elif isinstance(step, Copy):
                source, target = self.named(step.source).handle, self.named(step.target).handle
                encoder.copy_buffer_to_buffer(source, step.source_offset, target, step.target_offset, step.size_bytes)
            elif isinstance(step, Write):
                raise BadInput(f"a write of {step.buffer} inside a submission", cure="run it by whet.gpu.running.run")
        if recorded is not None:
            recorded.end()
        if queries:
            encoder.resolve_query_set(queries[0], 0, 2 * index, queries[1], 0)
        return encoder.finish()

    def _begin(self, encoder: Any, step: Pass, query_set: Any, index: int) -> Any:
        """A compute pass: for this step alone if it is timed, else for all that follow without a clear or a copy."""
        if query_set is None:
            return encoder.begin_compute_pass(label=step.name)
        writes = {
            "query_set": query_set,
            "beginning_of_pass_write_index": 2 * index,
            "end_of_pass_write_index": 2 * index + 1,
        }
        return encoder.begin_compute_pass(label=step.name, timestamp_writes=writes)

    def _dispatch(self, recorded: Any, step: Pass) -> None:
        pipeline = self.pipeline(step.kernel)
        group = self._groups.get((step.kernel, step.bindings))
        if group is None:
            group = self._groups[step.kernel, step.bindings] = self.handle.create_bind_group(
                layout=pipeline.get_bind_group_layout(0),
                entries=[{"binding": i, "resource": self._resource(b)} for i, b in enumerate(step.bindings)],
            )
        recorded.set_pipeline(pipeline)
        recorded.set_bind_group(0, group)
        if step.indirect is not None:
            recorded.dispatch_workgroups_indirect(self.named(step.indirect[0]).handle, step.indirect[1])
        elif step.workgroups is not None:
            recorded.dispatch_workgroups(*step.workgroups)
        else:
            raise BadInput(f"pass {step.name} has no size", cure="give workgroups or an indirect buffer")

    def named(self, name: str) -> Buffer:
        """The live buffer of that name."""
        try:
            return self._buffers[name]
        except KeyError:
            raise BadInput(f"no buffer is named {name!r}", cure=f"live buffers: {', '.join(self._buffers)}") from None

    def _resource(self, binding: str | Span) -> dict[str, Any]:
        span = binding if isinstance(binding, Span) else Span(binding)
        buffer = self.named(span.buffer)
        size = buffer.size_bytes - span.offset_bytes if span.size_bytes is None else span.size_bytes
        return {"buffer": buffer.handle, "offset": span.offset_bytes, "size": size}

    def _fetch(self, source: Any, size: int) -> npt.NDArray[np.uint8]:
        """Copies through a staging buffer of our own, so that its bytes are on the ledger too."""
        import wgpu

        self.ledger.add("staging", size)
        try:
            usage = wgpu.BufferUsage.MAP_READ | wgpu.BufferUsage.COPY_DST
            staging = self.handle.create_buffer(label="staging", size=size, usage=usage)
            encoder = self.handle.create_command_encoder()
            encoder.copy_buffer_to_buffer(source, 0, staging, 0, size)
            self.handle.queue.submit([encoder.finish()])
            staging.map_sync(wgpu.MapMode.READ)
            fetched = np.frombuffer(staging.read_mapped(copy=True), dtype=np.uint8)
            staging.unmap()
            staging.destroy()
            return fetched
        finally:
            self.ledger.remove("staging")

    @contextmanager
    def _queries(self, passes: int) -> Iterator[tuple[Any, Any]]:
        """A query set and the buffer it resolves to, for one submission."""
        import wgpu

        self.ledger.add("timestamps", 16 * passes)
        try:
            query_set = self.handle.create_query_set(type="timestamp", count=2 * passes)
            usage = wgpu.BufferUsage.QUERY_RESOLVE | wgpu.BufferUsage.COPY_SRC
            resolved = self.handle.create_buffer(size=16 * passes, usage=usage)
            yield query_set, resolved
            resolved.destroy()
        finally:
            self.ledger.remove("timestamps")

    def _guarded(self, moment: str, doing: str, call: Any, kernel: Kernel | None = None) -> Any:
        if self._closed:
            raise DeviceLost("the device was closed", cure="open a new one")
        self.inject.visit(moment, self.handle)
        try:
            return call()
        except WhetError:
            raise
        except Exception as error:
            raise translate(error, doing=doing, kernel=kernel) from error


def _timestamp_period_ns(handle: Any) -> float:
    """wgpu-py hands out raw ticks; this is what one tick lasts."""
    from wgpu.backends.wgpu_native import lib

    return float(lib.wgpuQueueGetTimestampPeriod(handle.queue._internal))


def _drain(handle: Any) -> None:
    """Waits for the queue. wgpu-py 0.32's own on_submitted_work_done fails on a mismatched callback type."""
    handle._poll_wait()
