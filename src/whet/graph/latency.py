"""What the policies cost when bodies take time: woken and looked-at tasks, and the time that goes into either.

With empty bodies a producer is nearly always done before its consumer is claimed, so that neither polling nor waking
happens. Here bodies take a microsecond or twenty, mostly less and at times very much more, or wait for a device.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from whet.errors import BadInput
from whet.graph.overhead import BODIES, PROCESSOR, WALL, workload_of
from whet.protocol import Case

if TYPE_CHECKING:
    from whet.graph.bench import Turns

WAYS = ("wired", "polling", "hybrid", "hybrid:wake_target=first", "hybrid:wake_target=single")
STANDARD = ("1us", "5us", "20us", "tail:5us", "device:5us")


class Bodies(NamedTuple):
    """How long bodies take, as `5us`, `tail:5us` (in the mean) or `device:5us` (per command)."""

    kind: str
    ns: int

    @classmethod
    def parse(cls, text: str) -> Bodies:
        found = re.fullmatch(r"(?:(\w+):)?(\d+)(ns|us)", text)
        if found is None or (found[1] or "fixed") not in BODIES or not 0 < int(found[2]) <= 10_000_000:
            raise BadInput(f"{text!r} says not how long bodies take", cure=f"such as {', '.join(STANDARD)}")
        return cls(found[1] or "fixed", int(found[2]) * (1000 if found[3] == "us" else 1))

    def __str__(self) -> str:
        length = f"{self.ns / 1000:g} µs"
        return length if self.kind == "fixed" else f"{self.kind}, {length}"


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """One way to find out what is ready, on one graph with one kind of bodies, per task.

    `poll_ns`, `wake_ns` and `round_ns` are of runs in which every phase is timed: the last is the time of all workers
    outside bodies and submission, sleep included, of which the others are parts.
    """

    workload: str
    bodies: str
    tasks: int
    way: str
    workers: int
    wall_ns: float
    cpu_ns: float
    woken: float
    looked: float
    poll_ns: float
    wake_ns: float
    round_ns: float

    @property
    def poll_share(self) -> float:
        return self.poll_ns / self.round_ns if self.round_ns else 0.0


def costs(case: Case, workers: int, rounds: int, turns: Turns) -> list[Cost]:
    """Every way on one graph, in interleaved rounds, twice: as it runs, and with every phase timed."""
    plain = {way: _variant(way, workers) for way in WAYS}
    timed = {way: f"{variant},phases=true" for way, variant in plain.items()}
    taken = turns([*plain.values(), *timed.values()], case, rounds)
    return [_cost(case, way, workers, taken[plain[way]], taken[timed[way]]) for way in WAYS]


def _variant(way: str, workers: int) -> str:
    name, _, knobs = way.partition(":")
    return f"{name}:" + ",".join(filter(None, (f"workers={workers}", "edges=given", knobs)))


def _cost(
    case: Case, way: str, workers: int, plain: Sequence[Mapping[str, int]], timed: Sequence[Mapping[str, int]]
) -> Cost:
    work = workload_of(case)

    def each(turns: Sequence[Mapping[str, int]], *keys: str) -> float:
        return round(median(sum(turn[key] for key in keys) for turn in turns) / work.tasks, 3)

    return Cost(
        workload=work.name,
        bodies=str(Bodies(BODIES[case.sizes["bodies"]], case.sizes["body_ns"])),
        tasks=work.tasks,
        way=way.replace(":wake_target=", ", "),
        workers=workers,
        wall_ns=each(plain, WALL),
        cpu_ns=each(plain, PROCESSOR),
        woken=each(plain, "wake count"),
        looked=each(plain, "poll count"),
        poll_ns=each(timed, "poll"),
        wake_ns=each(timed, "wake"),
        round_ns=each(timed, "dispatch", "completion", "idle"),
    )
