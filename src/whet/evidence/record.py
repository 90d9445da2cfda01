"""The records of a run: what the trial produces, the store keeps and the report shows. Plain data, no behaviour.

`SCHEMA_VERSION` goes up whenever a field changes its meaning or goes; `docs/run.schema.json` is generated from here.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from whet.protocol import Case, Tolerance

SCHEMA_VERSION = 2

# The arms of a trial that are no variants: the baseline once more, and a call that does nothing.
CONTROL = "(control)"
EMPTY = "(empty)"
# The budget of a run that another tool measured: nothing in it was gated or interleaved.
IMPORTED = "imported"
# How `Run.stopped` begins after Ctrl-C.
INTERRUPTED = "interrupted"


class Outcome(StrEnum):
    """The verdict on one candidate against the baseline."""

    FASTER = "FASTER"
    SLOWER = "SLOWER"
    SAME = "SAME"
    UNDECIDED = "UNDECIDED"
    REFUSED = "REFUSED"


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One turn of one variant. Stored only when its gate is green.

    `wall_ns` is what the variant's own clock said, `outside_ns` the span from thaw to its answer less waiting for
    others to leave a core, `cpu_ns` the processor time of all its threads from thaw to freeze. `round` counts over the
    whole trial.
    """

    variant: str
    round: int
    order: int
    seed: int
    calls: int
    wall_ns: int
    cpu_ns: int
    device_ns: int | None = None
    check: str = "digest"
    digest: str = ""
    block: int = 0
    outside_ns: int = 0


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why the gate is red: the smallest failing case found, and a command that fails again."""

    reason: str
    detail: str
    case: Case
    seed: int
    fixed_seed: int
    command: str
    expected: dict[str, Any] = {}
    got: dict[str, Any] = {}
    inputs_path: str | None = None


class Gate(msgspec.Struct, frozen=True, kw_only=True):
    """Oracle against variant: green or red, and how often it was asked."""

    variant: str
    green: bool
    full_checks: int
    digest_checks: int
    failure: Failure | None = None


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """Candidate against baseline. `ratio` is candidate time / baseline time: below 1 is faster."""

    candidate: str
    baseline: str
    outcome: Outcome
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    confidence: float = 0.99
    effect: float = 0.02
    clock: str = "wall"
    reasons: list[str] = []
    # What the ratio is a ratio of, and the same ratio by the other statistics.
    judged_by: str = "median"
    ratios: dict[str, float] = {}


class Control(msgspec.Struct, frozen=True, kw_only=True):
    """The baseline against itself under another name, in the same trial: its distance from 1 is the noise floor."""

    outcome: Outcome
    ratio: float
    low: float
    high: float


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """One set of fresh processes and the cores they took turns on."""

    number: int
    cores: list[int]
    rounds: int


class Design(msgspec.Struct, frozen=True, kw_only=True):
    """How the trial was laid out."""

    regime: str = "warm"
    calls: int = 1
    confidence: float = 0.99
    candidates: int = 1
    blocks: list[Block] = []


class Tails(msgspec.Struct, frozen=True, kw_only=True):
    """Nanoseconds per call of one variant. `spread` is the middle half over the median."""

    median: float
    mean: float
    p90: float
    p99: float
    spread: float


class Floor(msgspec.Struct, frozen=True, kw_only=True):
    """Below what no variant can be, per call: an empty variant's turn, and reading the inputs once."""

    empty_ns: float
    read_ns: float
    bandwidth_bytes_per_s: float
    turn_overhead_ns: float


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """What the engine says that one call has to do at least."""

    moved_bytes: int = 0
    operations: int = 0
    operation: str = "FLOP"


class Resources(msgspec.Struct, frozen=True, kw_only=True):
    """What a program took beside its time, with all that it started: medians, and the largest memory of any run."""

    user_ns: float
    system_ns: float
    peak_bytes: int
    # A program begins as a copy of what starts it: a peak below this cannot be seen.
    least_bytes: int = 0


class Isolation(msgspec.Struct, frozen=True, kw_only=True):
    """What kept a variant's process apart. `missing` names what the system refused, each with the reason."""

    name: str
    granted: list[str] = []
    missing: dict[str, str] = {}


class Warning(msgspec.Struct, frozen=True, kw_only=True):
    """One thing a reader should know before believing the numbers."""

    kind: str
    seen: str
    why: str
    advice: str


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """Everything above, with its environment."""

    id: str
    schema_version: int = SCHEMA_VERSION
    created: str
    engine: str
    engine_ref: str
    engine_sha256: str
    command: str
    case: Case
    device: str
    seed: int
    fixed_seed: int
    budget: str
    baseline: str
    variants: list[str]
    gates: list[Gate]
    samples: list[Sample]
    verdicts: list[Verdict]
    warnings: list[Warning]
    environment: dict[str, Any]
    stopped: str
    elapsed_s: float
    regions: dict[str, Any] = {}
    memory: dict[str, Any] = {}
    design: Design | None = None
    control: Control | None = None
    tails: dict[str, Tails] = {}
    floor: Floor | None = None
    isolation: Isolation | None = None
    # Largest error of any checked output, as a share of what the tolerance allows; by variant.
    errors: dict[str, float] = {}
    task_examined: bool = False
    # What the oracle's answers allow, and one line about each variant of the engine.
    tolerance: Tolerance | None = None
    summaries: dict[str, str] = {}
    work: Done | None = None
    # Of programs alone, by variant.
    resources: dict[str, Resources] = {}
    # What the oracle took of `elapsed_s`.
    oracle_s: float = 0.0

    @property
    def interrupted(self) -> bool:
        """Ctrl-C ended its trial; what had been measured by then is here."""
        return self.stopped.startswith(INTERRUPTED)

    @property
    def place(self) -> str:
        """The device, and the kind of machine where a run came home from another one: what a time is a time of."""
        kind = (self.environment.get("cluster") or {}).get("kind")
        return f"{self.device} on {kind}" if kind else self.device

    @property
    def where(self) -> str:
        """The place, and the adapter that variants brought along where the device is not the adapter itself."""
        key = (self.environment.get("adapter") or {}).get("key")
        return f"{self.place} + webgpu:{key}" if key and not self.device.startswith("webgpu") else self.place


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What a person chose to ship, and why. Kept beside the run, never inside it: the verdict stays the tool's own."""

    run_id: str
    decided: str
    ship: str
    because: str


class Export(msgspec.Struct, frozen=True, kw_only=True):
    """What leaves whet as JSON: runs whole, and what people decided about them."""

    schema_version: int = SCHEMA_VERSION
    runs: list[Run]
    decisions: list[Decision] = []
