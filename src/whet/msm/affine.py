"""The fast engine as a variant: batch-affine sums on the best kernel of this CPU. See native/msm/README.md.

`backend` is ifma, avx2, adx, portable or auto; the environment variable WHET_MSM_BACKEND decides what auto means.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Protocol, Self

from whet._native import msm as native
from whet.msm.trace import Step
from whet.msm.validate import Limbs
from whet.protocol import MemoryRow

BACKENDS = ("auto", "ifma", "avx2", "adx", "portable")
OVERRIDE = "WHET_MSM_BACKEND"
LONGEST_SHORT_SCALAR_BITS = 127  # longer scalars all have the same plan
MULTIPLES_AT_ONCE = 1 << 12  # points; about a tenth of a second
STAGES = ("scan", "digits", "sort", "buckets", "rows", "bits", "finish")


class Event(Protocol):
    """Anything like threading.Event: a call that is given one stops soon after it is set."""

    def is_set(self) -> bool: ...


Progress = Callable[[float], object]


class Affine:
    """Prepared points on one kernel. Calls from several threads take turns, each with all `threads`; where so many come
    at once that a thread each keeps more cores busy, they run beside each other.
    """

    def __init__(
        self, backend: str = "auto", threads: int | None = None, windows: int = 0, precompute: int = 1
    ) -> None:
        self._native = native.AffineEngine(backend_name(backend), threads or 0, precompute)
        self._windows = windows
        self.precompute = precompute

    @classmethod
    def prepared(
        cls, points: Limbs, backend: str = "auto", threads: int | None = None, windows: int = 0, precompute: int = 1
    ) -> Self:
        """From (n, 8) limbs in Montgomery form; up to `precompute` multiples of each are kept."""
        made = cls(backend, threads, windows, precompute)
        if precompute == 1:
            made._native.prepare(points, True)
            return made
        # Multiples take a while: Ctrl-C is heard between pieces.
        made.reserve(len(points))
        for first in range(0, len(points), MULTIPLES_AT_ONCE):
            made.fill(first, points[first : first + MULTIPLES_AT_ONCE])
        return made

    @classmethod
    def opened(
        cls,
        path: bytes,
        *,
        verify: bool,
        on_curve: bool = False,
        copy: bool = True,
        backend: str = "auto",
        threads: int | None = None,
    ) -> Self:
        """From a file that `save` wrote; mapped if no `copy` is wanted. `verify` compares its checksum, `on_curve`
        checks every point.
        """
        made = cls(backend, threads)
        made._native.open(path, verify, on_curve, copy)
        return made

    def set_budget(self, size_bytes: int) -> None:
        """What prepared points and calls may take together: calls work on fewer windows at once to keep to it."""
        self._native.set_budget(size_bytes)

    def reserve(self, n: int) -> None:
        """Room for n points, which `fill` then provides."""
        self._native.reserve(n)

    def fill(self, first: int, points: Limbs) -> None:
        """Points from `first` on, (m, 8) limbs in Montgomery form; earlier ones there are replaced."""
        self._native.fill(first, points, True)

    def run(
        self, scalars: Limbs, offset: int, *, cancel: Event | None = None, progress: Progress | None = None
    ) -> tuple[Limbs, Mapping[str, int]]:
        """The sum as (8,) canonical limbs, and the counters and stage times of this call."""
        poll = None
        if cancel is not None or progress is not None:
            furthest, one_at_a_time = 0.0, Lock()

            def poll(done: float) -> bool:
                """A share that arrives late is reported as the furthest one."""
                nonlocal furthest
                if progress is not None:
                    with one_at_a_time:
                        furthest = max(furthest, done)
                        progress(furthest)
                return cancel is not None and cancel.is_set()

        limbs, work = self._native.run(scalars, offset, self._windows, poll)
        return limbs.reshape(8), work

    def trace(
        self, scalars: Limbs, offset: int = 0, *, slices: int = 0, cut_for: int = 0
    ) -> tuple[Limbs, Mapping[str, int], list[Step]]:
        """One call with the processor time of every task, for `whet.msm.trace`.

        `cut_for` cuts the work as for so many threads, whatever there are; `slices` sorts every window in so many.
        """
        limbs, work, steps = self._native.trace(scalars, offset, self._windows, slices, cut_for)
        told = [Step(stage, name, first, each, tuple(task_ns)) for stage, name, first, each, task_ns in steps]
        return limbs.reshape(8), work, told

    def run_batch(self, vectors: Sequence[Limbs], offset: int) -> list[tuple[Limbs, Mapping[str, int]]]:
        """One answer per vector, all of one length: each thread takes whole sums where there are enough of them."""
        answers = self._native.run_batch(list(vectors), offset, self._windows)
        return [(limbs.reshape(8), work) for limbs, work in answers]

    def save(self, path: bytes) -> None:
        self._native.save(path)

    def cancel(self) -> None:
        """Stops every call that is running or waiting; each raises Cancelled."""
        self._native.cancel()

    def memory_map(
        self, n: int, *, scalar_bits: int = 256, busy: int | None = None, prepared: int | None = None
    ) -> list[MemoryRow]:
        """Closed-form sizes of a call with n scalars of at most scalar_bits bits, `busy` of them not zero.

        `prepared` asks about an engine that holds as many points. Where even one window at a time does not fit the
        budget, the map is that of one.
        """
        asked = -1 if prepared is None else prepared
        rows = self._native.memory_map(n, n if busy is None else busy, scalar_bits, self._windows, asked)
        lifetime = {"prepared points": "engine"}
        return [MemoryRow(name, size, lifetime.get(name, "run")) for name, size in rows]

    def most_bytes(self, n: int, *, prepared: int | None = None) -> int:
        """The sum of the map for whichever n scalars take the most."""
        return max(
            sum(row.size_bytes for row in self.memory_map(n, scalar_bits=bits, prepared=prepared))
            for bits in range(1, LONGEST_SHORT_SCALAR_BITS + 1)
        )

    def ledger(self) -> dict[str, int]:
        """What is allocated now, by name."""
        return dict(self._native.ledger())

    def trim(self) -> None:
        """Gives back everything but the prepared points; during a call, at its end."""
        self._native.trim()

    def close(self) -> None:
        """Gives back the points as well and refuses new calls. Waits for nobody: calls that have begun answer first."""
        self._native.close()

    def __len__(self) -> int:
        return len(self._native)

    @property
    def backend(self) -> str:
        return str(self._native.backend)

    @property
    def multiples(self) -> int:
        """How many multiples are kept of each point."""
        return int(self._native.multiples)

    def multiples_of(self, n: int) -> int:
        """How many would be kept of each of n points: no more than `precompute`, and no more than are worth it."""
        return int(self._native.multiples_of(n))

    @property
    def threads(self) -> int:
        return int(self._native.threads)


def backend_name(backend: str) -> str:
    """What auto means here."""
    return (os.environ.get(OVERRIDE) or "auto") if backend == "auto" else backend


def stage_times(work: Mapping[str, int]) -> dict[str, int]:
    """The stage times among the counters of a call, in order, in nanoseconds."""
    return {stage: work[f"{stage}_ns"] for stage in STAGES if f"{stage}_ns" in work}
