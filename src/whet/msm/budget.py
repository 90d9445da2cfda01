"""The fast engine within a memory budget: as many points at a time as fit, and as many windows of those.

Where the prepared points (64 bytes each) and the work of a call fit together, the points stay. Where they do not, every
call reads them again from where they are (the caller's array, a file), piece by piece, prepares each piece in the same
place and adds up the sums of the pieces. (An engine with `precompute` keeps all points or is refused.) Within a piece
the native engine takes fewer windows at once if it must.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from threading import Lock, RLock, get_ident
from typing import Any

import numpy as np

from whet._native import msm as native
from whet.errors import BadInput, Cancelled, Unsupported
from whet.msm.affine import Affine, Event, Progress
from whet.msm.options import read_budget, read_threads
from whet.msm.point import Endian
from whet.msm.validate import Limbs, PointsLike, RecordSource, point_rows, read_points
from whet.msm.variants import AffineSums, Answer
from whet.protocol import MemoryRow, Variant

READ_AT_ONCE = 1 << 13
# A point being read: as it lies in a file, converted, and collected. The tests hold the reader to it.
READING_BYTES = 3 * 64
SCALAR_BYTES = 32
LEAST_PIECE = 1 << 10
SETTINGS = ("windows", "windows_at_once", "window_bits", "scalar_bits", "glv")


class GivenPoints:
    """What the caller has, read where it lies. It must not change while an engine uses it."""

    def __init__(self, points: PointsLike, *, endian: Endian, montgomery: bool, check: bool) -> None:
        self._rows: Any = point_rows(points)
        self._endian: Endian = endian
        self._montgomery = montgomery
        self.check = check

    def __len__(self) -> int:
        return len(self._rows)

    def limbs(self, start: int = 0, stop: int | None = None) -> Limbs:
        return read_points(
            self._rows[start:stop], endian=self._endian, montgomery=self._montgomery, check=self.check, first=start
        )


class BudgetedSums(AffineSums):
    """Sums over `source` that allocate no more than `budget_bytes`; `scalars_too` counts scalars that are read as well.

    Calls take turns. The budget holds whatever the scalars are.
    """

    def __init__(
        self,
        source: RecordSource,
        budget_bytes: int,
        *,
        backend: str = "auto",
        threads: int | None = None,
        windows: int = 0,
        precompute: int = 1,
        scalars_too: bool = False,
    ) -> None:
        self._source = source
        self._turn = Lock()
        self._turn_owner: int | None = None  # written by the owner of the turn
        self._ending = RLock()  # of the next two; a signal handler may close while a call begins or ends
        self._calls = 0
        self._closed = False
        self._cancellations = 0
        super().__init__(Affine(backend, threads, windows, precompute))
        self.piece = largest_piece(self.native, len(source), budget_bytes, scalars_too=scalars_too)
        self._reading_bytes = reading_bytes(self.piece, scalars_too)
        self.native.reserve(self.piece)
        if self.resident:
            self._fill(0, len(source))
        elif isinstance(source, GivenPoints):  # a mistake shows here; a file is checked whenever it is read
            for start in range(0, len(source), READ_AT_ONCE):
                source.limbs(start, start + READ_AT_ONCE)
            source.check = False

    @property
    def resident(self) -> bool:
        """Whether the points stay prepared."""
        return self.piece == len(self._source)

    def compute(
        self,
        scalars: Limbs | RecordSource,
        offset: int,
        *,
        cancel: Event | None = None,
        progress: Progress | None = None,
    ) -> Answer:
        if self.resident:
            return super().compute(_cut(scalars, 0, len(scalars)), offset, cancel=cancel, progress=progress)
        return self._in_pieces([scalars], offset, cancel=cancel, progress=progress)[0]

    def batch(self, vectors: Sequence[Limbs], offset: int) -> list[Answer]:
        """One answer per vector, all of one length; a piece of points is read once for all of them."""
        if self.resident or not vectors:
            return super().batch(vectors, offset)
        return self._in_pieces(vectors, offset)

    def _in_pieces(
        self,
        vectors: Sequence[Limbs | RecordSource],
        offset: int,
        *,
        cancel: Event | None = None,
        progress: Progress | None = None,
    ) -> list[Answer]:
        if self._turn_owner == get_ident():
            raise BadInput(
                "the engine was called from inside one of its own calls",
                cure="return from the callback or signal handler first, or use another engine there",
            )
        self._begin_call()
        try:
            return self._summed(vectors, offset, cancel=cancel, progress=progress)
        finally:
            self._end_call()

    def _begin_call(self) -> None:
        with self._ending:
            if self._closed:
                raise BadInput("the engine is closed", cure="make a new one")
            self._calls += 1

    def _end_call(self) -> None:
        with self._ending:
            self._calls -= 1
            last = self._closed and self._calls == 0
        if last:
            super().close()

    def _summed(
        self,
        vectors: Sequence[Limbs | RecordSource],
        offset: int,
        *,
        cancel: Event | None,
        progress: Progress | None,
    ) -> list[Answer]:
        seen, n = self._cancellations, len(vectors[0])

        def stop_if_cancelled() -> None:
            if self._cancellations != seen or (cancel is not None and cancel.is_set()):
                raise Cancelled("the computation was cancelled", cure="start it again")

        while not self._turn.acquire(timeout=0.02):
            stop_if_cancelled()
        try:
            self._turn_owner = get_ident()
            sums: list[list[Limbs]] = [[] for _ in vectors]
            work: list[dict[str, int]] = [{} for _ in vectors]
            for start in range(0, n, self.piece):
                stop = min(start + self.piece, n)
                stop_if_cancelled()
                self._fill(offset + start, offset + stop)
                for number, scalars in enumerate(vectors):
                    stop_if_cancelled()
                    share = _share(progress, start / n, (stop - start) / n)
                    limbs, done = self.native.run(_cut(scalars, start, stop), 0, cancel=cancel, progress=share)
                    sums[number].append(limbs)
                    work[number] = _added(work[number], done)
            self.last_work = work[-1]
            return [Answer(_sum(parts), done) for parts, done in zip(sums, work, strict=True)]
        finally:
            self._turn_owner = None
            self._turn.release()

    def _fill(self, first: int, last: int) -> None:
        for start in range(first, last, READ_AT_ONCE):
            self.native.fill(start - first, self._source.limbs(start, min(start + READ_AT_ONCE, last)))

    def cancel(self) -> None:
        self._cancellations += 1
        super().cancel()

    def close(self) -> None:
        """Calls that have begun answer; the last of them gives the memory back."""
        with self._ending:
            self._closed = True
            under_way = self._calls > 0
        if not under_way:
            super().close()

    def save(self, path: Any) -> None:
        if not self.resident:
            raise Unsupported("the prepared points do not fit the memory budget", cure="save them without a budget")
        super().save(path)

    def memory_map(self, n: int, *, scalar_bits: int) -> list[MemoryRow]:
        """As without a budget, and what reading a piece takes while the rest is there."""
        rows = super().memory_map(min(n, self.piece), scalar_bits=scalar_bits)
        return [*rows, MemoryRow("records being read", self._reading_bytes, "read")]


def reading_bytes(piece: int, scalars_too: bool = False) -> int:
    """What the source and the reader hold while a piece is read; scalars of a file stay for the whole piece."""
    return READING_BYTES * min(piece, READ_AT_ONCE) + (SCALAR_BYTES * piece if scalars_too else 0)


def largest_piece(engine: Affine, n: int, budget_bytes: int, *, scalars_too: bool = False) -> int:
    """How many of n points can be in memory at a time; holds the engine to what reading them leaves of the budget.

    Multiples of points take longer to make than one call saves by them, so an engine that keeps some keeps all.
    """
    pieces = max(1, math.ceil(n / int(native.max_points)))
    while True:
        piece = math.ceil(n / pieces)
        if _need(engine, piece, budget_bytes, scalars_too) <= budget_bytes:
            return piece
        if piece <= LEAST_PIECE or engine.precompute > 1:
            raise too_small(budget_bytes, n, least_budget(engine, n, scalars_too=scalars_too))
        pieces = max(pieces + 1, min(pieces * 5 // 4, math.ceil(n / LEAST_PIECE)))


def least_budget(engine: Affine, n: int, *, scalars_too: bool = False) -> int:
    """The smallest budget with which a sum over n points works."""
    pieces = 1 if engine.precompute > 1 else max(1, math.ceil(n / LEAST_PIECE))
    return _need(engine, math.ceil(n / pieces), 0, scalars_too)


def _need(engine: Affine, piece: int, budget_bytes: int, scalars_too: bool) -> int:
    """What a call over a piece takes, whatever the scalars, with as many windows at once as the budget allows."""
    reading = reading_bytes(piece, scalars_too)
    engine.set_budget(max(1, budget_bytes - reading))
    return reading + engine.most_bytes(piece, prepared=piece)


def prepare_within(
    memory_budget: int, variant: Variant, source: RecordSource, threads: int | None, *, scalars_too: bool = False
) -> BudgetedSums:
    """The variant over `source` within that many bytes. Only the fast engine can."""
    if variant.name != "affine":
        raise Unsupported(f"variant {variant} takes no memory budget", cure='use variant="affine", or no budget')
    if (budget_bytes := read_budget(memory_budget)) is None:
        raise BadInput("no memory budget", cure="give memory_budget= in bytes")
    threads, knobs = read_threads(threads), variant.knobs
    return BudgetedSums(
        source,
        budget_bytes,
        backend=str(knobs.get("backend", "auto")),
        threads=threads or int(knobs.get("threads", 0)) or None,
        windows=int(knobs.get("windows", 0)),
        precompute=int(knobs.get("precompute", 1)),
        scalars_too=scalars_too,
    )


def limit(engine: Affine, budget_bytes: int) -> None:
    """Holds an engine whose points are there already to a budget."""
    engine.set_budget(max(1, budget_bytes))
    least_bytes = engine.most_bytes(len(engine))
    if least_bytes > budget_bytes:
        raise too_small(budget_bytes, len(engine), least_bytes)


def too_small(budget_bytes: int, n: int, least_bytes: int) -> BadInput:
    return BadInput(
        f"a memory budget of {budget_bytes:,} bytes is too small for sums over {n:,} points",
        cure=f"give at least {least_bytes:,} bytes, fewer threads or a smaller precompute",
    )


def _cut(scalars: Limbs | RecordSource, start: int, stop: int) -> Limbs:
    return scalars[start:stop] if isinstance(scalars, np.ndarray) else scalars.limbs(start, stop)


def _share(progress: Progress | None, base: float, span: float) -> Progress | None:
    return None if progress is None else lambda done: progress(base + span * done)


def _added(work: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    """Counters add up; settings are those of the last piece."""
    added = {name: (0 if name in SETTINGS else work.get(name, 0)) + value for name, value in more.items()}
    return {**added, "pieces": work.get("pieces", 0) + 1}


def _sum(sums: list[Limbs]) -> Limbs:
    """Of canonical points, by the reference: one addition each."""
    if not sums:
        return np.zeros(8, np.uint64)
    ones = np.zeros((len(sums), 4), np.uint64)
    ones[:, 0] = 1
    limbs, _ = native.plain(read_points(np.stack(sums), check=False), ones)
    return limbs.reshape(8)  # type: ignore[no-any-return]
