"""One fused transformer decode layer over a paged KV cache."""

from __future__ import annotations

from whet.decode.cache import PagedCache
from whet.decode.layer import Layer, Schedule, StepResult
from whet.decode.model import Model
from whet.decode.shapes import SHAPES, Shape
from whet.decode.stored import StoredMatrix, store

__all__ = ["SHAPES", "Layer", "Model", "PagedCache", "Schedule", "Shape", "StepResult", "StoredMatrix", "store"]
