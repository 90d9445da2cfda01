"""From sizes and knobs to a program: pure Python, no device. See README.md for the stages.

`build` gives a `Plan`: the program, its batches and what the host needs to feed it and to finish. Scalars are an input
of the program; where they are `sliced`, they are an upload of which each batch writes the planes that it reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from whet.gpu.program import Clear, Command, Copy, Pass, Program, Write
from whet.msm.webgpu.estimate import pass_ns
from whet.msm.webgpu.geometry import Batch, Geometry, Records
from whet.msm.webgpu.kernels import Plant, Templates, render, templates
from whet.msm.webgpu.knobs import Choice
from whet.msm.webgpu.layout import COUNTERS, FIRST_COUNTER, TALLY_WORDS
from whet.msm.webgpu.memory import fit
from whet.msm.webgpu.passes import Dispatch, to_buckets, to_points, to_result
from whet.msm.webgpu.request import Request
from whet.msm.webgpu.sizes import COUNTER_BYTES, POINT_BYTES, buffer_sizes

Words = npt.NDArray[np.uint32]
PLANES = "planes"  # of all scalars, on the host


@dataclass(frozen=True)
class BatchSteps:
    """One batch: what is written before it if scalars are sliced, its steps up to the bucket sums, and the rest."""

    batch: Batch
    writes: tuple[Write, ...]
    to_buckets: tuple[Command, ...]
    to_result: tuple[Command, ...]

    @property
    def steps(self) -> tuple[Command, ...]:
        return self.to_buckets + self.to_result


@dataclass(frozen=True)
class Plan:
    """A program with what the host needs to know about it. `program.buffers` has every byte but the staging."""

    request: Request
    geometry: Geometry
    program: Program
    batches: tuple[BatchSteps, ...]

    @property
    def sliced(self) -> bool:
        return self.geometry.sliced

    @property
    def result_bytes(self) -> int:
        """What is read back: c points per window, then the work counters. Also the size of the staging buffer."""
        return self.program.buffers["result"]

    def scalars(self, planes: Words) -> dict[str, Words]:
        """The scalars of all vectors as the input of the program that they are: a buffer, or an upload if sliced."""
        return {PLANES if self.sliced else "scalars": planes}

    def counters(self, result: npt.NDArray[Any]) -> dict[str, int]:
        """The work counters at the end of a result."""
        words = result.view(np.uint32)[-COUNTER_BYTES // 4 :]
        return {name: int(words[i]) for i, name in enumerate(COUNTERS)}


def build(
    n: int,
    choice: Choice | None = None,
    *,
    limits: Mapping[str, int] | None = None,
    memory_budget: int | None = None,
    resident: int | None = None,
    offset: int = 0,
    vectors: int = 1,
    wide: bool = False,
    plant: Plant | None = None,
) -> Plan:
    """The program for n points from `offset` on among `resident` ones, for `vectors` lists of scalars.

    `limits` are those of the device (browser's floor by default). `memory_budget` is in bytes, points and staging
    included; of the ways to cut it that fit, the one that `estimate` calls fastest is taken. `wide` is what
    `multiply=auto` means: 64-bit integers or not. With `points=compressed` the program begins with the roots of its n
    points: all x and signs are resident, but no other y.
    """
    resident = n if resident is None else resident
    request = Request(n, choice or Choice(), resident, offset, vectors, memory_budget, limits or {})
    geometry = fit(request)
    multiply_wide = request.choice.multiply == "wide" or (request.choice.multiply == "auto" and wide)
    if plant is not None:
        passes = render(request.choice, multiply_wide, plant)
    else:
        passes = templates(request.choice.kernels(), multiply_wide)
    return _Assembly(request, geometry, passes).plan()


class _Assembly:
    """Lines up the passes of all batches and collects their parameters."""

    def __init__(self, request: Request, geometry: Geometry, passes: Templates) -> None:
        self.request = request
        self.choice = request.choice
        self.geometry = geometry
        self.passes = passes
        self.records = Records()

    def plan(self) -> Plan:
        batches = [self._batch(number, batch) for number, batch in enumerate(self.geometry.batches)]
        sizes = buffer_sizes(self.geometry, self.choice, self.request.resident)
        params = np.zeros(sizes["params"] // 4, np.uint32)
        rows = self.records.array()
        params[: len(rows)] = rows
        steps = tuple(step for one in batches for step in (*one.writes, *one.steps))
        uploads = {PLANES: 4 * self.geometry.all_words * self.geometry.rows} if self.geometry.sliced else {}
        program = Program(sizes, steps, {"params": params}, uploads)
        return Plan(self.request, self.geometry, program, tuple(batches))

    def _batch(self, number: int, batch: Batch) -> BatchSteps:
        before: list[Command] = []
        if number == 0:
            roots = to_points(self.geometry) if self.choice.compressed else []
            before = [Clear("tally", 0, 4 * TALLY_WORDS), *(self._pass(one, batch) for one in roots)]
        sums = to_buckets(self.geometry, self.choice, batch.windows)
        after: list[Command] = [self._pass(one, batch) for one in to_result(self.geometry, batch.windows)]
        if number == self.geometry.batch_count - 1:
            target = POINT_BYTES * self.geometry.all_windows * self.geometry.window_bits
            after.append(Copy("tally", "result", COUNTER_BYTES, 4 * FIRST_COUNTER, target))
        return BatchSteps(
            batch, self._writes(batch), (*before, *(self._pass(one, batch) for one in sums)), tuple(after)
        )

    def _writes(self, batch: Batch) -> tuple[Write, ...]:
        if not self.geometry.sliced:
            return ()
        plane_bytes = 4 * self.geometry.rows
        return (Write(PLANES, "scalars", batch.words * plane_bytes, batch.first_word * plane_bytes),)

    def _pass(self, one: Dispatch, batch: Batch) -> Pass:
        """A pass with a parameter record of its own; equal records are one."""
        request = self.request
        row = self.geometry.record(
            batch,
            resident=request.resident,
            offset=request.offset,
            first_y=request.offset if self.choice.compressed else 0,
            slots=self.choice.slots,
            **one.step,
        )
        made = self.passes[one.name].at(one.name, self.records.place(row), one.workgroups)
        return replace(made, cost_ns=pass_ns(one.additions))
