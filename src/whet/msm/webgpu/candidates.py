"""What is worth trying on an unknown device, the safe default first. Vendors' names decide nothing."""

from __future__ import annotations

from whet.msm.webgpu.knobs import SPECS
from whet.protocol import choose_variant

DEFAULT = "walker"
TRIAL_POINTS = 1 << 12  # large enough for every stage to have work, small enough for a phone

_CANDIDATES = (
    DEFAULT,
    "walker:tpb=128",
    "walker:scratch=workgroup",
    "walker:scratch=device",
    "walker:slots=4",
    "walker:slots=16",
    "coop:g=1",
    "coop:g=8",
    "coop:g=64",
    "walker:multiply=portable",
    "walker:glv=true",
)


def candidates() -> list[str]:
    """Spellings of variants, each checked against the knobs."""
    for text in _CANDIDATES:
        choose_variant("msm", list(SPECS.values()), text)
    return list(_CANDIDATES)
