"""The one table of ways to compute an MSM. The API, the engine under the gate and the command line all read it.

A variant takes points once (`prepare`) and scalars many times (`Prepared.compute`). To add one, add an entry to
`TABLE`; to make `variant="auto"` prefer it, put its name into `PREFERENCE`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Protocol

from whet._native import msm as native
from whet.errors import BadInput, Cancelled
from whet.msm.affine import BACKENDS, Affine, Event, Progress
from whet.msm.options import MAX_THREADS, MEMORY_BUDGET, PRECOMPUTE, shown
from whet.msm.validate import Limbs
from whet.msm.webgpu.knobs import SPECS as GPU_SPECS
from whet.msm.webgpu.knobs import Choice
from whet.protocol import Knob, KnobValue, MemoryRow, Variant, VariantSpec, choose_variant


@dataclass(frozen=True)
class Answer:
    """The sum as (8,) canonical limbs, x then y, zeros for infinity; and what was done to get it."""

    limbs: Limbs
    work: Mapping[str, int] = field(default_factory=dict)


class Prepared(Protocol):
    """Points in the form that a variant wants. Safe to call from several threads at once."""

    def compute(
        self, scalars: Limbs, offset: int, *, cancel: Event | None = None, progress: Progress | None = None
    ) -> Answer:
        """The sum of scalars[i] times point offset + i. Scalars are (m, 4) plain limbs, m within the points.

        A variant that cannot stop half-way looks at `cancel` before it starts.
        """

    def close(self) -> None:
        """Releases what was prepared."""


# (points in Montgomery form (n, 8), every knob, threads or None for the variant's own choice)
Prepare = Callable[[Limbs, Mapping[str, KnobValue], int | None], Prepared]


@dataclass(frozen=True)
class Implementation:
    """A variant on offer, how to make it, and whether this machine can run it."""

    spec: VariantSpec
    prepare: Prepare
    usable: Callable[[], bool] = lambda: True


class Reference:
    """The portable algorithms: nothing prepared but the points themselves, one thread."""

    def __init__(self, points: Limbs, compute: Callable[[Limbs, Limbs], tuple[Limbs, dict[str, int]]]) -> None:
        self._points = points
        self._compute = compute

    def compute(
        self, scalars: Limbs, offset: int, *, cancel: Event | None = None, progress: Progress | None = None
    ) -> Answer:
        if cancel is not None and cancel.is_set():
            raise Cancelled("the computation was cancelled", cure="start it again")
        limbs, work = self._compute(self._points[offset : offset + len(scalars)], scalars)
        return Answer(limbs.reshape(8), work)

    def close(self) -> None:
        pass


class AffineSums:
    """The fast engine; `native` has what only it can do (save, cancel, memory map)."""

    def __init__(self, native_engine: Affine) -> None:
        self.native = native_engine
        self.last_work: Mapping[str, int] = {}

    def compute(
        self, scalars: Limbs, offset: int, *, cancel: Event | None = None, progress: Progress | None = None
    ) -> Answer:
        limbs, work = self.native.run(scalars, offset, cancel=cancel, progress=progress)
        self.last_work = work
        return Answer(limbs, work)

    def batch(self, vectors: Sequence[Limbs], offset: int) -> list[Answer]:
        """One answer per vector, all of one length."""
        answers = [Answer(limbs, work) for limbs, work in self.native.run_batch(vectors, offset)]
        if answers:
            self.last_work = answers[-1].work
        return answers

    def save(self, path: bytes) -> None:
        self.native.save(path)

    def cancel(self) -> None:
        self.native.cancel()

    def memory_map(self, n: int, *, scalar_bits: int) -> list[MemoryRow]:
        return self.native.memory_map(n, scalar_bits=scalar_bits)

    def close(self) -> None:
        self.native.close()


def _affine(points: Limbs, knobs: Mapping[str, KnobValue], threads: int | None) -> Prepared:
    threads = threads or int(knobs["threads"]) or None
    if budget := int(knobs["memory_budget"]):
        from whet.msm.budget import GivenPoints, prepare_within

        given = GivenPoints(points, endian="little", montgomery=True, check=False)
        return prepare_within(budget, Variant("affine", dict(knobs)), given, threads)
    windows, precompute = int(knobs["windows"]), int(knobs["precompute"])
    return AffineSums(Affine.prepared(points, str(knobs["backend"]), threads, windows, precompute))


def _plain(points: Limbs, knobs: Mapping[str, KnobValue], threads: int | None) -> Prepared:
    return Reference(points, native.plain)


def _pippenger(points: Limbs, knobs: Mapping[str, KnobValue], threads: int | None) -> Prepared:
    c, glv = int(knobs["c"]), bool(knobs["glv"])
    return Reference(points, lambda p, k: native.pippenger(p, k, c, glv))


def _on_gpu(name: str) -> Prepare:
    def make(points: Limbs, knobs: Mapping[str, KnobValue], threads: int | None) -> Prepared:
        from whet.msm.webgpu.sums import WebGpuSums

        return WebGpuSums(points, Choice.of(name, knobs))

    return make


def _has_gpu() -> bool:
    """Whether the package that reaches GPUs is installed. Looking for an adapter takes seconds: that is left to use."""
    return find_spec("wgpu") is not None


TABLE: dict[str, Implementation] = {
    "plain": Implementation(
        VariantSpec("plain", "one product at a time by double and add; the reference"),
        _plain,
    ),
    "pippenger": Implementation(
        VariantSpec(
            "pippenger",
            "buckets with signed windows, portable C++, one thread",
            (
                Knob("c", 0, minimum=0, maximum=native.max_window_bits, help="window bits; 0 is automatic"),
                Knob("glv", False, help="split scalars with the endomorphism"),
            ),
        ),
        _pippenger,
    ),
    "affine": Implementation(
        VariantSpec(
            "affine",
            "batch-affine buckets, GLV, every core; AVX-512 IFMA, AVX2, mulx/adx or portable",
            (
                Knob("backend", "auto", choices=BACKENDS, help="kernel; auto takes the fastest of this CPU"),
                Knob("windows", 0, minimum=0, maximum=64, help="number of windows; 0 is automatic"),
                Knob("threads", 0, minimum=0, maximum=MAX_THREADS, help="threads; 0 is one per core"),
                MEMORY_BUDGET,
                PRECOMPUTE,
            ),
        ),
        _affine,
    ),
    **{name: Implementation(spec, _on_gpu(name), _has_gpu) for name, spec in GPU_SPECS.items()},
}

# What "auto" means: the first of these that is in the table and usable here.
PREFERENCE: list[str] = ["affine", "pippenger:glv=true"]


def choose(text: str) -> Variant:
    """Reads `name:knob=value,...` or "auto"."""
    if not isinstance(text, str):
        raise BadInput(f"variant={shown(text)} is not text", cure='give a name such as "affine", or leave it out')
    if text == "auto":
        text = next(item for item in PREFERENCE if TABLE[item.partition(":")[0]].usable())
    return choose_variant("msm", [implementation.spec for implementation in TABLE.values()], text)


def prepare(variant: Variant, points: Limbs, threads: int | None = None) -> Prepared:
    """Points in Montgomery form to something that computes; knobs that were not given take their defaults."""
    implementation = TABLE[variant.name]
    knobs = {knob.name: variant.knobs.get(knob.name, knob.default) for knob in implementation.spec.knobs}
    return implementation.prepare(points, knobs, threads)
