"""What the regions of a kernel mean: a table read from TOML or JSON, strictly, and never from name strings in code."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from whet.errors import BadInput
from whet.regions.grid import Axis, Grid, make_grid
from whet.regions.rules import RESERVED, Rule, parse_number, parse_rule

BUILTIN = ("coop-11", "coop-13", "coop-16", "coop-20")
MAX_REGIONS = 4096


class Region(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A named stretch of one worker's time. `id` is its slot in the capture.

    per     `trip` when the bracket sits inside a loop, else `call`.
    keeps   what a slot holds after several trips: their `sum`, or only the `last` one (then it is a sample).
    slots   legacy layout only: an entry/exit `interval`, or 0 and a `sum` of ticks without a place in time.
    elected some of the active workers are chosen at run time, so one that did not run is no fault.
    scope   of a wait: workers with equal coordinates on these axes wait for each other (empty: all do).
    released_by  of a wait: it ends with the last exit of that region, not with the last arrival at the wait itself.
    """

    id: int
    name: str
    role: Literal["work", "wait", "boundary"]
    label: str = ""
    group: str = ""
    tags: tuple[str, ...] = ()
    active: str = "all"
    elected: bool = False
    per: Literal["call", "trip"] = "call"
    keeps: Literal["sum", "last"] = "sum"
    slots: Literal["interval", "sum"] = "interval"
    trips: str = ""
    parent: int | None = None
    scope: tuple[str, ...] = ()
    released_by: int | None = None

    @property
    def title(self) -> str:
        return self.label or self.name


class Schema(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, dict=True):
    """The regions of one kernel, and the axes and parameters that their rules name."""

    name: str
    regions: tuple[Region, ...] = msgspec.field(name="region")
    axes: tuple[Axis, ...] = (Axis("worker_index", "workers"),)
    parameters: dict[str, int] = {}

    def grid(self, given: Mapping[str, int]) -> Grid:
        return make_grid(self.axes, self.parameters, given)

    @cached_property
    def children(self) -> dict[int, tuple[int, ...]]:
        return {r.id: tuple(c.id for c in self.regions if c.parent == r.id) for r in self.regions}

    def masks(self, grid: Grid) -> npt.NDArray[np.bool_]:
        """(workers, regions): True where the active-worker rule includes the worker."""
        names = grid.names()
        columns = [parse_rule(r.active).mask(names, grid.workers) for r in self.regions]
        return np.stack(columns, axis=1)

    def trips(self, region: Region, grid: Grid) -> int | None:
        """How often one worker runs the region in a launch, where the schema says so."""
        return int(parse_number(region.trips).evaluate(grid.names())) if region.trips else None

    def tagged(self, tag: str) -> tuple[Region, ...]:
        """The regions that carry a tag. A tag that no region carries is an error, not an empty sum."""
        found = tuple(r for r in self.regions if tag in r.tags)
        if not found:
            known = ", ".join(sorted({t for r in self.regions for t in r.tags})) or "none"
            raise BadInput(f"schema {self.name}: no region carries the tag {tag!r}", cure=f"tags: {known}")
        return found

    def find(self, text: str) -> Region:
        """A region by id, by name, or by the end of its name (`wo_gemv` for `phase1_wo_gemv`) where that is unique."""
        if text.isascii() and text.isdigit() and int(text) < len(self.regions):
            return self.regions[int(text)]
        exact = [r for r in self.regions if r.name == text]
        found = exact or [r for r in self.regions if text and r.name.endswith("_" + text)]
        if len(found) == 1:
            return found[0]
        said = f"{len(found)} regions end in {text!r}" if found else f"there is no region {text!r}"
        names = ", ".join(r.name for r in found or self.regions)
        raise BadInput(f"schema {self.name}: {said}", cure=f"one of: {names}")


def builtin(name: str) -> Schema:
    """One of the schemas that come with whet."""
    return parse(tomllib.loads(builtin_text(name)), where=f"built-in schema {name}")


def builtin_text(name: str) -> str:
    """Its source, as a start for one of your own."""
    if name not in BUILTIN:
        raise BadInput(f"there is no built-in schema {name!r}", cure=f"built in: {', '.join(BUILTIN)}; or give a file")
    return resources.files("whet.regions").joinpath("builtin", f"{name}.toml").read_text(encoding="utf-8")


def load_schema(source: str | Path) -> Schema:
    """Reads a schema file (.toml or .json), or a built-in one by name."""
    if str(source) in BUILTIN:
        return builtin(str(source))
    path = Path(source)
    if path.suffix not in (".toml", ".json"):
        raise BadInput(
            f"{source}: neither a built-in schema nor a .toml or .json file", cure=f"built in: {', '.join(BUILTIN)}"
        )
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise BadInput(f"{path}: cannot be read: {problem}", cure="give a readable UTF-8 schema file") from None
    try:
        document = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text, object_pairs_hook=_no_duplicates)
    except (ValueError, RecursionError) as problem:
        raise BadInput(f"{path}: {problem}", cure=f"write valid {path.suffix[1:].upper()}") from None
    return parse(document, where=str(path))


