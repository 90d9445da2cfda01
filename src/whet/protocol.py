"""What an engine says about itself, so that one gate, one trial and one report serve every kernel.

An engine subclasses `Engine` and fills in six methods; it imports nothing of the evidence layer. The runner owns
every buffer: it allocates outputs (poisoned, between guard words), refills inputs in place from a fresh seed before
each repeat and asks the oracle in another process. A variant only reads `inputs` and writes `outputs`.
"""

from __future__ import annotations

import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from whet.errors import BadInput, Unsupported

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]
KnobValue = int | bool | str
MAX_SIZE = 2**62


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes and an input profile. With a seed it names the very bytes of the inputs."""

    sizes: dict[str, int]
    profile: str = "random"

    def __str__(self) -> str:
        return " ".join([*(f"{axis}={size}" for axis, size in self.sizes.items()), f"profile={self.profile}"])


@dataclass(frozen=True)
class Knob:
    """A typed parameter of a variant. `choices` or the inclusive range is checked before anything runs."""

    name: str
    default: KnobValue
    choices: tuple[KnobValue, ...] | None = None
    minimum: int | None = None
    maximum: int | None = None
    help: str = ""

    def parse(self, text: str) -> KnobValue:
        value: KnobValue = text
        if isinstance(self.default, bool):
            if text.lower() not in ("true", "false", "1", "0", "on", "off"):
                raise self._bad(text)
            value = text.lower() in ("true", "1", "on")
        elif isinstance(self.default, int):
            value = parse_size(text, what=f"knob {self.name}")
        if self.choices is not None and value not in self.choices:
            raise self._bad(text)
        if isinstance(value, int) and not isinstance(value, bool):
            below = self.minimum is not None and value < self.minimum
            above = self.maximum is not None and value > self.maximum
            if below or above:
                raise self._bad(text)
        return value

    def _bad(self, text: str) -> BadInput:
        if self.choices is not None:
            allowed = ", ".join(str(choice).lower() for choice in self.choices)
        elif isinstance(self.default, bool):
            allowed = "true, false"
        else:
            allowed = f"{self.minimum} to {self.maximum}"
        return BadInput(f"knob {self.name}={text!r} is not allowed", cure=f"allowed: {allowed}")


class Variant(msgspec.Struct, frozen=True):
    """One named way to compute, with every knob filled in. `str()` is the spelling users type.

    `file` is set for a candidate: a variant from a file of its own, which only its own process ever loads. `revision`
    is set for a variant as it is in another revision of its project.
    """

    name: str
    knobs: dict[str, KnobValue] = {}
    file: str = ""
    revision: str = ""

    def __str__(self) -> str:
        of = f"@{self.revision}" if self.revision else ""
        if self.file:
            return f"{Path(self.file).name}:{self.name}{of}"
        if not self.knobs:
            return f"{self.name}{of}"
        spelled = (f"{k}={str(v).lower() if isinstance(v, bool) else v}" for k, v in self.knobs.items())
        return f"{self.name}:{','.join(spelled)}{of}"


@dataclass(frozen=True)
class VariantSpec:
    """A variant on offer: its knobs, and the constraint between them (returns the complaint, or None)."""

    name: str
    summary: str
    knobs: tuple[Knob, ...] = ()
    constraint: Callable[[Mapping[str, KnobValue]], str | None] | None = None

    def choose(self, given: Mapping[str, str]) -> Variant:
        known = {knob.name: knob for knob in self.knobs}
        for name in given:
            if name not in known:
                offer = ", ".join(known) or "none"
                raise BadInput(f"variant {self.name} has no knob {name!r}", cure=f"knobs: {offer}")
        knobs = {k.name: k.parse(given[k.name]) if k.name in given else k.default for k in self.knobs}
        complaint = self.constraint(knobs) if self.constraint else None
        if complaint:
            raise BadInput(f"variant {self.name}: {complaint}", cure="change the knob it names")
        return Variant(self.name, {name: knobs[name] for name in known if name in given})


@dataclass(frozen=True)
class Output:
    """Shape and type of one output buffer."""

    shape: tuple[int, ...]
    dtype: npt.DTypeLike


@dataclass(frozen=True)
class Tolerance:
    """Allowed distance |got - want| <= absolute + relative * |want| + of_largest * max |want|. All zero: equal bits.

    `by_dtype` leaves it to the type of each output: some of `relative` and as much `of_largest`, more for narrower
    floats, nothing for integers. The largest is taken over one output, so that cancellation is forgiven by the scale of
    the answer and not by a number that somebody once thought small.
    """

    relative: float = 0.0
    absolute: float = 0.0
    of_largest: float = 0.0
    by_dtype: bool = False

    @property
    def exact(self) -> bool:
        return not (self.by_dtype or self.relative or self.absolute or self.of_largest)

    def of(self, dtype: npt.DTypeLike) -> Tolerance:
        """What it means for one output."""
        if not self.by_dtype:
            return self
        share = _share_of(np.dtype(dtype))
        return Tolerance(relative=share, of_largest=share)

    def in_words(self) -> str:
        if self.by_dtype:
            return "by type: 1e-10 for float64, 1e-5 for float32, 1e-2 for float16, of the value and of the largest"
        parts = (
            (self.absolute, ""),
            (self.relative, " of the expected value"),
            (self.of_largest, " of the largest expected value"),
        )
        return " plus ".join(f"{value:g}{of}" for value, of in parts if value) or "equal to the bit"


# Far above the round-off of an honest order of sums, far below that of the next narrower type.
_SHARES = {2: 1e-2, 4: 1e-5, 8: 1e-10, 16: 1e-13}
_NARROW = {"bfloat16": 3e-2, "float8": 0.2}


def _share_of(dtype: np.dtype[Any]) -> float:
    if dtype.kind in "fc":
        return _SHARES.get(dtype.itemsize // (2 if dtype.kind == "c" else 1), 1e-13)
    return next((share for name, share in _NARROW.items() if dtype.name.startswith(name)), 0.0)


BY_DTYPE = Tolerance(by_dtype=True)


Clock = Literal["wall", "device"]


@dataclass(frozen=True)
class MemoryRow:
    """One buffer of a closed-form memory map."""

    name: str
    size_bytes: int
    lifetime: str = "run"


@dataclass(frozen=True)
class BudgetStep:
    """One way to do with less memory: its peak, how in words, and what the engine knows of it, by name.

    Names that end in `_bytes` or `_ns` say their unit. `variant` is what runs like that, for a step worth timing.
    """

    total_bytes: int
    words: str
    facts: Mapping[str, int | None]
    variant: str = ""


@dataclass(frozen=True)
class BudgetFrontier:
    """What ever smaller budgets give, the fewest bytes last; `chosen`, with its map, is for the budget asked for.

    `model` says how the facts that are no sizes were estimated.
    """

    variant: str
    n: int
    rows: Sequence[MemoryRow]
    chosen: BudgetStep
    steps: Sequence[BudgetStep]
    floor_bytes: int
    model: str = ""


@dataclass(frozen=True)
class KernelSource:
    """A kernel as a device gets it: its WGSL and the entry point."""

    source: str
    entry: str


@dataclass(frozen=True)
class Kernels:
    """Every pass of a variant, by name."""

    variant: str
    passes: Mapping[str, KernelSource]


@dataclass(frozen=True)
class Sheet:
    """Regions of one run as a kernel wrote them, worker by worker: the cells as .npy, and what they mean as JSON."""

    cells: bytes
    about: bytes


@dataclass
class Timing:
    """What a device clock said about the last run; an engine that has none leaves it None."""

    device_ns: int | None = None
    regions_ns: dict[str, int] = field(default_factory=dict)
    # Of these regions: what a verdict sums by (such as `k_reducible`), and which ones wait for others.
    tags: Mapping[str, Sequence[str]] = field(default_factory=dict)
    waits: frozenset[str] = frozenset()
    # Where every stretch of every worker is known; `regions_ns` are then its totals.
    sheet: Sheet | None = None


@dataclass(frozen=True)
class PortableProgram:
    """A variant's work on one case as data and two functions, for a device that only others reach, such as a phone's.

    `program` is a `whet.gpu.Program`. `feed` gives the contents of its buffers and uploads for the inputs of a call,
    `kept` those that stay over all calls. The buffers named in `outputs` are read when it has run, as 32-bit words,
    and `finish(read, outputs)` writes the outputs from them.
    """

    program: Any
    outputs: Sequence[str]
    feed: Callable[[Arrays], Arrays]
    finish: Callable[[Arrays, Arrays], None]
    kept: Arrays = field(default_factory=dict)


@dataclass(frozen=True)
class HardCase:
    """A ready-made case with its answer, of a named kind. Its seed and number make it again.

    `tolerance` is that of this case alone; the engine's unless given.
    """

    kind: str
    number: int
    case: Case
    fixed: Arrays
    inputs: Arrays
    expected: Arrays
    tolerance: Tolerance | None = None


@dataclass(frozen=True)
class Inspection:
    """What was compared inside a variant, and where it is first wrong; no findings where all is right."""

    compared: str
    findings: Sequence[str] = ()


@dataclass(frozen=True)
class Work:
    """What one call has to do at least, whatever the variant: bytes moved to and from memory, and operations.

    `operations` are floating point unless `operation` names another kind, such as `points`.
    """

    moved_bytes: int = 0
    operations: int = 0
    operation: str = "FLOP"


class Engine(ABC):
    """Base of every engine, ours and yours."""

    name: str
    tolerance: Tolerance = BY_DTYPE
    devices: tuple[str, ...] = ("cpu",)

    @abstractmethod
    def cases(self) -> Sequence[Case]:
        """The cases worth trying, smallest first. The first one shows which axes and profiles exist."""

    def profiles(self) -> Sequence[str]:
        """The input profiles that `prepare` knows."""
        return ("random",)

    @abstractmethod
    def variants(self) -> Sequence[VariantSpec]:
        """What can be compared; the first one is the plain reference."""

    @abstractmethod
    def outputs(self, case: Case) -> Mapping[str, Output]:
        """The buffers that a variant must fill completely."""

    def fixed(self, case: Case, seed: int) -> dict[str, Array]:
        """Inputs that stay the same over a whole trial, such as a point table. Deterministic in (case, seed)."""
        return {}

    @abstractmethod
    def prepare(self, case: Case, seed: int) -> dict[str, Array]:
        """Inputs that are new in every repeat. Deterministic in (case, seed)."""

    def setup(self, variant: Variant, case: Case, fixed: Arrays, device: str) -> Any:
        """Untimed, once per process and case; what it returns is `state` in `run`. Without a set-up that is the case.

        It never sees the inputs of a repeat.
        """
        return case

    @abstractmethod
    def run(self, variant: Variant, state: Any, inputs: Arrays, outputs: Arrays) -> None:
        """The timed call. `state` is what `setup` returned: the case, unless the engine has a set-up of its own.

        `inputs` holds what `fixed` and `prepare` made; none of it can be written. `outputs` are the buffers to fill.
        """

    @abstractmethod
    def oracle(self, case: Case, fixed_seed: int, seed: int, inputs: Arrays) -> dict[str, Array]:
        """The independent answer. Shares no code with the variants; called in another process on inputs made anew."""

    def hard_cases(self, seed: int, numbers: range) -> Iterable[HardCase]:
        """Small cases made to break a variant; `whet check --cases` goes on to them after the engine's own cases.

        Deterministic in (seed, number). An engine that has none gives none.
        """
        return ()

    def inspect(self, variant: Variant, case: Case, seed: int, device: str) -> Inspection | None:
        """Looks inside one run of a variant for the first place that is wrong; None where nothing can be seen."""
        return None

    def candidates(self, case: Case) -> Sequence[str]:
        """Variants worth measuring for a case on an unknown machine, the safe default first, then by promise."""
        return ()

    def device_of(self, variant: Variant, device: str) -> str:
        """Where a variant really runs in a run on `device`; an engine may compare devices in one run."""
        return device

    def portable(self, variant: Variant, case: Case, fixed: Arrays) -> PortableProgram:
        """What a variant computes as a program, for devices that are reached through a browser."""
        raise Unsupported(
            f"engine {self.name} does not describe {variant.name} as a program",
            cure="give it portable() (examples/saxpy_webgpu.py has one), or take a variant that has one",
        )

    def timing(self, state: Any) -> Timing | None:
        """Device time of the last `run`, where the device has a clock of its own."""
        return None

    def memory_map(self, case: Case, variant: Variant) -> Sequence[MemoryRow]:
        """Closed-form sizes of everything a run allocates; empty where the engine does not promise one."""
        return ()

    def work(self, case: Case) -> Work | None:
        """What a call has to move and to compute at least; from it come GB/s, FLOP/s and the share of the floor."""
        return None

    def budget_frontier(self, variant: str | None, n: int, budget_bytes: int | None) -> BudgetFrontier:
        """What a memory budget does to a variant (the engine's own choice unless named), in closed form."""
        raise Unsupported(
            f"engine {self.name} has no budget lever", cure="its map is in the runs that `whet ab` stores"
        )

    def kernels(self, variant: str | None) -> Kernels:
        """The GPU kernels of a variant (the engine's own choice unless named), rendered without a device."""
        raise Unsupported(f"engine {self.name} does not describe its kernels", cure="use an engine that does: msm")

    def close(self, state: Any) -> None:
        """Releases what `setup` made."""

    @property
    def source(self) -> Path:
        """The file that is named when something in the engine raises."""
        return Path(getattr(sys.modules.get(type(self).__module__), "__file__", None) or self.name)

    def sources(self) -> Sequence[str | Path]:
        """Files besides its own that decide what runs, such as a C source; hashed into every run.

        Shared libraries that a variant has loaded are found without being named here.
        """
        return ()

    def cautions(self) -> Sequence[str]:
        """What a reader of any run of this engine should know, such as an oracle that is one of the variants."""
        return ()


def parse_size(text: str, *, what: str = "size") -> int:
    """Reads 4096, 2^12, 4_096 or 1e5. Anything else is BadInput."""
    if found := re.fullmatch(r"\s*([+-]?\d{1,19}(?:\.\d{1,8})?)[eE]\+?(\d{1,3})\s*", text, re.ASCII):
        whole = Decimal(found[1]).scaleb(int(found[2]))
        if abs(whole) > MAX_SIZE:
            raise BadInput(f"{what} {_shorten(text)} is too large", cure="stay below 2^62")
        if whole == whole.to_integral_value():
            return int(whole)
    base, caret, exponent = text.strip().partition("^")
    try:
        value, power = int(base), int(exponent) if caret else 1
        if power < 0:
            raise ValueError
    except ValueError:
        raise BadInput(f"{what} {_shorten(text)} is not a whole number", cure="write 4096, 2^12 or 1e5") from None
    # Bounded before it is computed: 9^999999999 must be an error, not an hour.
    if abs(value) > MAX_SIZE or (abs(value) > 1 and power > 63) or abs(value**power) > MAX_SIZE:
        raise BadInput(f"{what} {_shorten(text)} is too large", cure="stay below 2^62")
    return int(value**power)


def parse_bytes(text: str, *, what: str = "budget") -> int:
    """Reads 100MB, 64MiB, 1.5GB or any size without a unit. Anything else is BadInput."""
    found = re.fullmatch(r"\s*(\d{1,12}(?:\.\d{1,6})?)\s*([kKMGT])(i?)B\s*", text)
    if found is None:
        try:
            return parse_size(text.strip().removesuffix("B"), what=what)
        except BadInput as error:
            raise BadInput(error.cause, cure="write 64MB, 1.5GiB or a number of bytes") from None
    number, prefix, binary = found.groups()
    unit = (1024 if binary else 1000) ** ("kMGT".index("k" if prefix == "K" else prefix) + 1)
    return int(Decimal(number) * unit)


def _shorten(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...")


def parse_variant(engine: Engine, text: str) -> Variant:
    """Reads `name` or `name:knob=value,knob=value` against what the engine offers."""
    return choose_variant(engine.name, engine.variants(), text)


def choose_variant(engine_name: str, offered: Sequence[VariantSpec], text: str) -> Variant:
    """The same for callers that have the specs but no engine."""
    name, _, rest = text.partition(":")
    specs = {spec.name: spec for spec in offered}
    if name not in specs:
        raise BadInput(f"engine {engine_name} has no variant {name!r}", cure=f"variants: {', '.join(specs)}")
    given: dict[str, str] = {}
    for item in filter(None, rest.split(",")):
        knob, equals, value = item.partition("=")
        if not equals or not value:
            raise BadInput(f"{item!r} in {text!r} is not knob=value", cure=f"write {name}:knob=value,...")
        if knob in given:
            raise BadInput(f"knob {knob} is given twice in {text!r}", cure="give it once")
        given[knob] = value
    return specs[name].choose(given)
