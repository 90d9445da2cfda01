"""The built graph from Python: replays, failures, interrupts of use, malformed arrays."""

from __future__ import annotations

import ctypes
import itertools
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whet.errors import BadInput
from whet.graph import SIGNATURE, Graph, GraphCycle, TaskFailed, kernel, workloads
from whet.graph.worker_choice import WorkerChoice


def mixed(work, seed):
    from test_graph_face_computations import mixed_by_python

    return mixed_by_python(work, seed)


@pytest.mark.parametrize("name", ["pa:Case4", "bgemm:Case0", "wavefront", "fan", "random", "cholesky"])
@pytest.mark.parametrize("workers", [1, 2, 6])
@pytest.mark.parametrize("coarsen", [True, False])
def test_replays_of_every_shape_are_in_order(name, workers, coarsen, tried):
    sizes = {"wavefront": {"side": 30}, "fan": {"rounds": 3}, "random": {"tasks": 1500}, "cholesky": {"tiles": 10}}
    work = workloads.make(name, **sizes.get(name, {}))
    cells = np.zeros(work.tasks, np.uint64)
    words = np.array([cells.ctypes.data, work.dep_start.ctypes.data, work.dep_task.ctypes.data, 3], np.uint64)
    graph = Graph.from_workload(work, [kernel("mix").with_user(words)] * len(work.kinds))
    want = mixed(work, 3)
    for _ in range(6):
        cells[:] = 0
        assert graph.replay(workers=workers, coarsen=coarsen).executed == work.tasks
        np.testing.assert_array_equal(cells, want)
        tried("tasks checked by their mixed numbers", work.tasks)


def test_python_bodies_by_kind_and_spans():
    log = []
    lock = threading.Lock()

    def note(what):
        def body(task):
            with lock:
                log.append((what, task))

        return body

    graph = Graph.from_edges(4, [(0, 1), (0, 2), (1, 3), (2, 3)], [note("a"), note("b")], kind=[0, 1, 1, 0])
    replay = graph.replay(workers=2, spans=True)
    assert next(t for _, t in log) == 0 and [t for _, t in log][-1] == 3
    assert dict((t, w) for w, t in log) == {0: "a", 1: "b", 2: "b", 3: "a"}
    assert (replay.spans[:, 1] >= replay.spans[:, 0]).all() and set(replay.spans[:, 2]) <= {0, 1}
    assert replay.spans[0, 1] <= replay.spans[1:, 0].min()


def test_a_failing_body_cancels_its_dependents_only():
    ran = []

    def body(task):
        if task == 1:
            raise LookupError("gone")
        ran.append(task)

    graph = Graph.from_edges(6, [(0, 1), (1, 2), (2, 3), (0, 4), (4, 5)], [body], names=["step"])
    with pytest.raises(TaskFailed, match=r"step\[1\] raised LookupError: gone; 2 dependents") as caught:
        graph.replay(workers=2)
    assert isinstance(caught.value.__cause__, LookupError) and sorted(ran) == [0, 4, 5]


def test_a_native_status_fails_the_task():
    @SIGNATURE
    def body(tensors, scalars, user):
        return 9 if scalars[0] == 2 else 0

    graph = Graph.from_edges(4, [(0, 1), (1, 2), (2, 3)], [body])
    with pytest.raises(TaskFailed, match="status 9") as caught:
        graph.replay(workers=2)
    assert (caught.value.task, caught.value.status) == (2, 9)


def test_tensors_and_scalars_reach_native_bodies():
    @SIGNATURE
    def body(tensors, scalars, user):
        ctypes.cast(tensors[0], ctypes.POINTER(ctypes.c_int64))[0] += scalars[0] * scalars[1]
        return 0

    cells = np.zeros(3, np.int64)
    addresses = cells.ctypes.data + 8 * np.arange(3)
    graph = Graph.from_edges(
        3, [(0, 1), (1, 2)], [body], tensors=(addresses, np.arange(4)), scalars=([1, 10, 2, 10, 3, 10], [0, 2, 4, 6])
    )
    graph.replay(workers=2)
    graph.replay(workers=1)
    assert cells.tolist() == [20, 40, 60]


def test_a_cycle_is_refused_with_its_path():
    with pytest.raises(GraphCycle, match="->") as caught:
        Graph.from_edges(6, [(0, 1), (1, 2), (2, 3), (3, 1), (3, 4)])
    path = caught.value.path
    assert path[0] == path[-1] and set(path) == {1, 2, 3}
    assert all((a, b) in {(1, 2), (2, 3), (3, 1)} for a, b in itertools.pairwise(path))
    with pytest.raises(GraphCycle):
        Graph.from_edges(1, [(0, 0)])


def test_a_graph_is_replayed_by_one_at_a_time():
    gate, begun = threading.Event(), threading.Event()

    def body(task):
        begun.set()
        gate.wait(10)

    graph = Graph.from_edges(1, [], [body])
    other = threading.Thread(target=graph.replay, kwargs={"workers": 1})
    other.start()
    begun.wait(10)
    with pytest.raises(BadInput, match="being replayed"):
        graph.replay(workers=1)
    gate.set()
    other.join()


