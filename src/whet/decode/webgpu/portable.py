"""A step as work for a device that is elsewhere: weights and cache stay there, hidden states are new in every call."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from whet.decode.cache import PagedCache
from whet.decode.layer import Schedule
from whet.decode.shapes import Shape
from whet.decode.stored import Floats, StoredMatrix
from whet.decode.webgpu.geometry import Geometry, copies_of
from whet.decode.webgpu.layer import packed_inputs
from whet.decode.webgpu.program import build, parts
from whet.protocol import Array, Arrays, PortableProgram


def portable_of(
    shape: Shape,
    matrices: Mapping[str, StoredMatrix],
    norms: Mapping[str, Floats],
    *,
    cache: PagedCache,
    angles: tuple[Floats, Floats],
    schedule: Schedule,
) -> PortableProgram:
    """The whole program of a step over this cache; each call sends x with its index and angles."""
    geometry = Geometry(
        batch=cache.batch,
        page_size=cache.k.shape[1],
        pages=len(cache.k),
        table_width=cache.table.shape[1],
        kv_type=cache.kv_type,
        rotary=True,
        wo_split=schedule.wo_split,
        fc1_copies=copies_of(schedule.fc1),
    )
    named = parts(shape, geometry)

    def feed(inputs: Arrays) -> Arrays:
        return {"inputs": packed_inputs(named, inputs["x"], cache, angles, None)}

    def finish(read: Arrays, outputs: Arrays) -> None:
        out = outputs["out"]
        out[...] = np.asarray(read["results"])[: out.size].view(np.float32).reshape(out.shape)

    kept: dict[str, Array] = {name: pages.reshape(-1) for name, pages in (("k", cache.k), ("v", cache.v)) if pages.size}
    return PortableProgram(build(shape, matrices, norms, geometry), ("results",), feed, finish, kept)
