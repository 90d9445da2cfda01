"""Captures: what the workers wrote. Two layouts are read, one is kept, and nothing unchecked gets past this file.

legacy   (workers, regions, 2) int64 .npy: entry and exit ticks; zeros mean that the slot was never written.
cells    (workers, regions) of `CELL`: entry, exit, ticks summed over all trips, count, written. As .npz with an
         `about` text, or as a bare structured .npy with `FILE.npy.json` beside it.

Cells may come with stretches: the same ticks, cut each time a worker left a wait, so that barriers inside a loop keep
their arrival times. In the .npz as `stretches`, or as `FILE.npy.stretches.npy`.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from whet.errors import BadInput
from whet.regions.grid import Grid
from whet.regions.schema import BUILTIN, Schema, builtin, parse
from whet.regions.stretches import check_stretches
from whet.regions.ticks import tick_source

CELL = np.dtype([("entry", "<i8"), ("exit", "<i8"), ("ticks", "<i8"), ("count", "<i8"), ("written", "<i8")])
Cells = npt.NDArray[np.void]
LaunchValue = str | int | float | bool
MAX_CELLS = 1 << 24
MAX_TICK = 1 << 62
MAX_STEP = 1 << 40


class About(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a capture says about itself.

    window  two readings of the same clock around the launch: nothing it wrote may lie outside.
    spans   first and last tick of each row, where something other than the regions knows them.
    complete  False where the sheet was written while the launch went on.
    """

    format: Literal[1] = 1
    tick_source: str = "monotonic"
    tick_step: int | None = None
    regions: tuple[str, ...] = ()
    schema: Schema | None = None
    grid: dict[str, int] = {}
    launch: dict[str, LaunchValue] = {}
    window: tuple[int, int] | None = None
    spans: tuple[tuple[int, int], ...] = ()
    total_ns: float | None = None
    rows: Literal["workers", "repeats"] = "workers"
    placement: Literal["recorded", "assumed"] = "recorded"
    region_tick_source: dict[str, str] = {}
    complete: bool = True
    created: str = ""


@dataclass(frozen=True)
class Capture:
    """Checked cells with everything needed to read them."""

    cells: Cells
    schema: Schema
    grid: Grid
    about: About
    origin: str = "memory"
    digest: str = ""
    stretches: Cells | None = None

    @property
    def workers(self) -> int:
        return int(self.cells.shape[0])

    @cached_property
    def passes(self) -> dict[tuple[int, int], list[tuple[int, int, int, int]]]:
        """(entry, exit, ticks, count) of each stretch of a worker and region, in order; of each cell without them."""
        found: dict[tuple[int, int], list[tuple[int, int, int, int]]] = defaultdict(list)
        if self.stretches is not None:
            for worker, region, *rest in self.stretches.tolist():
                found[worker, region].append((rest[0], rest[1], rest[2], rest[3]))
            return found
        for worker, region in zip(*np.nonzero(self.placed), strict=True):
            entry, leave, ticks, count, _ = self.cells[worker, region].tolist()
            found[int(worker), int(region)].append((entry, leave, ticks, count))
        return found

    @cached_property
    def placed(self) -> npt.NDArray[np.bool_]:
        """Cells with a place in time. Tick 0 is no place: a cell with a sum alone has none."""
        return np.asarray((self.cells["written"] == 1) & (self.cells["exit"] > 0))


def make_capture(
    cells: Cells,
    schema: Schema,
    about: About,
    *,
    origin: str = "memory",
    digest: str = "",
    grid: Grid | None = None,
    stretches: Cells | None = None,
) -> Capture:
    """Checks cells against a schema and a grid, and puts them together."""
    tick_source(about.tick_source)
    for name in about.region_tick_source.values():
        tick_source(name)
    check_cells(cells, origin)
    if about.tick_step is not None and not 1 <= about.tick_step <= MAX_STEP:
        raise BadInput(f"{origin}: tick step {about.tick_step} makes no sense", cure="leave it out to have it detected")
    if about.total_ns is not None and not 0 < about.total_ns < math.inf:
        raise BadInput(f"{origin}: a total of {about.total_ns} ns makes no sense", cure="leave it out if it is unknown")
    if about.spans and (len(about.spans) != len(cells) or any(not 0 < a <= b <= MAX_TICK for a, b in about.spans)):
        raise BadInput(f"{origin}: its row spans do not fit its rows", cure="one (first, last) pair of ticks per row")
    grid = grid or schema.grid(about.grid)
    expect = (grid.workers, len(schema.regions))
    if cells.shape != expect:
        raise BadInput(
            f"{origin}: {cells.shape[0]} workers x {cells.shape[1]} regions, but the grid has {expect[0]} workers"
            f" and schema {schema.name} has {expect[1]} regions",
            cure="give the grid and the schema of this very launch; rows of other launches must be cut off first",
        )
    names = tuple(r.name for r in schema.regions)
    if about.regions and about.regions != names:
        differ = [i for i, (a, b) in enumerate(zip(about.regions, names, strict=False)) if a != b]
        at = differ[0] if differ else min(len(names), len(about.regions))
        said, known = ([*n, "nothing"][min(at, len(n))] for n in (about.regions, names))
        raise BadInput(
            f"{origin}: region {at} was recorded as {said!r}; schema {schema.name} calls it {known!r}",
            cure="use the schema that the kernel was built with",
            index=at,
        )
    if stretches is not None:
        check_stretches(stretches, cells, origin)
    return Capture(cells, schema, grid, about, origin, digest or digest_of(cells), stretches)


