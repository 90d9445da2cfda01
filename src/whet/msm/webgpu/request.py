"""What is asked of the planner, checked before anything is planned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from whet.errors import BadInput
from whet.msm.webgpu.knobs import Choice

MAX_POINTS = 1 << 22


@dataclass(frozen=True)
class Request:
    """What is to be computed: n points from `offset` on among `resident` ones, for `vectors` lists of scalars.

    `memory_budget` is in bytes, points and staging included. `limits` are the device's; the browser's floor by default.
    """

    n: int
    choice: Choice = field(default_factory=Choice)
    resident: int = 0
    offset: int = 0
    vectors: int = 1
    memory_budget: int | None = None
    limits: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 1 <= self.n <= MAX_POINTS:
            raise BadInput(f"a program for {self.n} points", cure=f"give 1 to {MAX_POINTS:,}")
        if self.memory_budget is None and self.choice.memory_budget:
            object.__setattr__(self, "memory_budget", self.choice.memory_budget)
        if self.vectors < 1 or self.offset < 0 or self.offset + self.n > self.resident:
            raise BadInput(
                f"{self.vectors} vectors for points {self.offset} to {self.offset + self.n} of {self.resident}",
                cure="ask for a part of the points, and for one vector or more",
            )
