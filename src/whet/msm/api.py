"""S = sum s_i P_i for callers: `msm` for one sum, `Engine` for fixed points and many.

Variable time: the duration depends on the scalars. Do not use it on secrets that an attacker can time.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Self

from whet._native import msm as native
from whet.errors import BadInput, Unsupported
from whet.msm.affine import BACKENDS, Affine, Event, Progress, backend_name
from whet.msm.auto import measured_variant
from whet.msm.budget import GivenPoints, limit, prepare_within
from whet.msm.options import (
    read_budget,
    read_count,
    read_device,
    read_flag,
    read_part,
    read_submission_limit,
    read_threads,
    require_callbacks,
    shown,
    spelled_variant,
    system_path,
)
from whet.msm.point import SCALAR_BYTES, Endian, Point
from whet.msm.validate import (
    Limbs,
    PointsLike,
    RecordSource,
    ScalarsLike,
    file_limbs,
    is_file,
    plain_limbs,
    point_count,
    read_points,
    read_scalars,
    require_same_length,
    scalar_count,
)
from whet.msm.variants import AffineSums, Answer, Prepared, choose, prepare
from whet.msm.webgpu.fallback import WithFallback
from whet.msm.webgpu.knobs import SPECS as GPU_SPECS
from whet.msm.webgpu.knobs import Choice
from whet.msm.webgpu.sums import WebGpuSums
from whet.protocol import MemoryRow, Variant

# A budget for files of more points than an engine prepares: they are read in pieces, each as large as one can be.
UNBOUNDED_BYTES = 1 << 40
# Scalars beyond this are counted before they are read: they take memory that a mistake should not cost.
ENOUGH_TO_COUNT = 1 << 18


def msm(
    points: PointsLike,
    scalars: ScalarsLike,
    *,
    endian: Endian = "little",
    points_montgomery: bool = False,
    scalars_montgomery: bool = False,
    check: bool = True,
    variant: str = "auto",
    backend: str = "auto",
    threads: int | None = None,
    device: str = "auto",
    memory_budget: int | None = None,
    fallback: bool = False,
    verify: bool = True,
    submission_limit_s: float | None = None,
    cancel: Event | None = None,
    progress: Progress | None = None,
) -> Point:
    """The sum of scalars[i] * points[i]; infinity for none.

    Points: uint8 (n, 64) or (n, 2, 32), n * 64 bytes of any buffer, uint64 limbs (n, 8) or (n, 2, 4), a sequence of
    `Point`, (x, y) or None for infinity, or a file from `Srs.open`. Scalars: uint8 (n, 32) or n * 32 bytes, uint64
    limbs (n, 4), a sequence or an object array of integers, an array (n,) of int16 to int64, uint16 or uint32, or a
    file from `Scalars.open`.

    Scalars are any integers below 2^256 and count modulo r. Points may be infinity, repeated or opposite.
    `check=False` skips the curve equation for points that are known to be good; the answer for others is undefined.
    The other options are those of `Engine`. A few points are summed on the spot: nothing is prepared, and no threads
    are started.
    """
    many = point_count(points) if scalar_count(scalars) > ENOUGH_TO_COUNT else None
    plain = read_scalars(scalars, endian=endian, montgomery=scalars_montgomery, points=many)
    where, _ = read_device(device)
    plainly = isinstance(variant, str) and variant == "auto" and isinstance(backend, str) and backend in BACKENDS
    simple = plainly and memory_budget is None and cancel is None and progress is None and where != "webgpu"
    if simple and len(plain) <= native.small_most(kernel := backend_name(backend)):
        read_threads(threads)
        limbs = _checked_points(points, endian, points_montgomery, check)
        require_same_length(len(limbs), len(plain))
        return Point.from_bytes(native.small_sum(limbs, plain, kernel).tobytes())
    with Engine(
        points,
        endian=endian,
        montgomery=points_montgomery,
        check=check,
        variant=variant,
        backend=backend,
        threads=threads,
        device=device,
        memory_budget=memory_budget,
        fallback=fallback,
        verify=verify,
        submission_limit_s=submission_limit_s,
    ) as engine:
        return engine.compute(plain, cancel=cancel, progress=progress)


def _checked_points(points: PointsLike, endian: Endian, montgomery: bool, check: bool) -> Limbs:
    if is_file(points, "points"):
        return file_limbs(points, endian, montgomery)
    return read_points(points, endian=endian, montgomery=montgomery, check=check)


class Engine:
    """Points prepared once, such as an SRS; call it with scalars. Safe to share between threads.

    Points and scalars are whatever `msm` takes. Points of an open file are those that its reader has checked.

    `backend` (ifma, avx2, adx, portable) forces the kernel of the fast variant. A call takes `cancel`, anything with
    `is_set()` such as threading.Event, and `progress`, which is called with the share done now and then.

    `memory_budget` bounds the bytes that the engine allocates, prepared points included. Where these alone would be too
    many, the engine keeps a reference to `points` and reads them again in each call, piece by piece: leave them alone
    while it is open. `memory_map()` says what the budget was spent on.

    `precompute` keeps up to that many multiples of each point (1, which is none, to 16), 64 bytes each, as many as are
    worth it for their number: calls become faster, and preparing takes longer, about 20 microseconds a point. Good for
    points that stay; `save` keeps them in the file. Within a memory budget all of them must fit.

    `device` is cpu, webgpu (the best adapter) or webgpu:<part of an adapter's key>; there the budget is the device's,
    and the knob `points` of a variant says where points are between calls (resident, pieces, compressed; auto by the
    budget).
    With `fallback` a fault of the device is answered by the CPU, and `fallback_reason` says why. A device has to give a
    known answer before its first use, and the CPU checks each sum in a fraction of the time of its own: WrongAnswer
    is raised for one that fails. `verify=False` leaves the check of each sum out.

    `submission_limit_s` is the longest that the device should be held at once: the work of a call goes to it in as many
    submissions as that takes at the speed measured so far, but a single pass is never cut. Half a second by default;
    less where other programs draw on the device, or where its system takes it away from who holds it.
    """

    def __init__(
        self,
        points: PointsLike,
        *,
        endian: Endian = "little",
        montgomery: bool = False,
        check: bool = True,
        variant: str = "auto",
        backend: str = "auto",
        threads: int | None = None,
        device: str = "auto",
        memory_budget: int | None = None,
        precompute: int | None = None,
        fallback: bool = False,
        verify: bool = True,
        submission_limit_s: float | None = None,
    ) -> None:
        where, adapter = read_device(device)
        threads, memory_budget = read_threads(threads), read_budget(memory_budget)
        submission_limit_s = read_submission_limit(submission_limit_s)
        variant = spelled_variant(variant, backend, precompute)
        if variant == "auto" and (where == "webgpu" or (threads is None and memory_budget is None)):
            variant = measured_variant(where, adapter, lambda: point_count(points))
        chosen = choose(variant)
        if where == "webgpu" or chosen.name in GPU_SPECS:
            limbs = _checked_points(points, endian, montgomery, check)
            options = {
                "adapter": adapter or None,
                "memory_budget": memory_budget,
                "verify": verify,
                "submission_limit_s": submission_limit_s,
            }
            self._adopt(chosen, _on_gpu(chosen, limbs, fallback, **options), len(limbs))
            return
        source = _source(points, endian, montgomery)
        if memory_budget is None and source is not None and len(source) > native.max_points:
            memory_budget = UNBOUNDED_BYTES
        if memory_budget is not None:
            given = source or GivenPoints(points, endian=endian, montgomery=montgomery, check=check)
            self._adopt(chosen, prepare_within(memory_budget, chosen, given, threads), len(given))
            return
        limbs = _checked_points(points, endian, montgomery, check)
        self._adopt(chosen, prepare(chosen, limbs, threads), len(limbs))

    def _adopt(self, variant: Variant, prepared: Prepared, size: int) -> None:
        self.variant = variant
        self._size = size
        self._prepared: Prepared | None = prepared
        self._closing = threading.RLock()  # a signal handler may close in the middle of closing

    @classmethod
    def streaming(
        cls, source: RecordSource, *, memory_budget: int, variant: str = "auto", threads: int | None = None
    ) -> Self:
        """Over points that are read when they are needed, such as those of a file, within that many bytes."""
        engine = cls.__new__(cls)
        chosen = choose(variant)
        engine._adopt(chosen, prepare_within(memory_budget, chosen, source, threads), len(source))
        return engine

    @classmethod
    def open(
        cls,
        path: str | bytes | os.PathLike[str],
        *,
        verify: bool = True,
        check: Literal["none", "on-curve"] = "none",
        copy: bool = True,
        backend: str = "auto",
        threads: int | None = None,
        memory_budget: int | None = None,
    ) -> Self:
        """Reads a file that `save` wrote: 64 bytes of memory a point, and what happens to the file later does not
        matter. `verify=False` skips its checksum.

        The checksum finds damage, but anyone can compute it: `check="on-curve"` is for files that you do not trust. It
        looks at every point: coordinates below p, on the curve, infinity exactly where the file says so. What it passes
        gives one answer on every backend; sums over other files are undefined.

        `copy=False` maps the file instead, for those who trust everyone who can write to it. Mapped points do not count
        towards the memory budget, several processes share them, and without `verify` nothing but the header is touched.
        The length is checked here and before each call, but a file that is cut short in the middle of a call ends this
        process with SIGBUS, as with every map: replace such files by renaming, never in place.
        """
        engine = cls.__new__(cls)
        memory_budget = read_budget(memory_budget)
        if not isinstance(check, str) or check not in ("none", "on-curve"):
            raise BadInput(f"no check {shown(check)}", cure="checks: none, on-curve")
        choose(spelled_variant("affine", backend, None))  # a name that is none is told before anything is read
        native = Affine.opened(
            system_path(path),
            verify=read_flag(verify, "verify"),
            on_curve=check == "on-curve",
            copy=read_flag(copy, "copy"),
            backend=backend,
            threads=read_threads(threads),
        )
        if memory_budget is not None:
            limit(native, memory_budget)
        engine._adopt(
            choose(f"affine:backend={backend},precompute={native.multiples}"), AffineSums(native), len(native)
        )
        return engine

    def save(self, path: str | bytes | os.PathLike[str]) -> None:
        """Writes the prepared points for `open`: 64 bytes for each multiple that is kept. It goes by way of a new file
        beside it, and no link is followed.
        """
        self._affine().save(system_path(path))

    def cancel(self) -> None:
        """Stops every call that is running or waiting; each raises Cancelled."""
        self._affine().cancel()

    def memory_map(self, n: int | None = None, *, scalar_bits: int = 256) -> Sequence[MemoryRow]:
        """What a call with n scalars (all points by default) of that length allocates, to the byte."""
        prepared = self._open()
        n = None if n is None else read_count(n, "the number of scalars")
        scalar_bits = read_count(scalar_bits, "scalar_bits", most=8 * SCALAR_BYTES)
        if isinstance(prepared, WebGpuSums):
            return prepared.memory_map(n)
        if isinstance(prepared, WithFallback):
            return prepared.memory_map(self._size if n is None else n, scalar_bits=scalar_bits)
        return self._affine().memory_map(self._size if n is None else n, scalar_bits=scalar_bits)

    def ledger(self) -> Mapping[str, int]:
        """What the engine holds now, by name, in bytes; on a GPU what it holds there. With `fallback` it is that of the
        side that gave the last answer, and so is `memory_map`.
        """
        prepared = self._open()
        if isinstance(prepared, WebGpuSums | WithFallback):
            return prepared.ledger()
        return self._affine().native.ledger()

    @property
    def backend(self) -> str:
        """The kernel in use: ifma, avx2, adx or portable."""
        return self._affine().native.backend

    def _affine(self) -> AffineSums:
        prepared = self._open()
        if not isinstance(prepared, AffineSums):
            raise Unsupported(f"variant {self.variant} cannot do that", cure='make the engine with variant="affine"')
        return prepared

    def _open(self) -> Prepared:
        prepared = self._prepared
        if prepared is None:
            raise BadInput("the engine is closed", cure="make a new one")
        return prepared

    def __len__(self) -> int:
        return self._size

    def __call__(
        self,
        scalars: ScalarsLike,
        *,
        endian: Endian = "little",
        montgomery: bool = False,
        cancel: Event | None = None,
        progress: Progress | None = None,
    ) -> Point:
        """The sum over all points; as many scalars as points."""
        limbs = read_scalars(scalars, endian=endian, montgomery=montgomery, points=self._size)
        return self.compute(limbs, cancel=cancel, progress=progress)

    def batch(
        self, vectors: Iterable[ScalarsLike], *, endian: Endian = "little", montgomery: bool = False
    ) -> list[Point]:
        """One sum per vector of scalars. On the CPU each thread takes whole sums, with rooms of its own for them, where
        there are as many sums as threads and no memory budget. On a GPU vectors that follow each other with one length
        share a submission; an engine that reads its points in pieces reads each piece once for all vectors.
        """
        return self.compute_batch(_read_vectors(vectors, self._size, endian, montgomery))

    def compute_batch(self, vectors: Sequence[Limbs], *, offset: int = 0, size: int | None = None) -> list[Point]:
        """The same on plain limbs, against `size` points from `offset` on."""
        prepared = self._open()
        vectors = [plain_limbs(limbs) for limbs in vectors]
        offset, size = read_part(offset, self._size if size is None else size, self._size)
        if not isinstance(prepared, WebGpuSums | WithFallback | AffineSums):
            return [self.compute(limbs, offset=offset, size=size) for limbs in vectors]
        for limbs in vectors:
            require_same_length(size, len(limbs))
        return [Point.from_bytes(answer.limbs.tobytes()) for answer in prepared.batch(vectors, offset)]

    @property
    def fallback_reason(self) -> str | None:
        """Why the CPU answered the last call in place of the GPU; None where it did not."""
        prepared = self._open()
        return prepared.reason if isinstance(prepared, WithFallback) else None

    def view(self, offset: int = 0, size: int | None = None) -> View:
        """The engine restricted to `size` points from `offset` on; to the end by default. Copies nothing."""
        return View(self, *read_part(offset, size, self._size))

    def compute(
        self,
        limbs: Limbs,
        *,
        offset: int = 0,
        size: int | None = None,
        cancel: Event | None = None,
        progress: Progress | None = None,
    ) -> Point:
        """The same on scalars that already are (m, 4) plain limbs, against `size` points from `offset` on."""
        answer = self.answer(limbs, offset=offset, size=size, cancel=cancel, progress=progress)
        return Point.from_bytes(answer.limbs.tobytes())

    def answer(
        self,
        limbs: Limbs,
        *,
        offset: int = 0,
        size: int | None = None,
        cancel: Event | None = None,
        progress: Progress | None = None,
    ) -> Answer:
        """As `compute`, with the counters and stage times of the call."""
        require_callbacks(cancel, progress)
        limbs = plain_limbs(limbs)
        offset, size = read_part(offset, self._size if size is None else size, self._size)
        require_same_length(size, len(limbs))
        return self._open().compute(limbs, offset, cancel=cancel, progress=progress)

    def close(self) -> None:
        """Releases the prepared points. Calls after this are BadInput; closing twice is fine.

        May be called at any time, from any thread, from a callback or a signal handler. It does not wait: calls that
        have begun answer, and the last of them gives the memory back.
        """
        with self._closing:
            prepared, self._prepared = self._prepared, None
        if prepared is not None:
            prepared.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class View:
    """A part of an engine's points, called like the engine itself. Valid while the engine is open."""

    def __init__(self, engine: Engine, offset: int, size: int) -> None:
        self._engine = engine
        self._offset = offset
        self._size = size

    def __len__(self) -> int:
        return self._size

    def __call__(
        self,
        scalars: ScalarsLike,
        *,
        endian: Endian = "little",
        montgomery: bool = False,
        cancel: Event | None = None,
        progress: Progress | None = None,
    ) -> Point:
        """The sum over the view's points; as many scalars as it has."""
        limbs = read_scalars(scalars, endian=endian, montgomery=montgomery, points=self._size)
        return self._engine.compute(limbs, offset=self._offset, size=self._size, cancel=cancel, progress=progress)

    def batch(
        self, vectors: Iterable[ScalarsLike], *, endian: Endian = "little", montgomery: bool = False
    ) -> list[Point]:
        """One sum per vector of scalars, as of the engine."""
        limbs = _read_vectors(vectors, self._size, endian, montgomery)
        return self._engine.compute_batch(limbs, offset=self._offset, size=self._size)


