"""The device's answer where it can give one, else the CPU's with the reason."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from whet.errors import DeviceError, Unsupported
from whet.msm.affine import Event, Progress
from whet.msm.validate import Limbs
from whet.msm.variants import Answer, Prepared
from whet.msm.webgpu.sums import WebGpuSums

T = TypeVar("T")


class WithFallback:
    """Tries the device in every call; `reason` says why the last call was answered by the CPU, None if it was not.

    The CPU's points are prepared when they are first needed. A wrong point cannot come of it: either side raises or is
    right, and only typed faults of the device lead to the other side.
    """

    def __init__(self, on_device: Callable[[], WebGpuSums], on_cpu: Callable[[], Prepared]) -> None:
        self._make_device = on_device
        self._make_cpu = on_cpu
        self._device: WebGpuSums | None = None
        self._cpu: Prepared | None = None
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

    def _on_cpu(self) -> Prepared:
        if self._cpu is None:
            self._cpu = self._make_cpu()
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
