"""What is worth trying on an unknown device at some size, the safe default first. Vendors' names decide nothing.

How many threads there can be depends on the size: a task has sixteen additions or more, a thread of `walker` several
tasks. So a small sum fills a large GPU only with few slots, and at small sizes many of these come to the same program.
"""

from __future__ import annotations

from dataclasses import replace

from whet.msm.webgpu.geometry import Geometry
from whet.msm.webgpu.knobs import SPECS, Choice
from whet.msm.webgpu.memory import fit
from whet.msm.webgpu.request import Request
from whet.protocol import choose_variant

DEFAULT = "walker"

_CANDIDATES = (
    DEFAULT,
    "pairs",
    "walker:slots=16",
    "pairs:slots=4,threads=16384",
    "walker:slots=4,threads=16384",
    "coop:g=1",
    "walker:slots=8,threads=16384",
    "walker:slots=4,threads=65536",
    "walker:slots=8,threads=65536",
    "coop:g=1,threads=16384",
    "coop:g=1,threads=65536",
    "walker:slots=2,threads=16384",
    "walker:slots=2,threads=65536",
    "pairs:slots=4,threads=65536",
    "pairs:slots=16",
    "walker:slots=4",
    "walker:slots=16,threads=16384",
    "walker:tpb=32",
    "walker:tpb=128",
    "walker:tpb=256,threads=16384",
    "walker:scratch=workgroup",
    "walker:scratch=device",
    "coop:g=8",
    "coop:g=64",
    "walker:multiply=portable",
    "walker:glv=true",
)


def candidates(n: int) -> list[str]:
    """Spellings of variants, each checked against the knobs; those that come to one program at this size once."""
    found: dict[tuple[Choice, str, Geometry], str] = {}
    for text in _CANDIDATES:
        variant = choose_variant("msm", list(SPECS.values()), text)
        choice = Choice.of(variant.name, variant.knobs)
        geometry = fit(Request(max(n, 1), choice, max(n, 1)))
        program = (choice.kernels(), choice.multiply, replace(geometry, most_tasks=geometry.max_tasks))
        found.setdefault(program, text)
    return list(found.values())
