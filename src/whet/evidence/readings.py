"""What comes out of one turn of one arm: a time that counts, or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Reading:
    """One green turn.

    `wall_ns` is what the variant's own clock says and `outside_ns` the span from thaw to freeze; `waited_ns` is the
    time in which it could have run but had no core. `error` is the largest error of an output, as a share of what the
    tolerance allows.
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


@dataclass(frozen=True)
class Red:
    """One refused turn. `slot` says which call of a batch was wrong."""

    reason: str
    detail: str
    slot: int = 0
    expected: dict[str, Any] = field(default_factory=dict)
    got: dict[str, Any] = field(default_factory=dict)