def parse(document: Any, *, where: str) -> Schema:
    """Checks a decoded document and makes a schema of it; every complaint names `where` and a cure."""
    try:
        schema = msgspec.convert(document, Schema)
    except msgspec.ValidationError as problem:
        raise BadInput(f"{where}: {problem}", cure="the keys and their types are in docs/regions.md") from None
    check(schema, where)
    return schema


def check(schema: Schema, where: str) -> None:
    """Everything that types cannot say."""

    def bad(cause: str, cure: str) -> BadInput:
        return BadInput(f"{where}: {cause}", cure=cure)

    count = len(schema.regions)
    if not 0 < count <= MAX_REGIONS:
        raise bad(f"{count} regions", f"declare between 1 and {MAX_REGIONS} [[region]] tables")
    ids = [r.id for r in schema.regions]
    twice = sorted({i for i in ids if ids.count(i) > 1})
    if twice:
        raise bad(f"region id {twice[0]} is used twice", "give every region its own id")
    if ids != list(range(count)):
        raise bad(f"region ids are {ids}", f"number the regions 0 to {count - 1} in order: the id is the slot")
    names = [r.name for r in schema.regions]
    again = sorted({n for n in names if names.count(n) > 1})
    if again or "" in names:
        raise bad(f"region name {again[0] if again else ''!r} is empty or used twice", "give every region its own name")
    _check_names(schema, bad)
    for region in schema.regions:
        _check_region(schema, region, bad)
    for region in schema.regions:
        _check_parents(schema, region, bad)


def _check_names(schema: Schema, bad: Any) -> None:
    words = [word for axis in schema.axes for word in (axis.name, axis.size)] + list(schema.parameters)
    if not schema.axes:
        raise bad("no axes", "declare at least one axis")
    for word in words:
        if not (word.isascii() and word.isidentifier()) or word in RESERVED:
            raise bad(f"{word!r} cannot name an axis or a parameter", "use a plain word that rules do not reserve")
        if words.count(word) > 1:
            raise bad(f"{word!r} names two things", "give every axis, extent and parameter its own name")


def _check_region(schema: Schema, region: Region, bad: Any) -> None:
    axes = {axis.name for axis in schema.axes}
    sizes = {axis.size for axis in schema.axes} | set(schema.parameters)
    label = f"region {region.id} ({region.name})"
    for text, parsed, allowed in (
        (region.active, parse_rule, axes | sizes | {"worker"}),
        (region.trips, parse_number, sizes),
    ):
        if not text and parsed is parse_number:
            continue
        try:
            rule: Rule = parsed(text)
        except BadInput as problem:
            raise bad(f"{label}: {problem.cause}", problem.cure) from None
        unknown = sorted(rule.needs - allowed)
        if unknown:
            raise bad(f"{label}: {text!r} names {unknown[0]!r}", f"known here: {', '.join(sorted(allowed))}")
    if region.role == "wait" and region.tags:
        raise bad(
            f"{label} is a wait and carries tags", "tag the work that causes it: a wait is never added to its cause"
        )
    if region.role != "wait" and (region.scope or region.released_by is not None):
        raise bad(f"{label} has scope or released_by but is no wait", 'give it role = "wait" or drop them')
    if set(region.scope) - axes:
        raise bad(f"{label}: scope names {sorted(set(region.scope) - axes)[0]!r}", f"axes: {', '.join(sorted(axes))}")
    for other, what in ((region.parent, "parent"), (region.released_by, "released_by")):
        if other is not None and not 0 <= other < len(schema.regions):
            raise bad(f"{label}: {what} {other} does not exist", f"use an id from 0 to {len(schema.regions) - 1}")
    if region.per == "call" and (region.keeps == "last" or region.trips):
        raise bad(f'{label}: per = "call" with keeps or trips', 'say per = "trip" for a bracket inside a loop')


def _check_parents(schema: Schema, region: Region, bad: Any) -> None:
    seen, at = {region.id}, region.parent
    while at is not None:
        if at in seen:
            raise bad(f"region {region.id} ({region.name}) is its own ancestor", "break the cycle of parents")
        seen.add(at)
        at = schema.regions[at].parent
    parts = [c for c in schema.children[region.id] if schema.regions[c].keeps == "sum"]
    if region.tags and parts:
        raise bad(
            f"region {region.id} ({region.name}) carries tags and has parts of its own",
            "tag the leaves: a parent's time is the sum of its parts",
        )


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"key {key!r} is given twice")
        found[key] = value
    return found
