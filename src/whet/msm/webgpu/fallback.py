"""The device's answer where it can give one, else the CPU's with the reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from whet.errors import DeviceError, Unsupported
from whet.msm.affine import Affine, Event, Progress
from whet.msm.validate import Limbs
from whet.msm.variants import AffineSums, Answer
from whet.msm.webgpu.sums import WebGpuSums
from whet.protocol import MemoryRow

T = TypeVar("T")


class WithFallback:
    """Tries the device in every call; `reason` says why the last call was answered by the CPU, None if it was not.

    The CPU's points are prepared when they are first needed. A wrong point cannot come of it: either side raises or is
    right, and only typed faults of the device lead to the other side.
    """

    def __init__(self, on_device: Callable[[], WebGpuSums], points: Limbs) -> None:
        self._make_device = on_device
        self._points = points
        self._device: WebGpuSums | None = None
        self._cpu: AffineSums | None = None
        self.reason: str | None = None
        self._try(lambda sums: sums)

    def compute(
        self, scalars: Limbs, offset: int, *, cancel: Event | None = None, progress: Progress | None = None
    ) -> Answer:
        answer = self._try(lambda sums: sums.compute(scalars, offset, cancel=cancel, progress=progress))
        if answer is not None:
            return answer
        return self._on_cpu().compute(scalars, offset, cancel=cancel, progress=progress)

    def batch(self, vectors: Sequence[Limbs], offset: int = 0, *, cancel: Event | None = None) -> list[Answer]:
        answers = self._try(lambda sums: sums.batch(vectors, offset, cancel=cancel))
        if answers is not None:
            return answers
        return [self._on_cpu().compute(scalars, offset, cancel=cancel) for scalars in vectors]

    def close(self) -> None:
        for side in (self._device, self._cpu):
            if side is not None:
                side.close()

    def memory_map(self, n: int, *, scalar_bits: int) -> list[MemoryRow]:
        """Of a call on the side that gave the last answer."""
        rows = self._try(lambda sums: sums.memory_map(n)) if self.reason is None else None
        return self._on_cpu().memory_map(n, scalar_bits=scalar_bits) if rows is None else rows

    def ledger(self) -> Mapping[str, int]:
        """What the side that gave the last answer holds now."""
        if self.reason is None and self._device is not None:
            return self._device.ledger()
        return self._on_cpu().native.ledger()

    def _on_cpu(self) -> AffineSums:
        if self._cpu is None:
            self._cpu = AffineSums(Affine.prepared(self._points))
        return self._cpu

    def _try(self, use: Callable[[WebGpuSums], T]) -> T | None:
        try:
            if self._device is None:
                self._device = self._make_device()
            answer = use(self._device)
        except (DeviceError, Unsupported) as error:
            self.reason = str(error)
            return None
        self.reason = None
        return answer
