"""Which cuts of a sum into batches there are, whatever they cost.

A cut is the number of windows in a batch. Only those that share the windows evenly count: about twice the root of all
windows. What a batch needs grows with its windows, so the largest that a device admits is found by bisection.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

from whet.errors import DeviceOutOfMemory
from whet.gpu.adapter import BROWSER_FLOOR
from whet.msm.webgpu.geometry import Geometry, require_window_bits, window_bits
from whet.msm.webgpu.passes import to_buckets, to_result
from whet.msm.webgpu.request import Request
from whet.msm.webgpu.sizes import buffer_sizes

BINDING, GROUPS = "max-storage-buffer-binding-size", "max-compute-workgroups-per-dimension"


class Cuts:
    """The cuts of one request, scalars whole or in slices, that the device's limits admit."""

    def __init__(self, request: Request) -> None:
        choice = request.choice
        rows = 2 * request.n if choice.glv else request.n
        c = require_window_bits(choice.c or window_bits(rows, glv=choice.glv))
        tasks = choice.most_tasks(rows), choice.group_tasks
        self.request = request
        self.whole = Geometry(request.n, c, choice.glv, request.vectors, 1, False, *tasks)
        self._binding = request.limits.get(BINDING, BROWSER_FLOOR[BINDING])
        self._groups = request.limits.get(GROUPS, BROWSER_FLOOR[GROUPS])

    def of(self, *, sliced: bool = False, most_bytes: int | None = None) -> Iterator[Geometry]:
        """The fewest batches first. Those whose growing buffers alone are over `most_bytes` are passed over."""
        forced, windows = self.request.choice.batches, self.whole.all_windows
        counts = range(1, windows + 1)
        if sliced and not self.may_slice:
            return
        if forced:
            counts = range(min(forced, windows), min(forced, windows) + 1)

        def small_enough(count: int) -> bool:
            return self._admits(self._cut(count, sliced), most_bytes)

        if small_enough(counts[0]):
            first = 0
        else:
            first = bisect_left(counts, True, key=small_enough) if small_enough(counts[-1]) else len(counts)
        while first < len(counts):
            geometry = self._cut(counts[first], sliced)
            if max(buffer_sizes(geometry, self.request.choice, self.request.resident).values()) <= self._binding:
                yield geometry
            if geometry.batch_windows == 1:
                return
            first = -(-windows // (geometry.batch_windows - 1)) - counts[0]

    @property
    def may_slice(self) -> bool:
        """Only under a budget: each batch's words of the scalars take a write of their own."""
        request = self.request
        return not request.choice.glv and request.vectors == 1 and request.memory_budget is not None

    def none(self) -> DeviceOutOfMemory:
        """Why there is no cut at all."""
        request = self.request
        several = f"{request.vectors:,} vectors of " if request.vectors > 1 else ""
        return DeviceOutOfMemory(
            f"{several}{request.n:,} points need a binding of more than {self._binding:,} bytes "
            f"or more than {self._groups:,} workgroups at once",
            cure="use fewer points or vectors, more batches or a device with larger limits",
        )

    def _cut(self, count: int, sliced: bool) -> Geometry:
        return replace(self.whole, batch_count=count, sliced=sliced)

    def _admits(self, geometry: Geometry, most_bytes: int | None) -> bool:
        """Whether the passes of the largest batch, and the buffers that do not shrink with it, are small enough."""
        choice, windows = self.request.choice, geometry.batch_windows
        sizes = buffer_sizes(geometry, choice, self.request.resident)
        falling = ("params", "scalars") if geometry.sliced else ("params",)
        growing = [size for name, size in sizes.items() if name not in falling]
        if max(growing) > self._binding or (most_bytes is not None and sum(growing) + sizes["result"] > most_bytes):
            return False
        passes = chain(to_buckets(geometry, choice, windows), to_result(geometry, windows))
        return all(max(one.workgroups) <= self._groups for one in passes)
