"""The process that knows the answers: `python -m whet.evidence.referee CHANNEL INPUTS OUTPUTS...`.

It makes the inputs from seeds that no variant sees, keeps a private copy of them, poisons outputs, asks the oracle and
judges the snapshots. No variant ever runs here.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from whet.errors import BadInput
from whet.evidence import buffers
from whet.evidence.agreement import conform, disagreement
from whet.evidence.child import ask, map_bytes, serve
from whet.evidence.registry import load
from whet.protocol import Array, Arrays, Case, Engine, Output


class Referee:
    """Owns the inputs arena and looks into every variant's outputs arena."""

    def __init__(self, inputs_fd: int, outputs_fds: list[int]) -> None:
        self._inputs_fd, self._outputs_fds = inputs_fd, outputs_fds
        self._engine: Engine | None = None
        self._repeat = 0

    @property
    def engine(self) -> Engine:
        assert self._engine is not None
        return self._engine

    def load(self, ref: str) -> dict[str, Any]:
        self._engine = load(ref).engine
        return {}

    def open(self, case: dict[str, Any], fixed_seed: int, probe_seed: int, slots: int) -> dict[str, Any]:
        self._case, self._fixed_seed = msgspec.convert(case, Case), fixed_seed
        self._fixed = self._made("fixed", fixed_seed)
        start = time.monotonic_ns()
        probe = self._made("prepare", probe_seed)
        prepare_ns = time.monotonic_ns() - start
        if digest_of(self._made("prepare", probe_seed)) != digest_of(probe):
            raise BadInput(
                f"prepare() of engine {self.engine.name} is not deterministic: one seed gave two inputs",
                cure="draw everything from numpy.random.default_rng(seed)",
            )
        if twice := set(probe) & set(self._fixed):
            raise BadInput(f"fixed() and prepare() both make {sorted(twice)}", cure="give each input one maker")
        self._shapes = self._output_shapes()
        self._inputs = buffers.lay_out([_shapes_of(self._fixed), *[_shapes_of(probe)] * slots])
        self._outputs = buffers.lay_out([self._shapes] * slots)
        self._in = map_bytes(self._inputs_fd, self._inputs.size_bytes, writeable=True)
        size_bytes = 2 * self._outputs.size_bytes
        self._out = [map_bytes(fd, size_bytes, writeable=True) for fd in self._outputs_fds]
        buffers.set_guards(self._in, self._inputs)
        _copy_into(buffers.views(self._in, self._inputs.groups[0]), self._fixed)
        return {
            "inputs": msgspec.to_builtins(self._inputs),
            "outputs": msgspec.to_builtins(self._outputs),
            "output_bytes": _size_of(self._outputs.groups[0]),
            "slot_bytes": _size_of(self._inputs.groups[1]) + 2 * len(self._out) * _size_of(self._outputs.groups[0]),
            "prepare_ns": prepare_ns,
        }

    def refill(self, seeds: list[int]) -> dict[str, Any]:
        """New contents at the old addresses, and every output poisoned with a pattern of this repeat."""
        self._repeat += 1
        self._word = buffers.poison_word(self._repeat)
        self._seeds = seeds
        self._prepared = [self._made("prepare", seed) for seed in seeds]
        for given, fields in zip(self._prepared, self._inputs.groups[1:], strict=False):
            _copy_into(buffers.views(self._in, fields), given)
        half = self._outputs.size_bytes
        for memory in self._out:
            buffers.set_guards(memory, self._outputs)
            for fields in self._outputs.groups[: len(seeds)]:
                for field in fields:
                    buffers.fill(buffers.bytes_of(memory, field), self._word)
                    buffers.fill(buffers.bytes_of(memory, field, half), self._word)
        self._expected: dict[int, dict[str, Array]] = {}
        return {}

    def inputs_kept(self) -> dict[str, Any]:
        """Compares the shared inputs with the private ones, and puts them right again for the next variant."""
        made = [self._fixed, *self._prepared]
        pairs = [
            (place, arrays[name])
            for fields, arrays in zip(self._inputs.groups, made, strict=False)
            for name, place in buffers.views(self._in, fields).items()
        ]
        changed = [(place, array) for place, array in pairs if not _same_bytes(place, array)]
        for place, array in changed:
            np.copyto(place, array)
        return {"kept": not changed}

    def judge(self, calls: dict[str, int], full: bool) -> dict[str, Any]:
        """Judges the variants that ran, by index. `full` asks the oracle; otherwise they check each other."""
        start = time.monotonic_ns()
        if full:
            for slot in range(max(calls.values(), default=0)):
                self._expect(slot)
        oracle_ns = time.monotonic_ns() - start
        used = {int(index): count for index, count in calls.items()}
        reports = {index: self._report(index, count) for index, count in used.items()}
        if not full and (suspects := self._dissent(used, reports)):
            for slot in range(max(used.values())):
                self._expect(slot)
            reports |= {index: self._report(index, used[index]) for index in suspects}
        return {"reports": {str(index): report for index, report in reports.items()}, "oracle_ns": oracle_ns}

    def save(self, index: int, slot: int, path: str) -> dict[str, Any]:
        """Writes inputs, expected and got of one slot for later study."""
        self._expect(slot)
        parts = {f"input_{name}": value for name, value in {**self._fixed, **self._prepared[slot]}.items()}
        parts |= {f"expected_{name}": value for name, value in self._expected[slot].items()}
        parts |= {f"got_{name}": value for name, value in self._snapshot(index, slot).items()}
        with open(path, "wb") as file:  # noqa: PTH123  (savez would append a suffix to a path)
            np.savez_compressed(file, allow_pickle=False, **parts)
        return {}

    def _report(self, index: int, calls: int) -> dict[str, Any]:
        memory, half = self._out[index], self._outputs.size_bytes
        fields = [field for group in self._outputs.groups[:calls] for field in group]
        snapshot = [buffers.bytes_of(memory, field, half) for field in fields]
        report: dict[str, Any] = {"digest": buffers.digest(snapshot), "reason": "", "slot": 0}
        late = any(
            not np.array_equal(buffers.bytes_of(memory, field), taken)
            for field, taken in zip(fields, snapshot, strict=True)
        )
        if broken := buffers.broken_guard(memory[:half], self._outputs):
            return report | {"reason": "out of bounds", "detail": f"the variant wrote over {broken}"}
        for slot in range(calls):
            if slot in self._expected and (found := self._compare(index, slot, self._expected[slot])):
                if late:
                    found |= {
                        "reason": "late write",
                        "detail": f"the output went on changing after the timer stopped; then {found['detail']}",
                    }
                return report | found | {"slot": slot}
        if late:
            return report | {"reason": "late write", "detail": "the output changed after the timer stopped"}
        return report

    def _compare(self, index: int, slot: int, expected: Arrays, slack: float = 1.0) -> dict[str, Any] | None:
        half = self._outputs.size_bytes
        for name, got in self._snapshot(index, slot).items():
            found = disagreement(name, got, expected[name], self.engine.tolerance, slack=slack)
            if found is None:
                continue
            field = next(field for field in self._outputs.groups[slot] if field.name == name)
            unwritten = buffers.share_filled_with(buffers.bytes_of(self._out[index], field, half), self._word)
            reason, detail = found.reason, found.detail
            if unwritten > 0:
                reason, detail = "not written", f"{unwritten:.0%} of {name!r} was not written; {detail}"
            return {"reason": reason, "detail": detail, "expected": found.expected, "got": found.got}
        return None

    def _dissent(self, used: Mapping[int, int], reports: Mapping[int, dict[str, Any]]) -> list[int]:
        """Without the oracle, every variant must agree with the first one on the slots that both ran."""
        first, *others = used
        for other in others:
            for slot in range(min(used[first], used[other])):
                if self._compare(other, slot, self._snapshot(first, slot), slack=2.0):
                    return list(used)
        return [index for index in used if reports[index]["reason"]]

    def _snapshot(self, index: int, slot: int) -> dict[str, Array]:
        return buffers.views(self._out[index], self._outputs.groups[slot], self._outputs.size_bytes)

    def _expect(self, slot: int) -> None:
        if slot not in self._expected:
            inputs = {**self._fixed, **{name: value.copy() for name, value in self._prepared[slot].items()}}
            answer = ask(self.engine, "oracle", self._case, self._fixed_seed, self._seeds[slot], inputs)
            self._expected[slot] = conform(answer, self._shapes)

    def _made(self, method: str, seed: int) -> dict[str, Array]:
        made = ask(self.engine, method, self._case, seed)
        if not isinstance(made, Mapping):
            raise BadInput(f"{method}() of engine {self.engine.name} gave no dict", cure="return {name: array}")
        arrays = {str(name): np.ascontiguousarray(value).view() for name, value in made.items()}
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


def _size_of(fields: list[buffers.Field]) -> int:
    return sum(field.size_bytes + buffers.GUARD_BYTES for field in fields)


def _copy_into(places: Arrays, arrays: Arrays) -> None:
    for name, place in places.items():
        array = arrays.get(name)
        if array is None or array.shape != place.shape or array.dtype != place.dtype:
            raise BadInput(
                f"input {name!r} changes its shape or type with the seed", cure="let shapes depend on the case alone"
            )
        np.copyto(place, array)


def limit_memory() -> None:
    """A size beyond the machine must end in MemoryError here, not in the kernel killing a neighbour."""
    import psutil

    room = psutil.virtual_memory().available * 9 // 10
    resource.setrlimit(resource.RLIMIT_DATA, (room, resource.getrlimit(resource.RLIMIT_DATA)[1]))


def main() -> None:
    channel, inputs, *outputs = map(int, sys.argv[1:])
    limit_memory()
    referee = Referee(inputs, outputs)
    serve(
        channel, {name: getattr(referee, name) for name in ("load", "open", "refill", "inputs_kept", "judge", "save")}
    )


if __name__ == "__main__":
    main()