def digest_of(cells: Cells) -> str:
    return hashlib.sha256(np.ascontiguousarray(cells).tobytes()).hexdigest()


def check_cells(cells: Any, origin: str) -> None:
    """Junk is BadInput that names the first bad worker and region."""
    if not isinstance(cells, np.ndarray) or cells.dtype != CELL or cells.ndim != 2 or 0 in cells.shape:
        got = f"{getattr(cells, 'dtype', type(cells).__name__)} {getattr(cells, 'shape', '')}"
        raise BadInput(f"{origin}: {got} is not a table of cells", cure=f"write (workers, regions) of {CELL.descr}")
    if cells.size > MAX_CELLS:
        raise BadInput(f"{origin}: {cells.size} cells", cure=f"at most {MAX_CELLS}")
    entry, leave, ticks = cells["entry"], cells["exit"], cells["ticks"]
    count, written = cells["count"], cells["written"]
    fields = np.stack([entry, leave, ticks, count, written])
    sum_only = (entry == 0) & (leave == 0)
    complaints = (
        ((fields < 0).any(axis=0), "a negative number"),
        ((fields > MAX_TICK).any(axis=0), "a number too large for a tick"),
        ((written != 0) & (written != 1), "a written flag that is neither 0 nor 1"),
        ((written == 0) & (fields[:4] != 0).any(axis=0), "numbers in a cell that was never written"),
        ((written == 1) & (leave < entry), "an exit before its entry"),
        ((written == 1) & (count == 0) & (ticks > 0), "ticks but no trip"),
        ((written == 1) & ~sum_only & (ticks > leave - entry), "more ticks than lie between entry and exit"),
    )
    _refuse_first(complaints, origin)


def _refuse_first(complaints: Iterable[tuple[Any, str]], origin: str) -> None:
    for bad, what in complaints:
        if bad.any():
            worker, region = (int(i[0]) for i in np.nonzero(bad))
            raise BadInput(
                f"{origin}: worker {worker}, region {region} holds {what}",
                cure="capture again into a zeroed buffer, let the launch finish first, and use the kernel's own schema",
                index=worker,
            )


def from_legacy(
    buffer: Any, schema: Schema, grid: Grid, source: str, *, origin: str = "memory", about: About | None = None
) -> Capture:
    """Makes cells of a (workers, regions, 2) int64 buffer, as the schema says its slots are to be read."""
    if not isinstance(buffer, np.ndarray) or buffer.dtype != np.int64 or buffer.ndim != 3 or buffer.shape[-1] != 2:
        got = f"{getattr(buffer, 'dtype', type(buffer).__name__)} {getattr(buffer, 'shape', '')}"
        raise BadInput(f"{origin}: {got} is not a legacy region buffer", cure="give (workers, regions, 2) int64")
    expect = (grid.workers, len(schema.regions), 2)
    if buffer.shape != expect:
        raise BadInput(
            f"{origin}: shape {buffer.shape}, but the grid and schema {schema.name} make it {expect}",
            cure="give the grid of this launch and the schema of this kernel; rows of other launches must be cut off",
        )
    cells = np.zeros(buffer.shape[:2], dtype=CELL)
    sums = np.array([r.slots == "sum" for r in schema.regions])
    first, second = buffer[:, :, 0], buffer[:, :, 1]
    written = (first != 0) | (second != 0)
    complaints = (
        ((buffer < 0).any(axis=2), "a negative number"),
        ((buffer > MAX_TICK).any(axis=2), "a number too large for a tick"),
        (written & ~sums & ((first == 0) | (second == 0)), "an entry without an exit, or an exit without an entry"),
        (sums & (first != 0), "a sum with an entry tick"),
    )
    _refuse_first(complaints, origin)
    cells["entry"] = np.where(sums, 0, first)
    cells["exit"] = np.where(sums, 0, second)
    cells["ticks"] = np.where(sums, second, np.maximum(second - first, 0))
    cells["count"] = written
    cells["written"] = written
    kept = replace_about(about or About(), tick_source=source, grid={**grid.sizes, **grid.parameters})
    return make_capture(cells, schema, kept, origin=origin, grid=grid)


def replace_about(about: About, **changes: Any) -> About:
    return msgspec.structs.replace(about, **changes)


