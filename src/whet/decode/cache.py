"""A paged KV cache: pages of tokens, a table of pages per sequence, and lengths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from whet.decode.shapes import MAX_BATCH, Shape
from whet.decode.stored import KV_DTYPES, KV_TYPES, Floats, to_kv
from whet.errors import BadInput


@dataclass
class PagedCache:
    """`k` and `v` are (pages, page_size, kv_heads, head_dim); bf16 is kept as uint16 and e4m3 as uint8.

    `table` is (batch, width) of page numbers, of which a sequence uses as many as its length needs. Sequences may share
    pages; the tail of a last page may hold anything.
    """

    kv_type: str
    k: npt.NDArray[Any]
    v: npt.NDArray[Any]
    table: npt.NDArray[np.int32]
    lengths: npt.NDArray[np.int32]

    @classmethod
    def empty(
        cls, shape: Shape, *, batch: int, max_length: int, page_size: int = 64, kv_type: str = "f32"
    ) -> PagedCache:
        """Pages for `batch` sequences of `max_length` tokens, one after another."""
        if not 1 <= batch <= MAX_BATCH:
            raise BadInput(f"batch is {batch}", cure=f"give 1 to {MAX_BATCH}")
        if page_size < 1 or max_length < 0:
            raise BadInput(f"page size {page_size}, length {max_length}", cure="give sizes that can exist")
        if kv_type not in KV_TYPES:
            raise BadInput(f"there is no KV type {kv_type!r}", cure=f"one of: {', '.join(KV_TYPES)}")
        width = -(-max_length // page_size)
        pages = (max(1, width * batch), page_size, shape.kv_heads, shape.head_dim)
        return cls(
            kv_type,
            np.zeros(pages, KV_DTYPES[kv_type]),
            np.zeros(pages, KV_DTYPES[kv_type]),
            np.arange(batch * width, dtype=np.int32).reshape(batch, width),
            np.zeros(batch, np.int32),
        )

    @property
    def batch(self) -> int:
        return len(self.lengths)

    def check(self, shape: Shape) -> None:
        """Types and shapes; page numbers are checked where they are used."""
        if self.kv_type not in KV_TYPES:
            raise BadInput(f"there is no KV type {self.kv_type!r}", cure=f"one of: {', '.join(KV_TYPES)}")
        wanted = KV_DTYPES[self.kv_type]
        for name, cache in (("k", self.k), ("v", self.v)):
            if cache.dtype != wanted:
                raise BadInput(f"cache.{name} has dtype {cache.dtype}", cure=f"{self.kv_type} is kept as {wanted}")
            if cache.ndim != 4 or cache.shape[2:] != (shape.kv_heads, shape.head_dim) or not cache.shape[1]:
                raise BadInput(
                    f"cache.{name} has the shape {cache.shape}",
                    cure=f"give (pages, page_size, {shape.kv_heads}, {shape.head_dim})",
                )
            if not cache.flags.c_contiguous:
                raise BadInput(f"cache.{name} is not contiguous", cure="use np.ascontiguousarray")
        if self.k.shape != self.v.shape:
            raise BadInput(f"k is {self.k.shape} and v is {self.v.shape}", cure="make them alike")
        if self.lengths.ndim != 1 or not 1 <= len(self.lengths) <= MAX_BATCH or self.lengths.dtype != np.int32:
            raise BadInput(
                f"lengths are {self.lengths.dtype} of shape {self.lengths.shape}",
                cure=f"give int32 for 1 to {MAX_BATCH} sequences",
            )
        if self.table.ndim != 2 or len(self.table) != len(self.lengths) or self.table.dtype != np.int32:
            raise BadInput(
                f"the page table is {self.table.dtype} of shape {self.table.shape}",
                cure=f"give int32 with a row for each of {len(self.lengths)} sequences",
            )

    def append(self, k: Floats, v: Floats) -> None:
        """Adds one token to every sequence, rounded to the type of the cache."""
        page_size = self.k.shape[1]
        entries = self.lengths // page_size
        if (entries >= self.table.shape[1]).any():
            full = int(np.argmax(entries >= self.table.shape[1]))
            raise BadInput(
                f"sequence {full} has no page left", cure="give it a wider row in the page table", index=full
            )
        rows = np.arange(self.batch)
        pages, places = self.table[rows, entries], self.lengths % page_size
        if ((pages < 0) | (pages >= len(self.k))).any():
            raise BadInput("a page number is out of range", cure=f"there are {len(self.k)} pages")
        self.k[pages, places] = to_kv(k.reshape(self.batch, *self.k.shape[2:]), self.kv_type)
        self.v[pages, places] = to_kv(v.reshape(self.batch, *self.v.shape[2:]), self.kv_type)
        self.lengths += 1
