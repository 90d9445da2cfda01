"""The process that knows the answers. It loads the task, makes inputs from seeds that no variant sees, and asks the
oracle. No variant runs here, and nothing is compared here: that is the judge's work.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from whet.errors import BadInput
from whet.evidence import buffers, messages
from whet.evidence.agreement import conform
from whet.evidence.messages import Done, Draw, Expect, Expected, IsKept, Kept, Layout, Load, Measure, Measured, Reveal
from whet.evidence.registry import load
from whet.evidence.serving import answer_requests, ask, limit_memory, map_bytes, memory_share, plain_arithmetic
from whet.evidence.system import Granted
from whet.protocol import Array, Arrays, Engine, Output


class Referee:
    """Makes inputs and expected values, and writes both where others read them."""

    def __init__(self, engine: Engine | None = None) -> None:
        self._engine = engine

    @property
    def engine(self) -> Engine:
        assert self._engine is not None
        return self._engine

    def load(self, asked: Load) -> Done:
        self._engine = load(asked.ref).engine
        return Done()

    def measure(self, asked: Measure) -> Measured:
        self._case, self._fixed_seed = asked.case, asked.fixed_seed
        plain_arithmetic()
        self._fixed = self._made("fixed", asked.fixed_seed)
        probe = self._made("prepare", asked.probe_seed)
        # Not the first one, which may import a library: how many calls make a turn depends on this.
        start = time.monotonic_ns()
        again = self._made("prepare", asked.probe_seed)
        prepare_ns = time.monotonic_ns() - start
        if digest_of(again) != digest_of(probe):
            raise BadInput(
                f"prepare() of engine {self.engine.name} is not deterministic: one seed gave two inputs",
                cure="draw everything from numpy.random.default_rng(seed)",
            )
        if twice := set(probe) & set(self._fixed):
            raise BadInput(f"fixed() and prepare() both make {sorted(twice)}", cure="give each input one maker")
        start = time.monotonic_ns()
        self._shapes = self._output_shapes()
        described_ns = time.monotonic_ns() - start
        layout = Layout(
            case=asked.case,
            fixed=buffers.lay_out([_shapes_of(self._fixed)]),
            inputs=buffers.lay_out([_shapes_of(probe)] * asked.slots),
            outputs=buffers.lay_out([self._shapes] * asked.slots),
            prepare_ns=prepare_ns,
        )
        return Measured(layout=layout, described_ns=described_ns)

    def open(self, layout: Layout, fds: list[int]) -> Done:
        """`fds`: fixed inputs, expected values, then the inputs of each arm."""
        self._layout = layout
        fixed = map_bytes(fds[0], layout.fixed.size_bytes, writeable=True)
        self._expected = map_bytes(fds[1], layout.outputs.size_bytes, writeable=True)
        self._inputs = [map_bytes(fd, layout.inputs.size_bytes, writeable=True) for fd in fds[2:]]
        _copy_into(buffers.views(fixed, layout.fixed.groups[0]), self._fixed)
        for memory in self._inputs:
            buffers.set_guards(memory, layout.inputs)
        return Done()

    def draw(self, asked: Draw) -> Done:
        start = time.monotonic_ns()
        self._seeds = asked.seeds
        self._prepared = [self._made("prepare", seed) for seed in asked.seeds]
        self._answers: dict[int, dict[str, Array]] = {}
        return Done(spent_ns=time.monotonic_ns() - start)

    def reveal(self, asked: Reveal) -> Done:
        memory = self._inputs[asked.arm]
        for slot in asked.slots:
            _copy_into(buffers.views(memory, self._layout.inputs.groups[slot]), self._prepared[slot])
        return Done()

    def kept(self, asked: Kept) -> IsKept:
        """Compares an arm's inputs with the private ones."""
        memory = self._inputs[asked.arm]
        return IsKept(
            kept=all(
                _same_bytes(place, given[name])
                for given, fields in zip(self._prepared, self._layout.inputs.groups, strict=False)
                for name, place in buffers.views(memory, fields).items()
            )
        )

    def expect(self, asked: Expect) -> Expected:
        start = time.monotonic_ns()
        changed: set[str] = set()
        plain_arithmetic()
        for slot in asked.slots:
            if slot not in self._answers:
                given = self._prepared[slot]
                lent = {name: value.copy() for name, value in given.items()}
                inputs = {**self._fixed, **lent}
                answer = ask(self.engine, "oracle", self._case, self._fixed_seed, self._seeds[slot], inputs)
                self._answers[slot] = conform(answer, self._shapes)
                if asked.watch:
                    changed |= {name for name, value in lent.items() if not _same_bytes(value, given[name])}
            _copy_into(buffers.views(self._expected, self._layout.outputs.groups[slot]), self._answers[slot])
        return Expected(spent_ns=time.monotonic_ns() - start, changed=sorted(changed))

    def _made(self, method: str, seed: int) -> dict[str, Array]:
        made = ask(self.engine, method, self._case, seed)
        if not isinstance(made, Mapping):
            raise BadInput(f"{method}() of engine {self.engine.name} gave no dict", cure="return {name: array}")
        arrays = {str(name): np.asarray(value, order="C").view() for name, value in made.items()}
        for name, array in arrays.items():
            buffers.spell_dtype(array.dtype, name)
            array.flags.writeable = False
        return arrays

    def _output_shapes(self) -> dict[str, Output]:
        shapes = dict(ask(self.engine, "outputs", self._case))
        if not shapes or not all(isinstance(output, Output) for output in shapes.values()):
            raise BadInput(f"outputs() of engine {self.engine.name} names no Output", cure="return {name: Output(...)}")
        for name, output in shapes.items():
            buffers.spell_dtype(np.dtype(output.dtype), name)
        return shapes


def digest_of(arrays: Arrays) -> str:
    return buffers.digest(
        part for name in sorted(arrays) for part in (np.frombuffer(name.encode(), "u1"), arrays[name])
    )


def _shapes_of(arrays: Arrays) -> dict[str, Output]:
    return {name: Output(array.shape, array.dtype) for name, array in arrays.items()}


def _same_bytes(one: Array, other: Array) -> bool:
    return np.array_equal(one.reshape(-1).view(np.uint8), other.reshape(-1).view(np.uint8))


def _copy_into(places: Arrays, arrays: Arrays) -> None:
    for name, place in places.items():
        array = arrays.get(name)
        if array is None or array.shape != place.shape or array.dtype != place.dtype:
            raise BadInput(
                f"input {name!r} changes its shape or type with the seed", cure="let shapes depend on the case alone"
            )
        np.copyto(place, array)


def serve(channel_fd: int, pid: int, granted: Granted) -> None:
    limit_memory(memory_share(1))
    referee = Referee()
    handlers: dict[type[messages.Request], Any] = {
        Load: referee.load,
        Measure: referee.measure,
        Layout: referee.open,
        Draw: referee.draw,
        Reveal: referee.reveal,
        Kept: referee.kept,
        Expect: referee.expect,
    }
    answer_requests(channel_fd, messages.ToReferee, handlers, pid, granted)
