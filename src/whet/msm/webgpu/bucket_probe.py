"""Where a variant first goes wrong: bucket by bucket against a model in Python and against one thread per bucket.

`whet check msm walker --buckets` runs it. The answer names the bucket, its window and batch, the stage that is to blame
and the tasks that wrote it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from whet.gpu import Buffer, Device
from whet.msm import inputs as make
from whet.msm.validate import Limbs
from whet.msm.webgpu.bucket_model import SIGN, BucketModel, Piece
from whet.msm.webgpu.finish import gathered, kept_points, upload_points, upload_scalars, window_sums
from whet.msm.webgpu.geometry import MIN_TASK_ADDITIONS
from whet.msm.webgpu.kernels import Plant
from whet.msm.webgpu.knobs import Choice
from whet.msm.webgpu.plan import BatchSteps, Plan, build

Words = npt.NDArray[np.uint32]
SHOWN = 6


@dataclass(frozen=True)
class WrongBucket:
    """The first wrong one in the order of the device. `blamed` is the stage that the comparison points to."""

    batch: int
    window: int
    column: int
    points: int
    wrong: int
    plain_right: bool
    blamed: str
    pieces: tuple[Piece, ...]

    def lines(self) -> list[str]:
        digit, points = self.column + 1, f"{self.points:,} point{'' if self.points == 1 else 's'}"
        said = [
            f"bucket {self.column} (digit {digit} or -{digit}) of window {self.window}, batch {self.batch}: "
            f"the first of {self.wrong:,} wrong ones; it holds {points}",
            f"gpu_plain has it {'right' if self.plain_right else 'wrong too'}; to blame: {self.blamed}",
        ]
        if not self.pieces:
            return [*said, "written by classify: fewer than two points need no task"]
        shown = [f"task {one.task} (points {one.first} to {one.end - 1}, {one.kind})" for one in self.pieces[:SHOWN]]
        more = f" and {len(self.pieces) - SHOWN} more" if len(self.pieces) > SHOWN else ""
        return [*said, f"written by {', '.join(shown)}{more}"]


@dataclass(frozen=True)
class Probed:
    """What was compared, and the first thing that was wrong: a bucket, else a window."""

    buckets: int
    batches: int
    bucket: WrongBucket | None = None
    window: int | None = None

    @property
    def right(self) -> bool:
        return self.bucket is None and self.window is None

    def lines(self) -> list[str]:
        if self.bucket is not None:
            return self.bucket.lines()
        if self.window is not None:
            return [f"every bucket is right, window {self.window} is the first wrong sum; to blame: reduce or gather"]
        return []


@contextmanager
def loaded(device: Device, plan: Plan, points: Limbs) -> Iterator[dict[str, Buffer]]:
    """The buffers of a plan with the points in place."""
    buffers = device.allocate(plan.program)
    try:
        kept = kept_points(points, glv=plan.geometry.glv, compressed=plan.request.choice.compressed)
        for name, words in kept.items():
            device.write(buffers[name], words)
        yield buffers
    finally:
        for buffer in buffers.values():
            device.release(buffer)


def stepped(device: Device, plan: Plan, buffers: dict[str, Buffer], scalars: Limbs) -> Iterator[BatchSteps]:
    """Runs the batches one by one and stops where the bucket sums of each are on the device."""
    planes = upload_scalars(scalars, geometry=plan.geometry)
    for one in plan.batches:
        device.write(buffers["scalars"], planes[one.batch.first_word : one.batch.first_word + one.batch.words])
        device.submit(one.to_buckets)
        yield one
        device.submit(one.to_result)


def bucket_words(device: Device, plan: Plan, buffers: dict[str, Buffer], one: BatchSteps) -> Words:
    """The bucket sums of the batch that is on the device, (buckets, 16)."""
    size = 64 * one.batch.windows * plan.geometry.columns
    words: Words = device.read(buffers["buckets"], size_bytes=size).reshape(-1, 16)
    return words


def probe(
    device: Device,
    choice: Choice,
    logs: Sequence[int],
    scalars: Sequence[int],
    *,
    wide: bool = False,
    plant: Plant | None = None,
) -> Probed:
    """Compares every bucket and every window of one sum. `plant` changes kernels before they are used."""
    plan = build(len(logs), choice, wide=wide, plant=plant)
    model = BucketModel.of(plan.geometry, logs, scalars)
    points, limbs = make.points_from_logs(make.to_limbs(list(logs))), make.to_limbs(list(scalars))
    compared = 0
    with loaded(device, plan, points) as buffers:
        for number, one in enumerate(stepped(device, plan, buffers, limbs)):
            expected = model.buckets(one.batch)
            wrong = np.flatnonzero((bucket_words(device, plan, buffers, one) != expected).any(axis=1))
            compared += len(expected)
            if len(wrong):
                bucket = _described(plan, model, number, wrong)
                unsorted = _sort(device, plan, buffers, one, model)
                break
        else:
            window = _first_wrong_window(plan, device.read(buffers["result"]), model)
            return Probed(compared, len(plan.batches), window=window)
    # The device is free again: the reference needs its own buffers.
    geometry = plan.geometry
    reference = replace(choice, accumulator="gpu_plain", c=geometry.window_bits, batches=geometry.batch_count)
    seen = _buckets_of(device, build(len(logs), reference, wide=wide), (points, limbs), bucket.batch)
    right = np.array_equal(seen[wrong[0]], expected[wrong[0]])
    bucket = replace(bucket, plain_right=right, blamed=unsorted or bucket.blamed)
    return Probed(compared, len(plan.batches), bucket)


def _described(plan: Plan, model: BucketModel, number: int, wrong: npt.NDArray[np.intp]) -> WrongBucket:
    batch, planned = plan.batches[number].batch, plan.request.choice.planned
    place = model.places(batch)[int(wrong[0])]
    pieces = tuple(model.pieces(batch, place, MIN_TASK_ADDITIONS)) if planned else ()
    count = len(model.handles.get(place, ()))
    return WrongBucket(number, *place, count, len(wrong), True, _stage(count, pieces, planned), pieces)


def _first_wrong_window(plan: Plan, result: npt.NDArray[Any], model: BucketModel) -> int | None:
    _, off_curve = gathered(plan.geometry, result)
    if off_curve is not None:
        return off_curve
    x, y = upload_points(window_sums(plan.geometry, result))
    found = np.concatenate([x.reshape(-1, 8), y.reshape(-1, 8)], axis=1)
    wrong = np.flatnonzero((found != model.windows()).any(axis=1))
    return int(wrong[0]) if len(wrong) else None


def _buckets_of(device: Device, plan: Plan, inputs: tuple[Limbs, Limbs], batch: int) -> Words:
    """The bucket sums of one batch."""
    points, limbs = inputs
    with loaded(device, plan, points) as buffers:
        steps = stepped(device, plan, buffers, limbs)
        return next(bucket_words(device, plan, buffers, one) for at, one in enumerate(steps) if at == batch)


def _sort(device: Device, plan: Plan, buffers: dict[str, Buffer], one: BatchSteps, model: BucketModel) -> str:
    """Which stage of the sort left something that the model does not have; empty where there is nothing."""
    geometry, windows = plan.geometry, one.batch.windows
    line = geometry.columns + 1
    starts = device.read(buffers["starts"], size_bytes=4 * windows * line).reshape(windows, line)
    counts = np.array(model.counts(one.batch)).reshape(windows, -1)
    expected = np.concatenate([np.zeros((windows, 1), np.int64), counts.cumsum(axis=1)], axis=1)
    if (starts != expected).any():
        window, column = (int(at[0]) for at in np.nonzero(starts != expected))
        return f"count, columns or starts (start of bucket {column} of window {window + one.batch.first_window})"
    handles = device.read(buffers["handles"], size_bytes=4 * windows * geometry.rows).reshape(windows, -1)
    for window, column in model.places(one.batch):
        row, local = starts[window - one.batch.first_window], window - one.batch.first_window
        found = sorted(handles[local, row[column] : row[column + 1]].tolist())
        if found != sorted(model.handles.get((window, column), ())):
            return f"scatter (handles of bucket {column} of window {window}: {_spelled(found)})"
    return ""


def _stage(count: int, pieces: Sequence[Piece], planned: bool) -> str:
    if not planned:
        return "accumulate"
    if count < 2:
        return "classify, or a task that wrote where it should not"
    if len(pieces) == 1:
        return "accumulate"
    return "accumulate, combine or store: the bucket goes over several tasks"


def _spelled(handles: Sequence[int]) -> str:
    words = [f"{'-' if handle & SIGN else ''}{handle & ~SIGN}" for handle in handles[:SHOWN]]
    return ", ".join(words) + (", ..." if len(handles) > SHOWN else "") if words else "none"
