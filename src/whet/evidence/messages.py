"""What the processes of a trial say to each other: one record per request and per answer, decoded strictly.

A bench runs foreign code, so whatever comes from one is decoded as `FromBench` or it is no message at all.
"""

from __future__ import annotations

from typing import Any

import msgspec

from whet.evidence.buffers import Arena
from whet.protocol import Case, Sheet, Tolerance, Variant


class Request(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Base of everything that the parent asks for. `fds` are descriptors that follow the message."""

    fds: int = 0


class Tree(msgspec.Struct, frozen=True, kw_only=True):
    """A revision's own copy of the working tree `of`. `site` holds what its build put there beside it."""

    root: str
    of: str
    site: str
    label: str
    commit: str


class Load(Request, frozen=True, kw_only=True, tag=True):
    """Load the task, or nothing but a candidate's own file. An empty `ref` means neither: the empty variant.

    With a `tree` it is loaded as it is in that revision. `memory_bytes` is all that the process may have, if not 0.
    """

    ref: str = ""
    variant: Variant | None = None
    device: str = "cpu"
    tree: Tree | None = None
    memory_bytes: int = 0
    # The device is reached by the parent alone: the bench describes the work, feeds it and finishes it.
    elsewhere: bool = False


class Measure(Request, frozen=True, kw_only=True, tag=True):
    """To the referee: make a case and say how large its buffers are."""

    case: Case
    fixed_seed: int
    probe_seed: int
    slots: int


class Layout(Request, frozen=True, kw_only=True, tag=True):
    """Where everything of a case lies. The answer to `Measure`, and what every process maps its memory by."""

    case: Case
    fixed: Arena
    inputs: Arena
    outputs: Arena
    prepare_ns: int = 0


class Draw(Request, frozen=True, kw_only=True, tag=True):
    """To the referee: make the inputs of a round, in private."""

    seeds: list[int]


class Reveal(Request, frozen=True, kw_only=True, tag=True):
    """To the referee: write these of the round's inputs where one arm reads them."""

    arm: int
    slots: list[int]


class Kept(Request, frozen=True, kw_only=True, tag=True):
    """To the referee: are that arm's inputs what they were?"""

    arm: int


class Expect(Request, frozen=True, kw_only=True, tag=True):
    """To the referee: ask the oracle about these slots and leave the answers for the judge.

    With `watch` it also looks whether the oracle left its inputs as they were.
    """

    slots: list[int]
    watch: bool = False


class Poison(Request, frozen=True, kw_only=True, tag=True):
    """To the judge: guard words and a pattern of its own into the outputs of each arm, before a turn."""

    words: dict[int, int]


class Judge(Request, frozen=True, kw_only=True, tag=True):
    """To the judge: copy the outputs of these arms and judge the copies.

    `expected` names the slots with an answer of the oracle's; in the others the arms have to agree with each other.
    """

    calls: dict[int, int]
    expected: list[int]
    tolerance: Tolerance


class Save(Request, frozen=True, kw_only=True, tag=True):
    """Inputs and expected values (referee) or what came out (judge) of one slot, into a file."""

    arm: int
    slot: int
    path: str


class Evict(Request, frozen=True, kw_only=True, tag=True):
    """To the judge: push everything out of the caches of these cores."""

    cores: list[int]


class Seal(Request, frozen=True, kw_only=True, tag=True):
    """To a bench: no new process, no file opened for writing from now on."""


class WarmUp(Request, frozen=True, kw_only=True, tag=True):
    """To a bench: so many calls that do not count, on the first slots, and everything tidied for the turn."""

    calls: int


class Turn(Request, frozen=True, kw_only=True, tag=True):
    """To a bench: so many calls, each on a slot of its own from `first` on, as fast as it can."""

    first: int
    calls: int
    with_timing: bool = False


class Describe(Request, frozen=True, kw_only=True, tag=True):
    """To a bench whose device is elsewhere: the program, what stays there, and what to warm up on."""


class Feed(Request, frozen=True, kw_only=True, tag=True):
    """To the same: what these calls send to the device."""

    calls: int


class Finish(Request, frozen=True, kw_only=True, tag=True):
    """To the same: what the device left behind after each call, to make the outputs of."""

    read: list[dict[str, bytes]]


class Attempt(Request, frozen=True, kw_only=True, tag=True):
    """To a bench: one untimed call on arrays that come with the message; nothing of it is kept."""

    case: Case
    fixed: dict[str, Any]
    inputs: dict[str, Any]
    outputs: Arena
    poison: int


class Answer(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Base of everything that comes back."""


class Hello(Answer, frozen=True, kw_only=True, tag=True):
    """The first word of a process: its id as the parent sees it, and what keeps it apart. `fds` come behind it."""

    pid: int
    granted: list[str]
    missing: dict[str, str]
    fds: int = 0


class Done(Answer, frozen=True, kw_only=True, tag=True):
    """It is done, and there is nothing to tell but perhaps how long it took, or which clocks a variant replaced."""

    spent_ns: int = 0
    patched: list[str] = []


class Failed(Answer, frozen=True, kw_only=True, tag=True):
    """A WhetError of that kind."""

    kind: str
    cause: str
    cure: str


class Raised(Answer, frozen=True, kw_only=True, tag=True):
    """The variant raised something; `text` says what and where."""

    text: str


class Claim(Answer, frozen=True, kw_only=True, tag=True):
    """What a variant's process says about its turn. `ends_ns` are the stamps after each call."""

    start_ns: int
    ends_ns: list[int]
    device_ns: int | None = None
    regions_ns: dict[str, int] = {}
    tags: dict[str, list[str]] = {}
    waits: list[str] = []
    sheet: Sheet | None = None

    @property
    def wall_ns(self) -> int:
        return self.ends_ns[-1] - self.start_ns


class Described(Answer, frozen=True, kw_only=True, tag=True):
    """`program` is JSON in the form of `whet.gpu.portable`; the bytes of its buffers are in `kept`, by name."""

    program: bytes
    kept: dict[str, bytes]
    warm: dict[str, bytes]


class Fed(Answer, frozen=True, kw_only=True, tag=True):
    """Contents of buffers for each call, by name."""

    calls: list[dict[str, bytes]]


class Attempted(Answer, frozen=True, kw_only=True, tag=True):
    """The whole outputs arena, guard words included."""

    arena: bytes


class Expected(Answer, frozen=True, kw_only=True, tag=True):
    """The oracle has answered. `changed` are the inputs that it wrote into, as far as that was watched."""

    spent_ns: int
    changed: list[str] = []


class IsKept(Answer, frozen=True, kw_only=True, tag=True):
    kept: bool


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """The judge's word on one arm. An empty `reason` is green; `error` is the largest one over what is tolerated."""

    digest: str
    reason: str = ""
    detail: str = ""
    slot: int = 0
    expected: dict[str, Any] = {}
    got: dict[str, Any] = {}
    error: float = 0.0


class Judged(Answer, frozen=True, kw_only=True, tag=True):
    reports: dict[int, Judgement]


class Measured(Answer, frozen=True, kw_only=True, tag=True):
    """`described_ns` is what `outputs()` took: for a task of functions that is an answer of the oracle."""

    layout: Layout
    described_ns: int = 0


ToBench = Load | Layout | Seal | WarmUp | Turn | Describe | Feed | Finish | Attempt
ToReferee = Load | Measure | Layout | Draw | Reveal | Kept | Expect | Save
ToJudge = Layout | Poison | Judge | Save | Evict
FromBench = Hello | Done | Failed | Raised | Claim | Described | Fed | Attempted
FromReferee = Hello | Done | Failed | Measured | Expected | IsKept
FromJudge = Hello | Done | Failed | Judged
