"""Which cases: the one a user asks for, the small ones that are gated first, and ever smaller ones to search."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from whet.errors import BadInput
from whet.protocol import Case, Engine, parse_size

SMALL_CASES = 4


def choose(engine: Engine, sizes: Mapping[str, int], profile: str | None) -> Case:
    """The asked sizes and profile; what is not asked for comes from the engine's largest case."""
    default = max(engine.cases(), key=volume)
    for axis, size in sizes.items():
        if axis not in default.sizes:
            raise BadInput(f"engine {engine.name} has no axis {axis!r}", cure=f"axes: {', '.join(default.sizes)}")
        if size < 0:
            raise BadInput(f"{axis}={size} is negative", cure="give a size from 0 on")
    if profile is not None and profile not in engine.profiles():
        raise BadInput(
            f"engine {engine.name} has no input profile {profile!r}", cure=f"profiles: {', '.join(engine.profiles())}"
        )
    return Case(sizes={**default.sizes, **sizes}, profile=profile or default.profile)


def parse_sizes(texts: Sequence[str], n: str | None = None) -> dict[str, int]:
    """Reads `axis=value` items, and `--n` as a short form of `n=value`."""
    sizes: dict[str, int] = {}
    for text in [*texts, *([f"n={n}"] if n is not None else [])]:
        axis, equals, value = text.partition("=")
        if not equals or not axis.strip():
            raise BadInput(f"{text!r} is not axis=value", cure="write --size n=2^10")
        if axis.strip() in sizes:
            raise BadInput(f"axis {axis.strip()} is given twice", cure="give it once")
        sizes[axis.strip()] = parse_size(value, what=f"size of axis {axis.strip()}")
    return sizes


def axis_of(text: str) -> str:
    """The name in `axis=value,value,...`."""
    axis, equals, values = text.partition("=")
    if not equals or not axis.strip() or not values.strip():
        raise BadInput(f"{text!r} is not axis=value,value", cure="write --axis n=2^8,2^10")
    return axis.strip()


def parse_axis(text: str) -> tuple[str, list[int]]:
    """Reads `axis=size,size,...`."""
    axis = axis_of(text)
    sizes = [parse_size(value, what=f"size of axis {axis}") for value in text.partition("=")[2].split(",")]
    if len(set(sizes)) != len(sizes):
        raise BadInput(f"{text!r} has a value twice", cure="give each value once")
    return axis, sizes


def volume(case: Case) -> int:
    return math.prod(max(1, size) for size in case.sizes.values())


def smaller(engine: Engine, case: Case, limit: int = SMALL_CASES) -> list[Case]:
    """Some of the engine's own cases that fit inside `case`, spread from the smallest to the largest."""
    inside = [
        other
        for other in engine.cases()
        if other != case
        and set(other.sizes) == set(case.sizes)
        and all(other.sizes[axis] <= size for axis, size in case.sizes.items())
    ]
    inside.sort(key=volume)
    if len(inside) <= limit:
        return inside
    return [inside[round(i * (len(inside) - 1) / (limit - 1))] for i in range(limit)]


def shrinking(engine: Engine, case: Case) -> list[Case]:
    """Candidates for the smallest failing case, smallest first: halved sizes, and the engine's own small cases.

    None is smaller than the smallest of several sizes listed for an axis: a kernel may be undefined there.
    """
    listed = [other.sizes for other in engine.cases() if set(other.sizes) == set(case.sizes)]
    least = {}
    for axis, size in case.sizes.items():
        sizes_of_axis = {sizes[axis] for sizes in listed}
        least[axis] = min(size, *sizes_of_axis) if len(sizes_of_axis) > 1 else min(size, 1)
    halved, sizes = [case], dict(case.sizes)
    while sizes != least:
        sizes = {axis: max(least[axis], size // 2) for axis, size in sizes.items()}
        halved.append(Case(sizes=sizes, profile=case.profile))
    offered = [*smaller(engine, case, limit=8), *halved]
    return sorted({str(one): one for one in offered}.values(), key=volume)