def load(
    path: str | Path,
    *,
    schema: Schema | None = None,
    grid: Mapping[str, int] | None = None,
    source: str | None = None,
) -> Capture:
    """Reads a capture of either layout. What is said here must not contradict what the file says."""
    where = str(path)
    raw = _read(Path(path))
    about = About()
    stretches: Cells | None = None
    digest = hashlib.sha256(raw)
    if raw[:2] == b"PK":
        array, about, stretches = _unzip(raw, where)
    else:
        array = _array(raw, where)
        beside, cut = Path(where + ".json"), Path(where + ".stretches.npy")
        if beside.is_file():
            about = _about(_read(beside), str(beside))
        if cut.is_file():
            more = _read(cut)
            digest.update(more)
            stretches = _array(more, str(cut))
    if source is not None and about != About() and source != about.tick_source:
        raise BadInput(f"{where}: recorded with {about.tick_source}, not {source}", cure="leave --tick-source out")
    given = {**about.grid, **(grid or {})}
    clash = [k for k in about.grid if given[k] != about.grid[k]]
    if clash:
        raise BadInput(
            f"{where}: recorded with {clash[0]}={about.grid[clash[0]]}, not {given[clash[0]]}",
            cure="describe the launch that was captured",
        )
    chosen = schema or about.schema or _builtin_for(array)
    if chosen is None:
        raise BadInput(f"{where}: the file does not say what its regions mean", cure="give --schema FILE.toml")
    about = replace_about(about, grid=given, tick_source=source or about.tick_source)
    if array.dtype == CELL:
        made = make_capture(array, chosen, about, origin=where, stretches=stretches)
    else:
        made = from_legacy(array, chosen, chosen.grid(given), about.tick_source, origin=where, about=about)
    return replace(made, digest=digest.hexdigest())


def _builtin_for(array: npt.NDArray[Any]) -> Schema | None:
    """A bare legacy buffer names its layout by its number of regions; the table says which schema was taken."""
    name = f"coop-{array.shape[1]}" if array.ndim == 3 else ""
    return builtin(name) if name in BUILTIN else None


def save(capture: Capture, path: str | Path) -> Path:
    """Writes the self-contained .npz: cells, and `about` with the schema in it."""
    target = Path(path)
    if target.suffix != ".npz":
        raise BadInput(f"{target}: a capture is kept as .npz", cure=f"write to {target.with_suffix('.npz')}")
    about = replace_about(
        capture.about,
        schema=capture.schema,
        regions=tuple(r.name for r in capture.schema.regions),
        grid={**capture.grid.sizes, **capture.grid.parameters},
    )
    target.parent.mkdir(parents=True, exist_ok=True)
    # An older capture of that name must not survive a failed write.
    target.unlink(missing_ok=True)
    partial = target.with_suffix(".npz.part")
    with partial.open("wb") as out:
        text = np.array(msgspec.json.encode(about).decode())
        if capture.stretches is None:
            np.savez_compressed(out, cells=capture.cells, about=text)
        else:
            np.savez_compressed(out, cells=capture.cells, about=text, stretches=capture.stretches)
    partial.replace(target)
    return target


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as problem:
        raise BadInput(f"{path}: cannot be read: {problem.strerror}", cure="give a .npy or .npz capture") from None


def _array(raw: bytes, where: str) -> npt.NDArray[Any]:
    try:
        array = np.load(io.BytesIO(raw), allow_pickle=False)
    except Exception:  # numpy raises many kinds on junk, and advises to load it unsafely
        raise BadInput(f"{where}: not a readable .npy", cure="give an .npy or .npz capture") from None
    if not isinstance(array, np.ndarray):
        raise BadInput(f"{where}: not a single array", cure="give an .npy or .npz capture")
    return array


def _unzip(raw: bytes, where: str) -> tuple[npt.NDArray[Any], About, Cells | None]:
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            parts = {info.filename: info.file_size for info in archive.infolist()}
            if set(parts) - {"stretches.npy"} != {"cells.npy", "about.npy"}:
                raise ValueError(f"it holds {sorted(parts)}")
            if max(parts.values()) > MAX_CELLS * CELL.itemsize + (1 << 20):
                raise ValueError("it unpacks to too much")
            cells, text = (_array(archive.read(name), where) for name in ("cells.npy", "about.npy"))
            cut = _array(archive.read("stretches.npy"), where) if "stretches.npy" in parts else None
    except BadInput:
        raise
    except Exception as problem:  # zipfile and zlib raise many kinds on junk
        raise BadInput(
            f"{where}: not a whet capture: {problem}", cure="give a capture that `whet regions` wrote"
        ) from None
    if text.dtype.kind != "U" or text.ndim != 0:
        raise BadInput(f"{where}: its description is not text", cure="give a capture that `whet regions` wrote")
    return cells, _about(str(text).encode(), where), cut


def _about(raw: bytes, where: str) -> About:
    try:
        document = json.loads(raw)
        if isinstance(document, dict) and document.get("schema") is not None:
            parse(document["schema"], where=where)
        return msgspec.convert(document, About)
    except (ValueError, RecursionError, msgspec.ValidationError) as problem:
        if isinstance(problem, BadInput):
            raise
        raise BadInput(f"{where}: bad description: {problem}", cure="docs/regions.md lists the keys") from None
