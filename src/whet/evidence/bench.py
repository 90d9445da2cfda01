"""The process in which one variant runs: `python -m whet.evidence.bench CHANNEL [INPUTS OUTPUTS]`.

It knows neither seeds nor expected values, maps the inputs read-only and holds no output but its own. Whatever a
variant does to this process (patches, crashes, caches, stray writes) stays in it. Without the two arenas it serves
hard cases alone, whose small arrays travel in the messages.
"""

from __future__ import annotations

import contextlib
import gc
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from whet.errors import DeviceError, Unsupported, WhetError
from whet.evidence.buffers import Arena, bytes_of, fill, unpacked, views
from whet.evidence.child import map_bytes, private_copy, serve
from whet.evidence.registry import load, where
from whet.protocol import Array, Arrays, Case, Engine, Variant

# The clocks as they were before any engine was imported.
CLOCKS = {
    name: getattr(time, name)
    for name in (
        "monotonic",
        "monotonic_ns",
        "perf_counter",
        "perf_counter_ns",
        "process_time",
        "process_time_ns",
        "time",
    )
}


def stopwatch(
    copy: Callable[[Array, Array], None] = np.copyto,
    clock: Callable[[], int] = time.monotonic_ns,
    cpu_clock: Callable[[], int] = time.process_time_ns,
) -> Callable[..., tuple[int, int, int]]:
    """A timed loop whose clocks are out of reach of the module's names."""

    def timed(
        call: Callable[..., None],
        variant: Variant,
        state: Any,
        pairs: Sequence[tuple[Arrays, Arrays]],
        *,
        snapshot: Array,
        live: Array,
    ) -> tuple[int, int, int]:
        cpu_start = cpu_clock()
        start = clock()
        for inputs, outputs in pairs:
            call(variant, state, inputs, outputs)
        stop = clock()
        cpu_ns = cpu_clock() - cpu_start
        copy(snapshot, live)
        return start, stop, cpu_ns

    return timed


class Buffers(dict[str, Array]):
    """Named buffers that stay where they are: `outputs["y"] += x` works, rebinding a name does not."""

    def __setitem__(self, name: str, value: Array) -> None:
        if self.get(name) is not value:
            raise TypeError(f"the buffer {name!r} cannot be replaced; write into it: outputs[{name!r}][...] = value")


class Bench:
    """Serves one variant. `open` may be called again for another case."""

    def __init__(self, inputs_fd: int = -1, outputs_fd: int = -1) -> None:
        self._inputs_fd, self._outputs_fd = inputs_fd, outputs_fd
        self._engine: Engine | None = None
        self._state: Any = None
        self._timed = stopwatch()

    def load(self, ref: str, variant: dict[str, Any], device: str) -> dict[str, Any]:
        loaded = load(ref)
        self._engine, self._device = loaded.engine, device
        self._source = Path(sys.modules[type(loaded.engine).__module__].__file__ or ref)
        self._variant = msgspec.convert(variant, Variant)
        return {}

    def open(self, case: dict[str, Any], inputs: dict[str, Any], outputs: dict[str, Any]) -> dict[str, Any]:
        assert self._engine is not None
        self._release()
        self._case = msgspec.convert(case, Case)
        inputs_arena, self._outputs = msgspec.convert(inputs, Arena), msgspec.convert(outputs, Arena)
        read = map_bytes(self._inputs_fd, inputs_arena.size_bytes, writeable=False)
        self._memory = map_bytes(self._outputs_fd, 2 * self._outputs.size_bytes, writeable=True)
        fixed = {
            field.name: private_copy(bytes_of(read, field)).view(field.dtype).reshape(field.shape)
            for field in inputs_arena.groups[0]
        }
        self._pairs: list[tuple[Arrays, Arrays]] = [
            (Buffers({**fixed, **views(read, given)}), Buffers(views(self._memory, wanted)))
            for given, wanted in zip(inputs_arena.groups[1:], self._outputs.groups, strict=True)
        ]
        start = CLOCKS["monotonic_ns"]()
        try:
            self._state = self._engine.setup(self._variant, self._case, Buffers(fixed), self._device)
        except WhetError:
            raise
        except BaseException as error:
            return {"raised": self._told(error)}
        gc.collect()
        gc.freeze()
        return {"setup_ns": CLOCKS["monotonic_ns"]() - start}

    def run(self, calls: int) -> dict[str, Any]:
        """`calls` calls on as many slots. The snapshot is taken before anything else happens."""
        assert self._engine is not None
        end, half = self._outputs.end_of(calls - 1), self._outputs.size_bytes
        gc.collect()
        gc.disable()
        try:
            start, stop, cpu_ns = self._timed(
                self._engine.run,
                self._variant,
                self._state,
                self._pairs[:calls],
                snapshot=self._memory[half : half + end],
                live=self._memory[:end],
            )
            timing = self._engine.timing(self._state)
        except (Unsupported, DeviceError):
            raise
        except BaseException as error:
            return {"raised": self._told(error)}
        finally:
            gc.enable()
        patched = [name for name, original in CLOCKS.items() if getattr(time, name, None) is not original]
        return {
            "start_ns": start,
            "stop_ns": stop,
            "cpu_ns": cpu_ns,
            "device_ns": None if timing is None else timing.device_ns,
            "regions_ns": {} if timing is None else timing.regions_ns,
            "patched": patched,
        }

    def attempt(
        self, case: dict[str, Any], fixed: dict[str, Any], inputs: dict[str, Any], poison: int
    ) -> dict[str, Any]:
        """One untimed call on arrays that came with the message; nothing of it is kept."""
        assert self._engine is not None
        asked = msgspec.convert(case, Case)
        outputs = {}
        for name, wanted in self._engine.outputs(asked).items():
            outputs[name] = np.empty(wanted.shape, wanted.dtype)
            fill(outputs[name].reshape(-1).view(np.uint8), poison)
        given = unpacked(fixed)
        try:
            state = self._engine.setup(self._variant, asked, Buffers(given), self._device)
            try:
                self._engine.run(self._variant, state, Buffers({**given, **unpacked(inputs)}), Buffers(outputs))
            finally:
                self._engine.close(state)
        except (Unsupported, DeviceError):
            raise
        except BaseException as error:
            return {"raised": self._told(error)}
        return {"outputs": {name: output.tobytes() for name, output in outputs.items()}}

    def ping(self) -> dict[str, Any]:
        return {}

    def close(self) -> dict[str, Any]:
        self._release()
        return {}

    def _told(self, error: BaseException) -> str:
        return f"{type(error).__name__}: {error} ({where(error, self._source)})"

    def _release(self) -> None:
        if self._engine is not None and self._state is not None:
            with contextlib.suppress(Exception):
                self._engine.close(self._state)
        self._state = None


def main() -> None:
    channel, *arenas = map(int, sys.argv[1:])
    bench = Bench(*arenas)
    serve(channel, {name: getattr(bench, name) for name in ("load", "open", "run", "attempt", "ping", "close")})


if __name__ == "__main__":
    main()
