"""A layer on a device: weights stay there, a step sends its inputs, runs the passes and reads the results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from whet.decode.cache import PagedCache
from whet.decode.shapes import Shape
from whet.decode.stored import Floats, StoredMatrix
from whet.decode.webgpu.geometry import BINDING_BYTES, Geometry, copies_of, pieces
from whet.decode.webgpu.held import HeldCache
from whet.decode.webgpu.known_exponential import require_good_exponential
from whet.decode.webgpu.program import Parts, parts, step_program, weight_constants
from whet.errors import BadInput
from whet.gpu import Buffer, Device, Pass, Program, Span, open_device

if TYPE_CHECKING:
    from whet.decode.layer import Schedule

Angles = tuple[Floats, Floats] | None


def complaint(cache: PagedCache, shape: Shape, wo_split: int) -> str:
    """What is wrong with a step, in the words of the CPU layer; empty where nothing is."""
    if wo_split > shape.q_size:
        return f"wo_split must be 1 to {shape.q_size}"
    page_size, pages = cache.k.shape[1], len(cache.k)
    for b, length in enumerate(cache.lengths.tolist()):
        if length < 0:
            return f"sequence {b} has a negative length"
        used = -(-length // page_size)
        if used > cache.table.shape[1]:
            return f"sequence {b} is longer than its row of the page table"
        row = cache.table[b, :used]
        wrong = np.flatnonzero((row < 0) | (row >= pages))
        if len(wrong):
            return f"sequence {b} has page {row[wrong[0]]} at entry {wrong[0]}, but there are {pages} pages"
    return ""


def labelled(program: Program, label: str) -> Program:
    """The same program with `label` before every name, so that layers can share a device."""

    def named(binding: str | Span) -> str | Span:
        return replace(binding, buffer=label + binding.buffer) if isinstance(binding, Span) else label + binding

    steps = [replace(s, bindings=tuple(map(named, s.bindings))) for s in program.steps if isinstance(s, Pass)]
    return Program(
        {label + name: size for name, size in program.buffers.items()},
        tuple(steps),
        {label + name: words for name, words in program.constants.items()},
    )


class WebGpuLayer:
    """Not thread-safe: a device runs one submission at a time."""

    def __init__(
        self,
        shape: Shape,
        matrices: Mapping[str, StoredMatrix],
        norms: Mapping[str, Floats],
        device: Device | str,
        *,
        binding_bytes: int = BINDING_BYTES,
    ) -> None:
        self.shape = shape
        self._binding_bytes = binding_bytes
        self.passes_ns: list[tuple[str, int | None]] = []
        self.span_ns: int | None = None
        self._pieces = pieces(
            shape, {name: matrix.kind for name, matrix in matrices.items()}, binding_bytes=binding_bytes
        )
        self._owns_device = isinstance(device, str)
        self.device = open_device(device.partition(":")[2] or None) if isinstance(device, str) else device
        taken = {name.partition(".")[0] for name in self.device.ledger.live}
        self.label = next(name for i in range(len(taken) + 1) if (name := f"decode{i}") not in taken) + "."
        self._geometry: Geometry | None = None
        self._step: dict[str, Buffer] = {}
        self._held: HeldCache | None = None
        self._weights: dict[str, Buffer] = {}
        constants = weight_constants(shape, matrices, norms, self._pieces)
        sizes = {name: words.nbytes for name, words in constants.items()}
        try:
            require_good_exponential(self.device)
            self._weights = self.device.allocate(labelled(Program(sizes, (), constants), self.label))
        except BaseException:
            if self._owns_device:
                self.device.close()
            raise

    def step(
        self,
        x: Floats,
        cache: PagedCache,
        angles: Angles = None,
        gate: Floats | None = None,
        *,
        schedule: Schedule,
        timed: bool = False,
    ) -> tuple[Floats, Floats, Floats]:
        """out, k and v, flat. The cache has been checked for types and shapes, not for its page numbers."""
        if schedule.barrier == "spin":
            raise BadInput("a GPU has no barrier to spin at", cure="leave barrier out")
        if wrong := complaint(cache, self.shape, schedule.wo_split):
            raise BadInput(wrong, cure="correct the cache or the schedule; nothing was computed")
        geometry = Geometry(
            batch=cache.batch,
            page_size=cache.k.shape[1],
            pages=len(cache.k),
            table_width=cache.table.shape[1],
            kv_type=cache.kv_type,
            rotary=angles is not None,
            gated=gate is not None,
            wo_split=schedule.wo_split,
            fc1_copies=copies_of(schedule.fc1),
        )
        self._arrange(geometry)
        self._send_cache(cache)
        self._write("inputs", packed_inputs(self._parts, x, cache, angles, gate))
        self.passes_ns = self.device.submit(self._program.steps, timestamps=timed)
        self.span_ns = self.device.span_ns
        return self._results()

    def hold(self, cache: PagedCache) -> None:
        """From now on a step with this cache sends only the tokens that `append` has added since the last one.

        Entries that are changed in place are not seen; hold it again after that.
        """
        self._held = HeldCache(cache)

    def close(self) -> None:
        """Gives every byte back. Safe to call again."""
        for buffer in (*self._step.values(), *self._weights.values()):
            self.device.release(buffer)
        self._step, self._weights = {}, {}
        if self._owns_device:
            self.device.close()

    def _arrange(self, geometry: Geometry) -> None:
        """Buffers and passes for this geometry; kept as long as it stays the same."""
        if geometry == self._geometry:
            return
        program = labelled(
            step_program(self.shape, self._pieces, geometry, binding_bytes=self._binding_bytes), self.label
        )
        self._geometry = None
        for buffer in self._step.values():
            self.device.release(buffer)
        self._step = {}
        self._step = self.device.allocate(program)
        self._program, self._parts, self._geometry = program, parts(self.shape, geometry), geometry
        if self._held is not None:
            self._held.forget()

    def _write(self, name: str, data: npt.NDArray[Any], offset_bytes: int = 0) -> None:
        self.device.write(self._step[self.label + name], data, offset_bytes)

    def _send_cache(self, cache: PagedCache) -> None:
        """All of it, or what a held cache has more than the device."""
        held = self._held if self._held is not None and self._held.cache is cache else None
        tokens = None if held is None else held.missing()
        if self._held is not None:
            self._held.forget()  # until everything is there
        for name, entries in (("k", cache.k), ("v", cache.v)):
            if tokens is None and entries.size:
                self._write(name, entries)
            for page, place in tokens or ():
                row_bytes = entries[page, place].nbytes
                self._write(name, entries[page, place], (page * entries.shape[1] + place) * row_bytes)
        if held is not None:
            held.sent()

    def _results(self) -> tuple[Floats, Floats, Floats]:
        raw = self.device.read(self._step[self.label + "results"], np.float32)
        out, own = self._parts.out, self._parts.own
        first = own.offset_bytes // 4
        k, v = np.split(raw[first:], 2) if self.shape.own_token else (raw[:0], raw[:0])
        return raw[: (out.size_bytes or 0) // 4], k, v


def packed_inputs(
    named: Parts, x: Floats, cache: PagedCache, angles: Angles, gate: Floats | None
) -> npt.NDArray[np.uint32]:
    """The buffer `inputs`, laid out as `parts` says."""
    filled = np.zeros(named.input_bytes // 4, np.uint32)

    def put(at: int, *arrays: npt.NDArray[Any]) -> None:
        for array in arrays:
            words = np.ascontiguousarray(array).reshape(-1).view(np.uint32)
            filled[at : at + len(words)] = words
            at += len(words)

    put(0, x)
    put(named.index.offset_bytes // 4, cache.lengths, cache.table)
    put(named.extras.offset_bytes // 4, *([gate] if gate is not None else []), *(angles or ()))
    return filled
