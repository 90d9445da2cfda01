"""`Srs` and `Scalars`: an open file of records that is read and converted in pieces, when asked."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import ClassVar, Literal, Self

import numpy as np

from whet.errors import BadInput, DeviceOutOfMemory
from whet.msm.options import read_count, shown
from whet.msm.points.encodings import BadRecord
from whet.msm.points.formats import Format, Kind, choose
from whet.msm.points.layout import Layout
from whet.msm.points.source import Bytes, Source
from whet.msm.validate import Limbs

Check = Literal["none", "on-curve", "checksum"]
CHECKS = ("none", "on-curve", "checksum")
# One piece of a parallel conversion: large enough to drown the cost of a task, small enough to stay in L2.
RECORDS_PER_PIECE = 1 << 12
RECORDS_PER_CHUNK = 1 << 18
MOST_AT_ONCE_BYTES = 1 << 38  # 2^32 points
MOST_RECORDS = 1 << 62  # no file is that long


class RecordFile:
    """Records `offset` to `offset + n` of one section. Safe to read from several threads."""

    kind: ClassVar[Kind]
    columns: ClassVar[int]

    def __init__(
        self, source: Source, row: Format, layout: Layout | Limbs, *, offset: int, n: int | None, check: Check
    ) -> None:
        self.format = row.name
        self.section: str | None = None
        self.check = check
        self._source = source
        self._layout = layout
        self._check_curve = check != "none"
        available = layout.count if isinstance(layout, Layout) else len(layout)
        offset = read_count(offset, "offset", most=MOST_RECORDS)
        n = None if n is None else read_count(n, "n", most=MOST_RECORDS)
        if not 0 <= offset <= available or (n is not None and not 0 <= n <= available - offset):
            wanted = f"{self.kind} from {offset} on" if n is None else f"{n} {self.kind} from {offset} on"
            raise source.bad(f"holds {available} {self.kind}, not {wanted}", cure="lower offset or n")
        self.offset = offset
        self._count = available - offset if n is None else n

    @classmethod
    def open(
        cls,
        path: str | bytes | os.PathLike[str],
        format: str = "auto",
        *,
        n: int | None = None,
        offset: int = 0,
        section: str | int | None = None,
        check: Check = "on-curve",
    ) -> Self:
        """Opens a file and checks its header. No record is read yet, so this takes the same time for any size.

        `format="auto"` knows only formats that have a magic. `check`: `none` skips the curve equation (never the range
        of coordinates), `on-curve` checks every point that is read, `checksum` compares the file's own checksum, where
        the format has one, as well.
        """
        if not isinstance(check, str) or check not in CHECKS:
            raise BadInput(f"no check {shown(check)}", cure=f"checks: {', '.join(CHECKS)}")
        source = Source(path)
        try:
            row = choose(source, cls.kind, format)
            if section is not None and not row.sections:
                raise BadInput(f"format {row.name} has no sections", cure="leave section out")
            if check == "checksum" and row.checksum is None:
                raise BadInput(f"format {row.name} carries no checksum", cure="use check='on-curve'")
            layout = row.read(source, None if section is None else str(section))
            if check == "checksum" and row.checksum is not None:
                row.checksum(source)
            opened = cls(source, row, layout, offset=offset, n=n, check=check)
            opened.section = None if section is None else str(section)
            return opened
        except BaseException:
            source.close()
            raise

    def __len__(self) -> int:
        return self._count

    @property
    def path(self) -> str:
        return str(self._source.path)

    def read(self, start: int = 0, stop: int | None = None) -> Bytes:
        """Records `start` to `stop` of this view as rows of bytes, little-endian and canonical."""
        return self._collect(start, stop, self._to_canonical).view(np.uint8)

    def limbs(self, start: int = 0, stop: int | None = None) -> Limbs:
        """The same as the engine wants them: (n, 8) in Montgomery form for points, (n, 4) plain for scalars."""
        return self._collect(start, stop, lambda limbs: limbs)

    @staticmethod
    def _to_canonical(limbs: Limbs) -> Limbs:
        return limbs

    def _collect(self, start: int, stop: int | None, finish: Callable[[Limbs], Limbs]) -> Limbs:
        start = read_count(start, "start", most=MOST_RECORDS)
        stop = self._count if stop is None else read_count(stop, "stop", most=MOST_RECORDS)
        if not 0 <= start <= stop <= self._count:
            raise BadInput(f"{start} to {stop} is outside of {self._count} {self.kind}", cure="lower the range")
        first, last = self.offset + start, self.offset + stop
        collected = self._room(last - first)

        def convert(begin: int) -> None:
            end = min(begin + RECORDS_PER_PIECE, last)
            collected[begin - first : end - first] = finish(self._convert(begin, end))

        pieces = range(first, last, RECORDS_PER_PIECE)
        if len(pieces) <= 1:
            for begin in pieces:
                convert(begin)
            return collected
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            futures = [pool.submit(convert, begin) for begin in pieces]
            try:
                for future in futures:  # in order, so that the first bad record is the one that is reported
                    future.result()
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        return collected

    def _room(self, count: int) -> Limbs:
        size_bytes = 8 * self.columns * count
        try:
            if size_bytes > MOST_AT_ONCE_BYTES:  # a system that promises any amount would fail later, and worse
                raise MemoryError
            return np.empty((count, self.columns), dtype=np.uint64)
        except MemoryError:
            raise DeviceOutOfMemory(
                f"no memory for {count} {self.kind} of {self.path} ({size_bytes} bytes)",
                cure="read less at a time: read(start, stop), chunks(), or msm_from_files",
            ) from None

    def chunks(self, records: int = RECORDS_PER_CHUNK) -> Iterator[Bytes]:
        """All records as `read` gives them, at most `records` at a time: for files that do not fit into memory."""
        records = read_count(records, "the number of records in a chunk", least=1, most=MOST_RECORDS)
        for start in range(0, self._count, records):
            yield self.read(start, min(start + records, self._count))

    def close(self) -> None:
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _convert(self, first: int, last: int) -> Limbs:
        layout = self._layout
        if not isinstance(layout, Layout):
            return layout[first:last]
        size_bytes = layout.encoding.record_bytes
        raw = self._source.records(layout.offset_bytes + first * size_bytes, size_bytes, last - first)
        try:
            return layout.encoding.decode(raw, self._check_curve)
        except BadRecord as bad:
            index = first + bad.index
            place = f"{self.kind[:-1]} {index} of {layout.part} (byte {layout.offset_bytes + index * size_bytes})"
            raise self._source.bad(
                f"{place} {bad.reason}",
                cure=f"the file is damaged or is not {self.format}; fetch it again or name its format",
                index=index,
            ) from None


class Scalars(RecordFile):
    """A file of scalars: rows of 32 bytes, little-endian."""

    kind = "scalars"
    columns = 4
