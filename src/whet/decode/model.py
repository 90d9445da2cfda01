"""A small language model made of decode layers: embedding, layers, final norm, head, greedy choice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from whet.decode.cache import PagedCache
from whet.decode.cases import angles, random_weights
from whet.decode.layer import Layer, Schedule
from whet.decode.shapes import SHAPES, Shape
from whet.decode.stored import Floats
from whet.errors import BadInput


class Model:
    """Generates tokens one at a time; every layer keeps its own cache."""

    def __init__(self, embedding: Floats, layers: Sequence[Layer], head: Floats) -> None:
        fits = embedding.ndim == 2 and embedding.shape == head.shape
        if not layers or not fits or any(embedding.shape[1] != layer.shape.hidden for layer in layers):
            raise BadInput("embedding, head and layers do not fit", cure="give (vocabulary, hidden) and layers of that")
        self.embedding = embedding
        self.head = head
        self.layers = tuple(layers)

    @classmethod
    def random(
        cls,
        seed: int,
        *,
        shape: Shape = SHAPES["tiny"],
        depth: int = 2,
        vocabulary: int = 97,
        weight_type: str = "f32",
        **options: Any,
    ) -> Model:
        """Random weights: no language, but every part of the path. `options` go to the layers: workers, device."""
        rng = np.random.default_rng(seed)
        embedding, head = rng.standard_normal((2, vocabulary, shape.hidden), np.float32)
        made = [random_weights(shape, weight_type, rng) for _ in range(depth)]
        return cls(embedding, [Layer(shape, {**m, **n}, **options) for m, n in made], head)

    def generate(
        self,
        prompt: Sequence[int],
        count: int,
        *,
        kv_type: str = "f32",
        page_size: int = 16,
        schedule: Schedule | None = None,
        timed: bool = False,
    ) -> list[int]:
        """The prompt token by token, then `count` tokens of its own."""
        if not prompt or not all(0 <= token < len(self.embedding) for token in prompt):
            raise BadInput(
                "the prompt is empty or has a token that does not exist", cure="use tokens of the vocabulary"
            )
        length = len(prompt) + count
        caches = [
            PagedCache.empty(layer.shape, batch=1, max_length=length, page_size=page_size, kv_type=kv_type)
            for layer in self.layers
        ]
        tokens = list(prompt)
        for position in range(length - 1):
            x = self.embedding[tokens[position]][None].copy()
            for layer, cache in zip(self.layers, caches, strict=True):
                cosine, sine = angles([position], layer.shape.head_dim)
                x, k, v = layer.step(x, cache, cosine=cosine, sine=sine, schedule=schedule, timed=timed)
                cache.append(k, v)
            if position + 1 == len(tokens):
                tokens.append(int(np.argmax(self.head @ (x[0] / np.sqrt(np.mean(x[0] ** 2) + 1e-6)))))
        return tokens[len(prompt) :]
