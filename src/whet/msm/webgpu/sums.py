"""Sums over fixed points on a WebGPU device, where these stay as a whole, in part or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from threading import Lock

import numpy as np

from whet._native import curve
from whet.errors import BadInput, Cancelled, DeviceError, DeviceOutOfMemory, Unsupported, WhetError, WrongAnswer
from whet.gpu import Buffer, Device, Program, open_device
from whet.gpu.faults import CURES
from whet.gpu.ledger import Ledger
from whet.gpu.running import run
from whet.gpu.schedule import LIMIT_NS, Pace
from whet.gpu.trusted import distrust
from whet.msm.affine import Event, Progress
from whet.msm.point import Point
from whet.msm.validate import Limbs
from whet.msm.variants import Answer
from whet.msm.webgpu.finish import Words, finish, kept_points, upload_scalars, window_sums
from whet.msm.webgpu.knobs import PIECES, Choice
from whet.msm.webgpu.known_answer import require_known_answer
from whet.msm.webgpu.memory import memory_map
from whet.msm.webgpu.multiply import WIDE, fastest_multiply
from whet.msm.webgpu.pieces import Placement, cut, place
from whet.msm.webgpu.plan import Plan, build
from whet.msm.webgpu.request import Request
from whet.msm.webgpu.window_check import WindowCheck
from whet.protocol import MemoryRow

FEATURES = ("timestamp-query", "shader-int64")
WORDS = 8  # of a coordinate


class WebGpuSums:
    """Calls take turns. After a lost device the next call opens a new one and uploads the points again.

    `adapter` is part of an adapter's key; the best one by default. `timed` keeps the nanoseconds of every pass.
    A device has to give a known answer before its first use. With `verify` each answer is checked as well; after one
    that fails, everything on the device is made anew and the known answer asked again.
    Points stay there if the budget holds them; else each call brings them in pieces, or recovers y (`pieces.py`).
    No submission is to take longer than `submission_limit_s` (0.5 by default) at the speed measured so far; a pass is
    never cut.
    """

    def __init__(
        self,
        points: Limbs,
        choice: Choice,
        *,
        adapter: str | None = None,
        memory_budget: int | None = None,
        timed: bool = False,
        verify: bool = True,
        submission_limit_s: float | None = None,
    ) -> None:
        self.choice = choice
        self.timed = timed
        self.passes_ns: list[tuple[str, int | None]] = []
        self.span_ns: int | None = None
        self._points = points
        self._adapter = adapter
        self._budget = memory_budget
        self._pace = Pace(LIMIT_NS if submission_limit_s is None else 1e9 * submission_limit_s)
        self._turn = Lock()
        self._device: Device | None = None
        self._check = WindowCheck(points) if verify else None
        self._wide = False
        self._plan: Plan | None = None
        self._buffers: dict[str, Buffer] = {}
        self._kept: dict[str, Buffer] = {}  # what stays of the points, or a place for a piece of them
        self._placement: Placement | None = None
        self._sent: dict[str, Words] = {}  # all points by images, where they do not stay
        if len(points):
            self._opened()

    def compute(
        self, scalars: Limbs, offset: int, *, cancel: Event | None = None, progress: Progress | None = None
    ) -> Answer:
        return self.batch([scalars], offset, cancel=cancel)[0]

    def batch(self, vectors: Sequence[Limbs], offset: int = 0, *, cancel: Event | None = None) -> list[Answer]:
        """One sum per vector of scalars. Vectors that follow each other with one length share a submission."""
        with self._turn:
            _require_wanted(cancel)
            self.passes_ns, self.span_ns = [], None
            try:
                return [answer for part in _same_length(vectors) for answer in self._answers(part, offset, cancel)]
            except WrongAnswer:
                distrust(self.device.info)
                self._clear()
                raise
            except DeviceError:
                self._drop()
                raise

    def memory_map(self, n: int | None = None, *, vectors: int = 1) -> list[MemoryRow]:
        """What a call with n scalars (all points by default) has on the device, to the byte."""
        n = len(self._points) if n is None else n
        device = self._opened()
        piece = self._placed(device).piece
        return memory_map(
            max(end - begin for begin, end in cut(n, piece.n)),
            piece.choice,
            limits=piece.limits,
            memory_budget=piece.memory_budget,
            resident=piece.resident,
            vectors=vectors,
        )

    def ledger(self) -> dict[str, int]:
        """What is allocated on the device now, by name."""
        return dict(self._device.ledger.live) if self._device else {}

    @property
    def device(self) -> Device:
        return self._opened()

    @property
    def wide(self) -> bool:
        """Whether the multiply uses 64-bit integers: as the knob says, or as was measured."""
        self._opened()
        return self._wide

    def close(self) -> None:
        with self._turn:
            self._drop()
            if self._check is not None:
                self._check.close()

    def _opened(self) -> Device:
        if self._device is None:
            device = open_device(self._adapter, features=FEATURES)
            try:
                self._wide = uses_wide(device, self.choice)
                self._fill(device)
            except BaseException:
                device.close()
                raise
            self._device = device
        return self._device

    def _fill(self, device: Device) -> None:
        """What stays of the points, on a device that has given the known answer; or a place for a piece of them."""
        placement = self._placed(device)
        choice, piece = placement.piece.choice, placement.piece.n
        require_known_answer(device, choice, wide=self._wide)
        kept = kept_points(self._points, glv=choice.glv, compressed=choice.compressed)
        if placement.points != PIECES:
            self._kept = {name: device.buffer(name, words.nbytes, data=words) for name, words in kept.items()}
            return
        self._sent = {name: words.reshape(-1, len(self._points), WORDS) for name, words in kept.items()}
        self._kept = {name: device.buffer(name, 4 * WORDS * piece * len(images)) for name, images in self._sent.items()}

    def _placed(self, device: Device) -> Placement:
        """Where the points are, from the first call on."""
        if self._placement is None:
            n, limits = len(self._points), {"max-storage-buffer-binding-size": _binding_limit(device.info.limits)}
            self._placement = place(Request(n, self.choice, n, 0, 1, self._budget, limits))
        return self._placement

    def _bring(self, device: Device, first: int, size: int) -> None:
        """Writes a piece of the points over the one before."""
        piece = self._placed(device).piece.n
        for name, images in self._sent.items():
            for number, coordinates in enumerate(images):
                device.write(self._kept[name], coordinates[first : first + size], 4 * WORDS * piece * number)

    def _clear(self) -> None:
        """Gives back every byte; the kernels stay compiled."""
        self._release()
        for buffer in self._kept.values():
            self.device.release(buffer)
        self._kept = {}

    def _release(self) -> None:
        """Gives back everything but the points."""
        self._plan, buffers, self._buffers = None, self._buffers, {}
        for buffer in buffers.values():
            if self._device is not None:
                self._device.release(buffer)

    def _drop(self) -> None:
        device, self._device, self._plan, self._buffers, self._kept = self._device, None, None, {}, {}
        if device is not None:
            device.close()

    def _answers(self, vectors: Sequence[Limbs], offset: int, cancel: Event | None) -> list[Answer]:
        """Of vectors of one length. Points that do not stay as a whole are brought or recovered piece by piece."""
        if not len(vectors[0]):
            return [Answer(np.zeros(8, np.uint64)) for _ in vectors]
        device = self._opened()
        if not self._kept:
            self._fill(device)
        pieces = [
            self._piece_answers(device, [scalars[begin:end] for scalars in vectors], offset + begin, cancel)
            for begin, end in cut(len(vectors[0]), self._placed(device).piece.n)
        ]
        return [_added(parts) for parts in zip(*pieces, strict=True)]

    def _piece_answers(
        self, device: Device, vectors: Sequence[Limbs], offset: int, cancel: Event | None
    ) -> list[Answer]:
        brought = self._placed(device).points == PIECES
        try:
            plan = self._planned(device, len(vectors[0]), 0 if brought else offset, len(vectors))
        except DeviceOutOfMemory:
            if len(vectors) == 1:
                raise
            half = len(vectors) // 2
            parts = vectors[:half], vectors[half:]
            return [one for part in parts for one in self._piece_answers(device, part, offset, cancel)]
        if brought:
            self._bring(device, offset, len(vectors[0]))
        planes = np.concatenate([upload_scalars(scalars, geometry=plan.geometry) for scalars in vectors])
        compare = self._check.begin(vectors, offset, plan.geometry) if self._check is not None else None
        self._run(device, plan, planes, cancel)
        result = device.read(self._buffers["result"])
        work = plan.counters(result)
        if work["rootless"]:
            raise self._rootless(work["rootless"], offset, len(vectors[0]))
        sums = window_sums(plan.geometry, result)
        if compare is not None:
            compare(sums)
        return [Answer(point, work) for point in finish(plan.geometry, sums)]

    def _rootless(self, count: int, first: int, size: int) -> WhetError:
        """Points whose x has no y: off the curve, or the device is wrong."""
        wrong, reason = curve.check_on_curve(self._points[first : first + size])
        if reason:
            at = first + wrong
            return BadInput(f"point {at} is not on the curve", cure="leave check=False out", index=at)
        return WrongAnswer(f"the device found no y for {count:,} points of the curve", cure=CURES[WrongAnswer])

    def _run(self, device: Device, plan: Plan, planes: Words, cancel: Event | None) -> None:
        """Submission by submission; between two of them a call can be cancelled."""
        ran = run(
            device,
            plan.program,
            plan.scalars(planes),
            timestamps=self.timed,
            pace=self._pace,
            between=lambda: _require_wanted(cancel),
        )
        self.passes_ns += ran.passes
        self.span_ns = None if ran.span_ns is None else (self.span_ns or 0) + ran.span_ns

    def _planned(self, device: Device, n: int, offset: int, vectors: int) -> Plan:
        """The plan of this call with its buffers; those of the call before are used again where their sizes agree."""
        before = self._plan
        wanted = (n, offset, vectors)
        if before is not None and (before.request.n, before.request.offset, before.request.vectors) == wanted:
            return before
        piece = self._placed(device).piece
        plan = build(
            n,
            piece.choice,
            limits=piece.limits,
            memory_budget=piece.memory_budget,
            resident=piece.resident,
            offset=offset,
            vectors=vectors,
            wide=self.wide,
        )
        if before is not None and before.program.buffers == plan.program.buffers:
            device.write(self._buffers["params"], plan.program.constants["params"])
        else:
            self._release()
            rest = {name: size for name, size in plan.program.buffers.items() if name not in self._kept}
            self._buffers = device.allocate(Program(rest, (), plan.program.constants))
        self._plan = plan
        return plan


def uses_wide(device: Device, choice: Choice) -> bool:
    """Whether the multiply has 64-bit integers. What its trial allocates is gone from the ledger afterwards."""
    if choice.multiply == WIDE and "shader-int64" not in device.info.features:
        raise Unsupported(f"{device.info.key} has no 64-bit integers", cure="use multiply=portable")
    if choice.multiply != "auto":
        return choice.multiply == WIDE
    found = fastest_multiply(device)
    device.ledger = Ledger()
    return found == WIDE


def _added(parts: Sequence[Answer]) -> Answer:
    """The sum over all pieces, and the work of all."""
    if len(parts) == 1:
        return parts[0]
    total = sum((Point.from_bytes(part.limbs.tobytes()) for part in parts), Point.infinity())
    work = {name: sum(part.work[name] for part in parts) for name in parts[0].work}
    return Answer(np.frombuffer(total.to_bytes(), np.uint64), work)


def _require_wanted(cancel: Event | None) -> None:
    if cancel is not None and cancel.is_set():
        raise Cancelled("the computation was cancelled", cure="start it again")


def _binding_limit(limits: dict[str, int]) -> int:
    """Devices are opened with the browser's floor, whatever the adapter grants."""
    return min(limits["max-storage-buffer-binding-size"], 128 << 20)


def _same_length(vectors: Sequence[Limbs]) -> list[list[Limbs]]:
    return [list(run) for _, run in groupby(vectors, key=len)]
