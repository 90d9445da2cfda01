"""Which tokens of a cache a device lacks, where the caller promises that only `append` changes the cache."""

from __future__ import annotations

import numpy as np

from whet.decode.cache import PagedCache


class HeldCache:
    """Remembers lengths and pages as they were when the device last had everything."""

    def __init__(self, cache: PagedCache) -> None:
        self.cache = cache
        self.forget()

    def forget(self) -> None:
        """The device has nothing of it: its buffers are new, or hold another cache."""
        self._lengths: list[int] = []
        self._table = self.cache.table[:0]

    def missing(self) -> list[tuple[int, int]] | None:
        """Page and place of every token that was appended since; None where all must be sent."""
        lengths, page_size = self.cache.lengths.tolist(), self.cache.k.shape[1]
        if len(self._lengths) != len(lengths):
            return None
        found: list[tuple[int, int]] = []
        for b, (sent, now) in enumerate(zip(self._lengths, lengths, strict=True)):
            row, used = self.cache.table[b], -(-sent // page_size)
            if now < sent or not np.array_equal(self._table[b, :used], row[:used]):
                return None
            found += [(int(row[token // page_size]), token % page_size) for token in range(sent, now)]
        return found

    def sent(self) -> None:
        """The device has everything now."""
        self._lengths, self._table = self.cache.lengths.tolist(), self.cache.table.copy()
