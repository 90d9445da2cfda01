"""From sizes and knobs to a program: pure Python, no device. See README.md for the stages.

`build` gives a `Plan`: the program, its batches and what the host needs to feed it and to finish. A runner that has all
scalars on the device runs `plan.program.steps` as one submission. A plan whose scalars are `sliced` is run batch by
batch: write the batch's planes into `scalars`, then submit its steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from whet.gpu.program import Clear, Copy, Program, Step
from whet.msm.webgpu.geometry import Batch, Geometry, Records
from whet.msm.webgpu.kernels import Plant, Templates, render, templates
from whet.msm.webgpu.knobs import Choice
from whet.msm.webgpu.layout import COUNTERS, FIRST_COUNTER, TALLY_WORDS
from whet.msm.webgpu.memory import fit
from whet.msm.webgpu.passes import Dispatch, to_buckets, to_result
from whet.msm.webgpu.request import Request
from whet.msm.webgpu.sizes import COUNTER_BYTES, POINT_BYTES, buffer_sizes


@dataclass(frozen=True)
class BatchSteps:
    """One batch: the planes of the scalars that it reads, its steps up to the bucket sums, and the rest."""

    batch: Batch
    to_buckets: tuple[Step, ...]
    to_result: tuple[Step, ...]

    @property
    def steps(self) -> tuple[Step, ...]:
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
    `multiply=auto` means: 64-bit integers or not.
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
        steps = tuple(step for one in batches for step in one.steps)
        return Plan(self.request, self.geometry, Program(sizes, steps, {"params": params}), tuple(batches))

    def _batch(self, number: int, batch: Batch) -> BatchSteps:
        before: list[Step] = [Clear("tally", 0, 4 * TALLY_WORDS)] if number == 0 else []
        sums = to_buckets(self.geometry, self.choice, batch.windows)
        after = [self._pass(one, batch) for one in to_result(self.geometry, batch.windows)]
        if number == self.geometry.batch_count - 1:
            target = POINT_BYTES * self.geometry.all_windows * self.geometry.window_bits
            after.append(Copy("tally", "result", COUNTER_BYTES, 4 * FIRST_COUNTER, target))
        return BatchSteps(batch, tuple(before + [self._pass(one, batch) for one in sums]), tuple(after))

    def _pass(self, one: Dispatch, batch: Batch) -> Step:
        """A pass with a parameter record of its own; equal records are one."""
        request = self.request
        row = self.geometry.record(
            batch, resident=request.resident, offset=request.offset, slots=self.choice.slots, **one.step
        )
        return self.passes[one.name].at(one.name, self.records.place(row), one.workgroups)
