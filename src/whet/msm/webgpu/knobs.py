"""The knobs of the GPU variants, and the constraints between them, checked before any shader is rendered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

from whet.msm.options import MEMORY_BUDGET
from whet.msm.webgpu.geometry import MAX_WINDOW_BITS
from whet.protocol import Knob, KnobValue, VariantSpec

WORKGROUP_BYTES = 16384
FIELD_BYTES = 32
ACCUMULATORS = ("gpu_plain", "walker", "coop", "pairs")
MULTIPLIES = ("auto", "portable", "wide")
SCRATCHES = ("private", "workgroup", "device")
AUTO, RESIDENT, PIECES, COMPRESSED = PLACES = ("auto", "resident", "pieces", "compressed")
FEW_THREADS, MANY_THREADS, MANY_ROWS = 4096, 8192, 1 << 18

_COMMON = (
    Knob("c", 0, minimum=0, maximum=MAX_WINDOW_BITS, help="window bits; 0 is automatic"),
    Knob("batches", 0, minimum=0, maximum=64, help="batches over the windows; 0 is by memory"),
    Knob("glv", False, help="split scalars with the endomorphism"),
    Knob("multiply", "auto", choices=MULTIPLIES, help="field multiply; wide needs 64-bit integers"),
    Knob("points", AUTO, choices=PLACES, help="where points are between calls; auto is by memory"),
    MEMORY_BUDGET,
)
_THREADS = Knob("threads", 0, minimum=0, maximum=65536, help="most threads that accumulate; 0 is automatic")
_TPB = Knob("tpb", 64, minimum=32, maximum=256, help="threads per workgroup")


@dataclass(frozen=True)
class Choice:
    """A variant with its knobs, as the planner wants them. `points=auto` plans like `resident`; see pieces.py."""

    accumulator: str = "walker"
    c: int = 0
    batches: int = 0
    glv: bool = False
    multiply: str = "auto"
    threads: int = 0
    tpb: int = 64
    slots: int = 8
    scratch: str = "private"
    g: int = 1
    points: str = AUTO
    memory_budget: int = 0

    @classmethod
    def of(cls, name: str, knobs: Mapping[str, KnobValue]) -> Self:
        """With the variant's own defaults for knobs that are not given: `pairs` has another g than `coop`."""
        defaults = {knob.name: knob.default for knob in SPECS[name].knobs} if name in SPECS else {}
        return cls(accumulator=name, **{**defaults, **knobs})  # type: ignore[arg-type]

    def __post_init__(self) -> None:
        if self.accumulator not in ("walker", "pairs"):
            object.__setattr__(self, "slots", 1)

    def kernels(self) -> Self:
        """Only what the sources depend on, so that the other knobs do not make new pipelines."""
        points = COMPRESSED if self.compressed else AUTO
        return replace(self, c=0, batches=0, glv=False, multiply="auto", threads=0, points=points, memory_budget=0)

    @property
    def planned(self) -> bool:
        """Whether there are tasks: the reference has one thread per bucket instead."""
        return self.accumulator != "gpu_plain"

    @property
    def compressed(self) -> bool:
        """Whether x and a sign are all that stays of a point, so that each sum begins with roots."""
        return self.points == COMPRESSED

    @property
    def in_passes(self) -> bool:
        """Whether each round of additions is a pass, so that slots and prefixes stay in buffers between them."""
        return self.accumulator == "pairs"

    @property
    def group_tasks(self) -> int:
        """Tasks of a workgroup."""
        return self.tpb * self.slots

    def most_tasks(self, rows: int) -> int:
        """The most tasks, whatever there is to do: whole workgroups of threads."""
        threads = self.threads or (FEW_THREADS if rows < MANY_ROWS else MANY_THREADS)
        return -(-threads // self.tpb) * self.group_tasks


def _walker(knobs: Mapping[str, KnobValue]) -> str | None:
    tpb, slots = int(knobs["tpb"]), int(knobs["slots"])
    needed = tpb * slots * FIELD_BYTES
    if knobs["scratch"] == "workgroup" and needed > WORKGROUP_BYTES:
        return f"tpb={tpb} times slots={slots} need {needed} bytes of workgroup memory, {WORKGROUP_BYTES} are granted"
    return _common(knobs)


def _coop(knobs: Mapping[str, KnobValue]) -> str | None:
    tpb, g = int(knobs["tpb"]), int(knobs["g"])
    if tpb % g:
        return f"g={g} does not divide tpb={tpb}"
    if g > 1 and 2 * tpb * FIELD_BYTES > WORKGROUP_BYTES - 64:
        return f"tpb={tpb} needs {2 * tpb * FIELD_BYTES} bytes of workgroup memory for g={g}; use at most 255"
    return _common(knobs)


def _common(knobs: Mapping[str, KnobValue]) -> str | None:
    c = int(knobs["c"])
    if c and c < 4:
        return f"c={c} is below 4"
    return None


SPECS = {
    "gpu_plain": VariantSpec("gpu_plain", "WebGPU: one thread per bucket; the reference", _COMMON, _common),
    "walker": VariantSpec(
        "walker",
        "WebGPU: each thread walks several slots through the buckets and shares their inversion",
        (
            Knob("slots", 8, choices=(1, 2, 4, 8, 16), help="additions that share an inversion"),
            Knob("scratch", "private", choices=SCRATCHES, help="where prefix products are kept"),
            _TPB,
            _THREADS,
            *_COMMON,
        ),
        _walker,
    ),
    "coop": VariantSpec(
        "coop",
        "WebGPU: one slot per thread; g threads share an inversion",
        (
            Knob("g", 1, minimum=1, maximum=256, help="threads per inversion: 1, a divisor of tpb, or tpb itself"),
            _TPB,
            _THREADS,
            *_COMMON,
        ),
        _coop,
    ),
    "pairs": VariantSpec(
        "pairs",
        "WebGPU: a pass per round of additions; g threads share an inversion, which has a pass of its own",
        (
            Knob("slots", 8, choices=(1, 2, 4, 8, 16), help="additions of a thread in a round"),
            Knob("g", 8, choices=(1, 2, 4, 8, 16), help="threads per inversion"),
            _TPB,
            _THREADS,
            *_COMMON,
        ),
        _common,
    ),
}
