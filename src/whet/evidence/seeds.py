"""Every random choice hangs on one printed seed: all others are derived from it by name."""

from __future__ import annotations

import secrets
from hashlib import blake2b

SEED_BITS = 63


def fresh() -> int:
    """A seed for a run that was given none; it is printed and stored.

    Long enough that nobody who sees inputs made from it can try all of them while a variant is being set up.
    """
    return secrets.randbits(48)


def derive(seed: int, *labels: str | int) -> int:
    """The seed that belongs to `labels`. Equal arguments give equal seeds on every machine."""
    text = "\x1f".join([str(seed), *map(str, labels)])
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little") >> (64 - SEED_BITS)