def test_an_empty_graph_is_fine():
    assert Graph([0], []).replay(workers=2).executed == 0


def test_random_edges_run_or_are_cyclic(tried):
    """Against an independent topological order: accepted exactly when there is one."""
    import graphlib

    rng = np.random.default_rng(8)
    accepted = refused = 0
    for _ in range(300):
        tasks = int(rng.integers(1, 12))
        pairs = rng.integers(0, tasks, (int(rng.integers(0, 14)), 2))
        sorter = graphlib.TopologicalSorter({t: set() for t in range(tasks)})
        for producer, consumer in pairs.tolist():
            sorter.add(consumer, producer)
        try:
            list(sorter.static_order())
            cyclic = False
        except graphlib.CycleError:
            cyclic = True
        if cyclic:
            with pytest.raises(GraphCycle):
                Graph.from_edges(tasks, pairs)
            refused += 1
        else:
            seen = []
            Graph.from_edges(tasks, pairs, [seen.append]).replay(workers=1)
            place = {t: i for i, t in enumerate(seen)}
            assert sorted(seen) == list(range(tasks))
            assert all(place[a] < place[b] for a, b in pairs.tolist())
            accepted += 1
    assert accepted > 50 and refused > 50
    tried("adversarial cases", accepted + refused)


WRONG = st.one_of(
    st.lists(st.integers(-(2**70), 2**70), max_size=6),
    st.lists(st.floats(), max_size=4),
    st.text(max_size=3),
    st.none(),
    st.just([[0, 1]]),
    st.just(np.zeros((2, 2))),
)


@settings(max_examples=150, deadline=None)
@given(start=WRONG, predecessors=WRONG, kind=st.one_of(st.none(), WRONG))
def test_malformed_arrays_are_bad_input_or_a_graph(start, predecessors, kind):
    try:
        graph = Graph(start, predecessors, [None], kind=kind)
    except BadInput as error:
        assert error.cure
    else:
        graph.replay(workers=2)


@pytest.mark.parametrize(
    "options",
    [
        {"bodies": []},
        {"bodies": "text"},
        {"bodies": [3]},
        {"kind": [1, 0]},
        {"kind": [0]},
        {"kind": [-1, 0]},
        {"names": ["a", "b"]},
        {"tensors": ([1], [0, 1])},
        {"tensors": [1]},
        {"scalars": ([1, 2], [0, 2, 1])},
        {"scalars": ([-1, 2], [0, 1, 2])},
    ],
)
def test_malformed_options(options, tried):
    bodies = options.pop("bodies", [None])
    with pytest.raises(BadInput):
        Graph([0, 0, 1], [0], bodies, **options)
    tried("malformed inputs")


@pytest.mark.parametrize("workers", [0, -1, 1.5, True, 10**6])
def test_malformed_worker_counts(workers):
    with pytest.raises(BadInput):
        Graph([0], []).replay(workers=workers)


def choices_over(times: dict[int, float], replays: int, most: int = 4, **more) -> list[int]:
    """What a choice does when a replay with w workers always takes times[w] ns per task."""
    choice = WorkerChoice(most, **more)
    made = []
    for _ in range(replays):
        workers = choice.next()
        choice.took(workers, times[workers])
        made.append(workers)
    return made


def test_one_worker_is_chosen_where_it_is_faster():
    made = choices_over({4: 40.0, 1: 3.0}, 300)
    assert made[:4] == [4, 4, 1, 1]
    assert [i + 1 for i, w in enumerate(made) if w == 4 and i >= 4] == [64, 256]


def test_all_workers_are_chosen_where_they_are_faster():
    made = choices_over({4: 40.0, 1: 90.0}, 70)
    assert [i + 1 for i, w in enumerate(made) if w == 1] == [3, 4, 64]


def test_long_bodies_are_never_tried_on_one_worker():
    assert set(choices_over({4: 5000.0}, 300)) == {4}
    assert set(choices_over({1: 3.0}, 5, most=1)) == {1}


def test_python_bodies_are_tried_on_one_worker_though_they_take_microseconds():
    assert choices_over({4: 5000.0, 1: 2500.0}, 6, python=True) == [4, 4, 1, 1, 1, 1]
    assert set(choices_over({4: 90_000.0}, 20, python=True)) == {4}


def test_a_choice_follows_bodies_that_change():
    choice = WorkerChoice(2)
    times = {2: 30.0, 1: 3.0}
    for replay in range(400):
        if replay == 10:
            times = {2: 30.0, 1: 300.0}
        workers = choice.next()
        choice.took(workers, times[workers])
    assert workers == 2


def test_replay_without_workers_runs_every_task_each_time():
    counts = np.zeros(200, np.int64)

    def count(task):
        counts[task] += 1

    graph = Graph.from_edges(200, [(i, i + 1) for i in range(0, 198, 2)], [count])
    for _ in range(6):
        assert graph.replay().executed == 200
    assert (counts == 6).all()
