"""Every workload by name, made anew from its parameters: `make("pa:Case1")`, `make("chain", tasks=1024)`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial

from whet.errors import BadInput
from whet.graph.workloads import attention, matrix, shapes
from whet.graph.workloads.workload import ACCESS, EXTERNAL, Direction, Workload

__all__ = ["ACCESS", "EXTERNAL", "Direction", "Workload", "families", "make", "names", "of_size"]

Maker = Callable[..., Workload]


def _table() -> dict[str, Maker]:
    table: dict[str, Maker] = {}
    for case, sizes in attention.CASES.items():
        table[f"pa:{case}"] = partial(attention.attention, sizes=sizes)
    for case in ("Case1", "Case2"):
        sizes = attention.CASES[case]
        table[f"pa-manual:{case}"] = partial(attention.attention, sizes=sizes, manual=True)
        table[f"pa-unroll-manual:{case}"] = partial(attention.attention, sizes=sizes, manual=True, unroll=True)
    table["bgemm:Case0"] = matrix.bgemm
    table["chain"] = shapes.chain
    table["wavefront"] = shapes.wavefront
    table["fan"] = shapes.fan
    table["random"] = shapes.random_dag
    table["cholesky"] = matrix.cholesky
    return table


_MAKERS = _table()


def names() -> tuple[str, ...]:
    return tuple(_MAKERS)


def make(name: str, **parameters: int) -> Workload:
    """The workload of that name; `parameters` change its sizes (see each maker)."""
    if name not in _MAKERS:
        raise BadInput(f"there is no workload {name!r}", cure=f"workloads: {', '.join(_MAKERS)}")
    maker = _MAKERS[name]
    allowed = set(inspect.signature(maker).parameters) - {"name", "sizes", "manual", "unroll"}
    for key, value in parameters.items():
        if key not in allowed:
            raise BadInput(
                f"workload {name} has no parameter {key!r}", cure=f"parameters: {', '.join(sorted(allowed))}"
            )
        if not isinstance(value, int) or value < (0 if key == "seed" else 1):
            raise BadInput(f"workload {name}: {key}={value!r} is not a positive whole number", cure="give one")
    return maker(name, **parameters)


def families() -> tuple[str, ...]:
    """The shapes that exist in any size."""
    return ("pa", "chain", "wavefront", "fan", "random", "cholesky")


def of_size(family: str, tasks: int, *, seed: int = 0) -> Workload:
    """A member of a family with about that many tasks, for growth tables. `seed` changes those that draw numbers."""
    if family == "pa":
        big = attention.CASES["Case1"]
        sequences = max(1, round(tasks / (1 + 4 * big.blocks)))
        sizes = attention.Sizes(sequences, big.heads, big.width, big.block, big.context)
        return attention.attention(f"pa:{sequences}", sizes, seed=seed)
    if family == "chain":
        return make("chain", tasks=tasks)
    if family == "wavefront":
        return make("wavefront", side=max(1, round(tasks**0.5)))
    if family == "fan":
        return make("fan", rounds=max(1, round(tasks / 1002)))
    if family == "random":
        return make("random", tasks=tasks, seed=seed)
    if family == "cholesky":
        return make("cholesky", tiles=max(1, round((6 * tasks) ** (1 / 3))))
    raise BadInput(f"there is no workload family {family!r}", cure=f"families: {', '.join(families())}")
