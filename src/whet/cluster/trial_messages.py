"""What is said between the machine that asks for a trial and the process that runs it: one JSON record per line."""

from __future__ import annotations

import msgspec

from whet.evidence.budgets import Budget
from whet.evidence.record import Run
from whet.evidence.statistics import Judge
from whet.protocol import Case, Clock


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """A file that travels, by its path below a common folder."""

    path: str
    content: bytes


class AskFacts(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What machine is this? `adapter`: ask its GPU as well, which takes a moment."""

    adapter: bool


class RunTrial(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """One trial. Paths of files are below the folder that `files` are put into; no variants: all that can run there."""

    engine: str
    engine_sha256: str
    variants: list[str]
    baseline: str | None
    case: Case
    budget: Budget
    effect: float
    judge: Judge
    regime: str
    device: str | None
    clock: Clock
    seed: int
    call_limit_s: float
    command: str
    task_examined: bool
    whet: str
    files: list[Sent] = []


class Facts(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A machine as it sees itself."""

    whet: str
    python: str
    cpu: str
    cores: int
    adapter: str = ""


class Progress(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """How far it is; the same again when nothing happened, to show that it is there."""

    share: float
    note: str


class Finished(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The run, the folders that paths in it begin with, and the evidence of what was refused.

    `left_out`: variants that have no device there, and why; only where no variant was named.
    """

    run: Run
    files_folder: str
    evidence_folder: str
    evidence: list[Sent] = []
    left_out: dict[str, str] = {}


class Failed(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """No run: the error that the command line would have shown there."""

    kind: str
    cause: str
    cure: str


Request = AskFacts | RunTrial
Answer = Facts | Progress | Finished | Failed