def _read_vectors(vectors: Iterable[ScalarsLike], points: int, endian: Endian, montgomery: bool) -> list[Limbs]:
    if not isinstance(vectors, Iterable):
        raise BadInput(f"vectors of scalars are {shown(vectors)}", cure="give a sequence of them")
    return [read_scalars(scalars, endian=endian, montgomery=montgomery, points=points) for scalars in vectors]


def _source(points: PointsLike, endian: Endian, montgomery: bool) -> RecordSource | None:
    """Points of an open file, to be read when they are needed."""
    if not is_file(points, "points"):
        return None
    if endian != "little" or montgomery:
        raise BadInput("a file knows its byte order and form", cure="leave endian and the Montgomery flag out")
    return points  # type: ignore[return-value]


def _on_gpu(variant: Variant, points: Limbs, fallback: bool, **options: Any) -> WebGpuSums | WithFallback:
    """`options` are those of WebGpuSums."""
    if variant.name not in GPU_SPECS:
        raise BadInput(f"variant {variant} runs on the CPU", cure=f"variants for webgpu: {', '.join(GPU_SPECS)}")
    choice = Choice.of(variant.name, variant.knobs)

    def on_device() -> WebGpuSums:
        return WebGpuSums(points, choice, **options)

    return WithFallback(on_device, points) if fallback else on_device()
