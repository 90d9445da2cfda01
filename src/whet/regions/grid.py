"""The shape of a launch: named axes, the first one fastest, and the coordinates of every worker in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np
import numpy.typing as npt

from whet.errors import BadInput

MAX_WORKERS = 1 << 20
MAX_NUMBER = (1 << 31) - 1


class Axis(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One axis: rules use `name` for the coordinate and `size` for the extent."""

    name: str
    size: str


@dataclass(frozen=True)
class Grid:
    """Axes with their extents, and the parameters that rules may name besides."""

    axes: tuple[Axis, ...]
    sizes: dict[str, int]
    parameters: dict[str, int] = field(default_factory=dict)

    @property
    def workers(self) -> int:
        count = 1
        for axis in self.axes:
            count *= self.sizes[axis.size]
        return count

    def names(self) -> dict[str, npt.NDArray[np.int64] | int]:
        """Everything a rule may name: coordinates as one array per axis, extents and parameters as numbers."""
        worker = np.arange(self.workers, dtype=np.int64)
        found: dict[str, npt.NDArray[np.int64] | int] = {"worker": worker, **self.parameters}
        rest = worker
        for axis in self.axes:
            extent = self.sizes[axis.size]
            found[axis.name] = rest % extent
            found[axis.size] = extent
            rest = rest // extent
        return found

    def groups(self, shared: Sequence[str]) -> npt.NDArray[np.int64]:
        """A group number per worker: workers with equal coordinates on the `shared` axes belong together."""
        names = self.names()
        group = np.zeros(self.workers, dtype=np.int64)
        for axis in self.axes:
            if axis.name in shared:
                group = group * self.sizes[axis.size] + np.asarray(names[axis.name])
        return group


def make_grid(axes: Sequence[Axis], defaults: Mapping[str, int], given: Mapping[str, int]) -> Grid:
    """Fills the axes and parameters of a schema from what the launch says; nothing is guessed, nothing left over."""
    sizes: dict[str, int] = {}
    for axis in axes:
        if axis.size not in given:
            wanted = ", ".join(a.size for a in axes)
            raise BadInput(f"the grid does not say {axis.size}", cure=f"give every axis: {wanted}")
        sizes[axis.size] = given[axis.size]
    parameters = {name: given.get(name, value) for name, value in defaults.items()}
    for name, value in given.items():
        if name not in sizes and name not in parameters:
            known = ", ".join([*sizes, *parameters]) or "none"
            raise BadInput(f"the schema has no axis or parameter {name!r}", cure=f"known: {known}")
        if abs(value) > MAX_NUMBER:
            raise BadInput(f"{name}={value} is too large", cure=f"at most {MAX_NUMBER}")
        if name in sizes and value < 1:
            raise BadInput(f"grid axis {name}={value} is not a positive number", cure="give at least 1")
    grid = Grid(tuple(axes), sizes, parameters)
    if grid.workers > MAX_WORKERS:
        raise BadInput(f"a grid of {grid.workers} workers is too large", cure=f"at most {MAX_WORKERS}")
    return grid
