"""The workloads have the published counts, and their edges are what an independent look at their bytes gives."""

from __future__ import annotations

import numpy as np
import pytest

from whet.errors import BadInput
from whet.graph import workloads
from whet.graph.workloads import Direction, attention

# tasks, edges, widest fan-in, as published for each case
PUBLISHED = {
    "pa:Case1": (65_792, 98_048, 4),
    "pa:Case2": (32_832, 49_088, 4),
    "pa:Case4": (1_040, 1_520, 4),
    "pa:CaseSmall1": (13, 17, 4),
    "pa-manual:Case1": (65_792, 65_536, 3),
    "pa-manual:Case2": (32_832, 32_768, 3),
    "pa-unroll-manual:Case1": (1_280, 1_024, 2),
    "pa-unroll-manual:Case2": (576, 512, 3),
    "bgemm:Case0": (1_000, 750, 2),
}
SMALL = {
    "chain": {"tasks": 300},
    "wavefront": {"side": 20},
    "fan": {"width": 50, "rounds": 4},
    "random": {"tasks": 600, "reach": 90},
    "cholesky": {"tiles": 9},
}


def bytes_touched(access) -> set[int]:
    starts = access["offset"] + access["stride"] * np.arange(access["rows"])
    return {int(b) for start in starts for b in range(start // 4, (start + access["row_bytes"]) // 4)}


def brute_force_edges(work, upto: int) -> set[tuple[int, int]]:
    """Word by word: who wrote it last, who has read it since. The creator of a buffer precedes all its users."""
    writer: dict[tuple[int, int], int] = {}
    readers: dict[tuple[int, int], set[int]] = {}
    edges: set[tuple[int, int]] = set()
    for access in work.accesses:
        task, buffer = int(access["task"]), int(access["buffer"])
        if task >= upto:
            break
        creator = int(work.buffer_creator[buffer])
        if creator not in (-1, task):
            edges.add((task, creator))
        direction = Direction(int(access["direction"]))
        if direction is Direction.OUT or (buffer < 4 and work.name.startswith("pa") and buffer != attention.OUT):
            continue
        for word in bytes_touched(access):
            key = buffer, word
            reads = direction in (Direction.IN, Direction.INOUT)
            writes = direction in (Direction.INOUT, Direction.OUT_EXISTING)
            if (reads or writes) and key in writer and writer[key] != task:
                edges.add((task, writer[key]))
            if writes:
                edges |= {(task, reader) for reader in readers.pop(key, set()) if reader != task}
                writer[key] = task
            else:
                readers.setdefault(key, set()).add(task)
    return edges


def edges_of(work, upto: int) -> set[tuple[int, int]]:
    return {(task, int(p)) for task in range(upto) for p in work.predecessors(task)}


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_published_counts(name):
    work = workloads.make(name)
    assert (work.tasks, work.edges, work.max_fan_in) == PUBLISHED[name]


def test_kernels_of_paged_attention_are_half_matrix_half_vector():
    work = workloads.make("pa:Case1")
    matrix = np.isin(work.kind, [attention.QK, attention.PV]).sum()
    vector = np.isin(work.kind, [attention.SOFTMAX, attention.UPDATE]).sum()
    assert (matrix, vector) == (32_768, 32_768)


def test_heap_bytes_of_one_sequence_of_case4():
    work = workloads.make("pa:Case4")
    of_first = (work.buffer_creator >= 0) & (work.buffer_creator < 65)
    padded = -(-work.buffer_bytes[of_first] // 1024) * 1024
    assert padded.sum() == 84_992


@pytest.mark.parametrize(
    ("name", "parameters", "upto"),
    [
        ("pa:CaseSmall1", {}, 13),
        ("pa:Case4", {}, 300),
        ("bgemm:Case0", {"groups": 6, "tile": 8}, 24),
        ("bgemm:Case0", {"groups": 3, "depth": 5, "tile": 4}, 30),
        *[(name, sizes, 10**9) for name, sizes in SMALL.items()],
    ],
)
def test_edges_follow_from_the_bytes(name, parameters, upto, tried):
    work = workloads.make(name, **parameters)
    upto = min(upto, work.tasks)
    assert edges_of(work, upto) == brute_force_edges(work, upto)
    tried("dependency edges inferred twice", len(edges_of(work, upto)))


def test_manual_edges_are_enough():
    """Every inferred edge of the automatic graph is implied by a path of the manual one, but for alloc -> early UP."""
    auto, manual = workloads.make("pa:CaseSmall1"), workloads.make("pa-manual:Case1")
    blocks = manual.parameters["blocks"]
    assert blocks == 64 and auto.parameters["blocks"] == 3
    ancestors: list[set[int]] = []
    for task in range(1 + 4 * blocks):
        direct = {int(p) for p in manual.predecessors(task)}
        ancestors.append(direct.union(*(ancestors[p] for p in direct)))
    for task in range(1, 1 + 4 * blocks):
        if task % 4 == 0 and task > 4:
            assert {task - 4, task - 1, task - 2} <= ancestors[task]
    assert 0 in ancestors[4 * blocks]


@pytest.mark.parametrize("name", workloads.names())
def test_edges_point_backwards_and_scopes_balance(name):
    work = workloads.make(name, **SMALL.get(name, {}))
    owner = np.repeat(np.arange(work.tasks), np.diff(work.dep_start))
    assert (work.dep_task < owner).all() and (work.dep_task >= 0).all()
    if len(work.scope_open):
        depth = np.cumsum(work.scope_open.astype(int) - work.scope_close)
        assert depth.min() >= 1 and depth.max() <= 2
    assert (np.diff(work.accesses["task"]) >= 0).all()
    size = work.buffer_bytes[work.accesses["buffer"]]
    last = work.accesses["offset"] + (work.accesses["rows"] - 1) * work.accesses["stride"] + work.accesses["row_bytes"]
    assert (last <= size).all()


def test_same_parameters_same_graph_other_seed_other_graph():
    one, two, other = (workloads.make("random", tasks=500, seed=s) for s in (3, 3, 4))
    assert (one.dep_task == two.dep_task).all()
    assert len(one.dep_task) != len(other.dep_task) or (one.dep_task != other.dep_task).any()


@pytest.mark.parametrize("family", workloads.families())
def test_families_grow(family):
    small, large = workloads.of_size(family, 1000), workloads.of_size(family, 8000)
    assert 0.8 < small.tasks / 1000 < 1.3 and 0.8 < large.tasks / 8000 < 1.3


@pytest.mark.parametrize(
    "call", [("nothing", {}), ("chain", {"side": 3}), ("chain", {"tasks": -4}), ("pa:Case1", {"sizes": 3})]
)
def test_wrong_names_say_what_exists(call):
    name, parameters = call
    with pytest.raises(BadInput, match=r"workloads:|parameters:|whole number"):
        workloads.make(name, **parameters)
