"""What the head and its workers say to each other."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from whet.cluster.sources import ScalarsFile, ScalarsObject, Shard
from whet.msm.validate import Limbs

LIMBS = 4  # of a scalar
BLOCK = 4096  # words of a digest that share a sum
BLOCKS_AT_ONCE = 8  # what is made of them stays in L2
WEIGHTS = np.random.default_rng(4096).integers(0, 1 << 63, BLOCK, dtype=np.uint64) * np.uint64(2) + np.uint64(1)


@dataclass(frozen=True)
class Request:
    """One shard's part of one or more sums. Asking twice is the same as asking once: a worker keeps its last answers by
    job, shard, digest and way.

    `way` is `sums`, one point per vector; `limbs`, four points per vector, the sums over each limb of the scalars; or
    `check`, one point per vector, the sum over the limbs weighted with `weights`.
    """

    job: str
    shard: Shard
    vectors: int
    digest: str
    way: str = "sums"
    weights: tuple[int, ...] = ()
    parts: tuple[ScalarsFile | ScalarsObject, ...] = ()  # read by the worker; none where the head sends limbs

    @property
    def key(self) -> tuple[Any, ...]:
        return (self.job, self.shard.key, self.digest, self.way, self.weights)

    @property
    def answers(self) -> int:
        return self.vectors * (LIMBS if self.way == "limbs" else 1)


@dataclass(frozen=True)
class Partial:
    """The answer to a request: 64 bytes a point."""

    points: bytes
    seconds: float  # of the sums alone
    load_seconds: float = 0.0  # of points that were not there
    pid: int = 0  # of the worker, which Ray may have started again
    again: bool = False  # answered from memory


@dataclass(frozen=True)
class Fault:
    """What a worker could not do. `kind`: input, points, scalars, memory."""

    kind: str
    cause: str
    cure: str
    index: int | None = None


@dataclass(frozen=True)
class Hello:
    """Who a worker is."""

    host: str
    node: str
    pid: int
    versions: dict[str, str]
    points_per_second: float = 0.0


def digest_of(limbs: Limbs) -> str:
    """Of all vectors of a request together, at several times the speed of SHA-256 alone: the words of a block are
    weighted with odd numbers and added modulo 2^64, and the sums are hashed. One changed word always changes its sum;
    the upper half of each word is folded onto the lower first, so that its changes reach all bits of the sum.
    """
    words = np.ascontiguousarray(limbs).reshape(-1)
    whole = len(words) // BLOCK * BLOCK
    blocks = words[:whole].reshape(-1, BLOCK)
    told = hashlib.sha256(str(limbs.shape).encode() + words[whole:].tobytes())
    for at in range(0, len(blocks), BLOCKS_AT_ONCE):
        part = blocks[at : at + BLOCKS_AT_ONCE]
        told.update((((part >> np.uint64(32)) ^ part) @ WEIGHTS).tobytes())
    return told.hexdigest()
