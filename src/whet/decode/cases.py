"""Steps to try: random shapes, layouts and types from one seed, with the corners that paged caches have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from whet.decode.cache import PagedCache
from whet.decode.layer import Layer, Schedule, StepResult
from whet.decode.shapes import NORM_ATTENTION, NORM_MLP, Shape
from whet.decode.stored import KV_DTYPES, KV_TYPES, WEIGHT_TYPES, StoredMatrix, store, to_kv

Floats = npt.NDArray[np.float32]
LAYOUTS = ("ordered", "shuffled", "shared")
TAILS = ("zero", "nan", "huge")


@dataclass(frozen=True)
class Trial:
    """Everything that a step needs, and how it came about."""

    shape: Shape
    matrices: dict[str, StoredMatrix]
    norms: dict[str, Floats]
    x: Floats
    cache: PagedCache
    cosine: Floats | None
    sine: Floats | None
    gate: Floats | None
    about: str

    def layer(self, **options: Any) -> Layer:
        """`options` are those of Layer: workers, isa, device."""
        return Layer(self.shape, {**self.matrices, **self.norms}, **options)

    def inputs(self) -> dict[str, Any]:
        """The arguments of a step, by name: the same for the layer and for the oracles."""
        return {"x": self.x, "cache": self.cache, "cosine": self.cosine, "sine": self.sine, "gate": self.gate}

    def run(self, layer: Layer, schedule: Schedule | None = None, *, timed: bool = False) -> StepResult:
        return layer.step(**self.inputs(), schedule=schedule, timed=timed)


def random_weights(
    shape: Shape, weight_type: str, rng: np.random.Generator
) -> tuple[dict[str, StoredMatrix], dict[str, Floats]]:
    """Entries of the size that keeps activations near 1."""
    matrices = {}
    for name, size in shape.matrices().items():
        dense = rng.standard_normal(size, np.float32)
        dense /= np.float32(np.sqrt(size[1]))
        matrices[name] = store(weight_type, dense)
    norms = {
        name: (1 + 0.1 * rng.standard_normal(shape.hidden)).astype(np.float32) for name in (NORM_ATTENTION, NORM_MLP)
    }
    return matrices, norms


def random_cache(
    shape: Shape,
    lengths: list[int],
    page_size: int,
    kv_type: str,
    rng: np.random.Generator,
    *,
    layout: str = "shuffled",
    tail: str = "nan",
) -> PagedCache:
    """Pages in the given layout; entries behind a length are filled with what must never be read."""
    width = max(1, *(-(-length // page_size) for length in lengths))
    batch = len(lengths)
    pages = width if layout == "shared" else width * batch
    table = np.arange(pages, dtype=np.int32)
    if layout == "shuffled":
        rng.shuffle(table)
    table = np.tile(table, (batch, 1)) if layout == "shared" else table.reshape(batch, width)
    size = (pages, page_size, shape.kv_heads, shape.head_dim)
    junk = {"zero": 0.0, "nan": np.nan, "huge": 3e38}[tail]
    caches = []
    for _ in range(2):
        values = rng.standard_normal(size, np.float32)
        used = np.zeros(size[:2], bool)
        for b, length in enumerate(lengths):
            at = np.arange(length)
            used[table[b][at // page_size], at % page_size] = True
        values[~used] = junk
        caches.append(np.ascontiguousarray(to_kv(values, kv_type), KV_DTYPES[kv_type]))
    # Entries that no length needs may be anything at all.
    for b, length in enumerate(lengths):
        table[b, -(-length // page_size) :] = -1 if tail == "nan" else np.iinfo(np.int32).max
    return PagedCache(kv_type, caches[0], caches[1], table, np.array(lengths, np.int32))


def angles(positions: npt.ArrayLike, head_dim: int, base: float = 10000.0) -> tuple[Floats, Floats]:
    """Cosine and sine of the rotary embedding, (batch, head_dim / 2)."""
    frequency = base ** (-np.arange(0, head_dim, 2) / head_dim)
    turn = np.asarray(positions, np.float64)[:, None] * frequency
    return np.cos(turn).astype(np.float32), np.sin(turn).astype(np.float32)


def random_trial(seed: int, *, least_hidden: int = 1) -> Trial:
    """One of the many: odd sizes on purpose, lengths around page borders."""
    rng = np.random.default_rng(seed)

    def one_of(options: tuple[str, ...] | list[int]) -> str:
        return str(options[int(rng.integers(len(options)))])

    kv_heads = int(rng.integers(1, 4))
    shape = Shape(
        hidden=int(rng.integers(least_hidden, 81)),
        intermediate=int(rng.integers(1, 121)),
        q_heads=kv_heads * int(one_of([1, 2, 3, 6, 9])),
        kv_heads=kv_heads,
        head_dim=int(one_of([16, 32, 48])),
        own_token=bool(rng.random() < 0.6),
    )
    batch, page_size = int(rng.integers(1, 9)), int(one_of([1, 2, 3, 5, 16, 17, 64]))
    border = page_size * int(rng.integers(1, 4))
    borders = [0, 1, border - 1, border, border + 1]
    lengths = [int(one_of([*borders, int(rng.integers(0, 70))])) for _ in range(batch)]
    weight_type, kv_type = one_of(WEIGHT_TYPES), one_of(KV_TYPES)
    layout, tail = one_of(LAYOUTS), one_of(TAILS)
    cache = random_cache(shape, lengths, page_size, kv_type, rng, layout=layout, tail=tail)
    matrices, norms = random_weights(shape, weight_type, rng)
    cosine, sine = angles(lengths, shape.head_dim) if rng.random() < 0.5 else (None, None)
    gate = rng.standard_normal((batch, shape.q_size), np.float32) if rng.random() < 0.4 else None
    about = f"seed={seed} {shape} lengths={lengths} page={page_size} {weight_type}/{kv_type} {layout} tail={tail}"
    x = rng.standard_normal((batch, shape.hidden), np.float32)
    return Trial(shape, matrices, norms, x, cache, cosine, sine, gate, about)
