"""What comes out of one turn of one arm: a time that counts, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from whet.errors import WhetError
from whet.protocol import Sheet

# Characters of a detail that are kept.
MOST_WORDS = 4000
LINE_ENDS = "\n"


@dataclass(frozen=True)
class Reading:
    """One green turn.

    `wall_ns` is what the variant's own clock says and `outside_ns` the span from thaw to its answer, less waiting for
    others to leave a core; `waited_ns` is the time in which its main thread could have run but had no core. `error` is
    the largest error of an output, as a share of what the tolerance allows; `longest` the share of the turn that its
    first call took if that was the longest, `busy_half` the share of the longer half of its calls. `warm_up_ns` is what
    came before it took as seen from outside: tidying up, and as many calls that do not count as `warm_up_calls` says;
    `warm_up_cpu_ns` is the processor time of that.
    """

    calls: int
    wall_ns: int
    outside_ns: int
    cpu_ns: int
    waited_ns: int
    device_ns: int | None
    seed: int
    digest: str
    check: str
    error: float = 0.0
    longest: float = 0.0
    busy_half: float = 0.0
    warm_up_ns: int = 0
    warm_up_cpu_ns: int = 0
    warm_up_calls: int = 0
    regions_ns: Mapping[str, int] = field(default_factory=dict)
    tags: Mapping[str, Sequence[str]] = field(default_factory=dict)
    waits: Sequence[str] = ()
    sheet: Sheet | None = None

    def signed(self, digest: str, check: str, error: float) -> Reading:
        """The same with the judge's word on it."""
        return replace(self, digest=digest, check=check, error=error)


@dataclass(frozen=True)
class Red:
    """One refused turn. `slot` says which call was wrong, `cause` which error of whet's own lies behind it.

    A detail may be a variant's own words: what is too long for a line, or steers a terminal, is not passed on.
    """

    reason: str
    detail: str
    slot: int = 0
    expected: dict[str, Any] = field(default_factory=dict)
    got: dict[str, Any] = field(default_factory=dict)
    cause: WhetError | None = None

    def __post_init__(self) -> None:
        told = self.detail[: MOST_WORDS + 1]
        told = "".join(one if one.isprintable() or one in LINE_ENDS else " " for one in told)
        object.__setattr__(self, "detail", told if len(told) <= MOST_WORDS else f"{told[:MOST_WORDS]}...")
