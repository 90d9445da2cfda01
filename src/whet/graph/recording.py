"""Tasks submitted once and replayed many times, on the same arrays or on others of the same layout.

What a runtime is given inside `with rt.record() as graph:` runs as usual and is noted. At the end the edges are found
by submitting the notes to a runtime that runs nothing, so that no task is done before the next one asks for it, and a
`Graph` is built of them.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from whet._native import graph as _native
from whet.graph.bodies import NativeBody
from whet.graph.errors import BadInput, GraphTimeout
from whet.graph.futures import Task
from whet.graph.group import gather
from whet.graph.replay import Graph, Replay, Turns
from whet.graph.tensors import Array, Tensor, describe, extent
from whet.graph.workloads.workload import Direction

if TYPE_CHECKING:
    from whet.graph.runtime import Runtime

Pair = tuple[Array, Array]
WRITES = (Direction.INOUT, Direction.OUT_EXISTING)


@dataclass(frozen=True)
class Note:
    """One submission. `tensors` in order, those that were allocated with the memory they were given."""

    task: Task
    body: Any
    arguments: tuple[Any, ...]
    tensors: tuple[Tensor, ...]
    scalars: tuple[int, ...]
    before: tuple[int, ...]


@dataclass(frozen=True)
class Binding:
    """The arrays of a replay: what stands for what, addresses for native bodies, calls for Python ones, by place."""

    pairs: list[Pair]
    addresses: npt.NDArray[np.uint64]
    calls: dict[int, tuple[Any, list[Any]]]

    def is_for(self, pairs: list[Pair]) -> bool:
        return len(pairs) == len(self.pairs) and all(
            mine[0] is other[0] and mine[1] is other[1] for mine, other in zip(self.pairs, pairs, strict=True)
        )


class NamedGraph(Graph):
    """A graph whose tasks have names of their own."""

    task_names: list[str]

    def name_of(self, task: int) -> str:
        return f"{self.task_names[task]}[{task}]"


class Recording:
    """Made by `Runtime.record`. After its block, `replay` runs the tasks again without Python between native ones."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._thread = threading.get_ident()
        self._notes: list[Note] = []
        self._graph: Graph | None = None
        self._turns = Turns()
        self._values: list[Any] = []
        self._binding = Binding([], np.zeros(0, np.uint64), {})
        self._binding_before = self._binding
        self._left = False

    def wants(self) -> bool:
        """Whether what this thread submits is to be noted."""
        return threading.get_ident() == self._thread

    def note(self, note: Note) -> None:
        self._notes.append(note)

    @property
    def tasks(self) -> int:
        return len(self._notes)

    @property
    def edges(self) -> int:
        return self._built().edges

    def end(self) -> None:
        """The block is over: waits for its tasks, raises their first error, builds the graph."""
        gather(*[note.task for note in self._notes]).wait()
        place = {note.task.id: at for at, note in enumerate(self._notes)}
        edges = _edges(self._runtime, self._notes, place)
        self._values = [None] * len(self._notes)
        self._arrays = [tensor.array for note in self._notes for tensor in note.tensors if tensor.array is not None]
        self._writes = np.array([t.direction in WRITES for note in self._notes for t in note.tensors], bool)
        self._begins = np.array([extent(array)[0] for array in self._arrays], np.int64)
        self._ends = np.array([extent(array)[1] for array in self._arrays], np.int64)
        self._home = np.array([array.ctypes.data for array in self._arrays], np.uint64)
        rows: dict[Any, int] = {None: 0}
        kind = [rows.setdefault(_row_of(note.body), len(rows)) for note in self._notes]
        bodies = [_weakly(self) if row is _PYTHON else row for row in rows]
        self._bodies = [note.body for note in self._notes]  # they keep what the addresses need
        self._place = place
        starts = np.cumsum([0, *(len(note.tensors) for note in self._notes)])
        words = [(at,) if _row_of(note.body) is _PYTHON else note.scalars for at, note in enumerate(self._notes)]
        graph = NamedGraph.from_edges(
            len(self._notes),
            edges,
            bodies,
            kind=np.array(kind, np.int64),
            tensors=(self._home.copy(), starts),
            scalars=(
                np.array([word for each in words for word in each], np.uint64),
                np.cumsum([0, *(len(each) for each in words)]),
            ),
        )
        graph.task_names = [note.task.name for note in self._notes]
        self._graph = graph
        self._addresses = graph.tensor_addresses
        self._binding = self._binding_before = self._bound_to([])

    def replay(
        self,
        *,
        rebind: Iterable[Pair] = (),
        workers: int | None = None,
        timeout_s: float | None = None,
    ) -> Replay:
        """Runs every task once more. `rebind=[(a, b), ...]`: what was done with `a`, and with views of it, is done with
        `b` this time. The options are those of `Graph.replay`. Tasks of the runtime are not waited for."""
        graph = self._built()
        pairs = [_checked(pair) for pair in rebind]
        turn = [os.getpid()]
        try:
            self._turns.claim(turn, "recording", "wait for that replay")
            self._rebind(pairs)
            try:
                replay = graph.replay(workers=workers, timeout_s=timeout_s)
            except GraphTimeout:
                self._left = True
                raise
            self._left = False
            return replay
        finally:
            if self._turns.held is turn:
                self._turns.held = None

    def value(self, task: Task) -> Any:
        """What the Python body of a recorded task returned in the last replay."""
        at = self._place.get(task.id) if self._graph is not None else None
        if at is None or self._notes[at].task is not task:
            raise BadInput(f"{task} was not recorded here", cure="pass what submit returned inside the block")
        return self._values[at]

    def _built(self) -> Graph:
        if self._graph is None:
            raise BadInput("the recording has not ended, or was left by an error", cure="replay it after its block")
        return self._graph

    def _rebind(self, pairs: list[Pair]) -> None:
        if self._binding.is_for(pairs):
            return
        if self._left:
            raise BadInput(
                "bodies of an earlier replay may still use the arrays that it had",
                cure="replay with the same arrays until that goes well, or record again",
            )
        # The one before is kept: two arrays that change places at every step are bound once each.
        known = self._binding_before.is_for(pairs)
        binding = self._binding_before if known else self._bound_to(pairs)
        self._binding, self._binding_before = binding, self._binding
        self._addresses[:] = binding.addresses

    def _bound_to(self, pairs: list[Pair]) -> Binding:
        """Other addresses for the native bodies, other views for the Python ones. Checks everything first."""
        shift = np.zeros(len(self._arrays), np.int64)
        owner = np.full(len(self._arrays), -1)
        for number, (old, new) in enumerate(pairs):
            begin, end = extent(old)
            inside = (self._begins >= begin) & (self._ends <= end)
            if not inside.any():
                raise BadInput(f"rebind: array {number} was not used in the recording", cure="pass one that was")
            if ((self._begins < end) & (self._ends > begin) & ~inside).any():
                raise BadInput(
                    f"rebind: a task uses array {number} together with memory beside it", cure="rebind the whole array"
                )
            if (owner[inside] >= 0).any():
                raise BadInput(f"rebind: array {number} overlaps an earlier one of the list", cure="each one once")
            if self._writes[inside].any() and not new.flags.writeable:
                raise BadInput(f"rebind: the array for array {number} is read-only, and tasks write", cure="a copy")
            owner[inside] = number
            shift[inside] = int(new.ctypes.data) - int(old.ctypes.data)
        self._check_apart(pairs, owner, shift)
        addresses = (self._home.astype(np.int64) + shift).astype(np.uint64)
        return Binding(pairs, addresses, self._python_calls(pairs, owner))

    def _check_apart(self, pairs: list[Pair], owner: npt.NDArray[np.int64], shift: npt.NDArray[np.int64]) -> None:
        """The edges are those of the old arrays: a new one must share nothing that is written with any other."""
        begins, ends = self._begins + shift, self._ends + shift
        for number, (_, new) in enumerate(pairs):
            begin, end = extent(new)
            mine = owner == number
            met = ~mine & (begins < end) & (ends > begin)
            if self._writes[met].any() or (met.any() and self._writes[mine].any()):
                raise BadInput(
                    f"rebind: the array for array {number} shares memory with another one of the recording, and is "
                    "written",
                    cure="arrays of their own: the order of tasks was found for the recorded ones",
                )

    def _python_calls(self, pairs: list[Pair], owner: npt.NDArray[np.int64]) -> dict[int, tuple[Any, list[Any]]]:
        calls: dict[int, tuple[Any, list[Any]]] = {}
        first = 0
        for at, note in enumerate(self._notes):
            if _row_of(note.body) is _PYTHON:
                tensors = iter(
                    _moved(tensor, pairs[owner[first + n]] if owner[first + n] >= 0 else None)
                    for n, tensor in enumerate(note.tensors)
                )
                given = [_native.for_body(next(tensors)) if isinstance(a, Tensor) else a for a in note.arguments]
                calls[at] = note.body, given
            first += len(note.tensors)
        return calls

    def _run(self, number: int) -> None:
        body, arguments = self._binding.calls[number]
        self._values[number] = body(*[self._passed(a) if isinstance(a, Task) else a for a in arguments])

    def _passed(self, task: Task) -> Any:
        """The result of a task as an argument: of this replay if it was recorded, else what it was."""
        at = self._place.get(task.id)
        return task.result() if at is None else self._values[at]


_PYTHON = object()


def _weakly(recording: Recording) -> Callable[[int], None]:
    """The Python body of the graph: its native half must not hold the recording, which holds the graph."""
    held = weakref.ref(recording)

    def run(number: int) -> None:
        recording = held()
        if recording is not None:
            recording._run(number)

    return run


def _row_of(body: Any) -> Any:
    return body if body is None or isinstance(body, NativeBody) else _PYTHON


def _checked(pair: Any) -> Pair:
    if not isinstance(pair, tuple) or len(pair) != 2 or not all(isinstance(each, np.ndarray) for each in pair):
        raise BadInput("rebind takes pairs of arrays", cure="rebind=[(recorded, other), ...]")
    old, new = pair
    for what, mine, other in (
        ("shape", old.shape, new.shape),
        ("type", old.dtype, new.dtype),
        ("strides", old.strides, new.strides),
    ):
        if mine != other:
            raise BadInput(f"rebind: {what} {other} instead of {mine}", cure="an array of the same layout")
    begin, end = extent(old)
    if end - begin != old.nbytes:
        raise BadInput("rebind: the recorded array has gaps", cure="rebind the array that it is a view of")
    return old, new


def _moved(tensor: Tensor, pair: Pair | None) -> Tensor:
    """The same view of the new array."""
    array = tensor.array
    assert array is not None
    if pair is None:
        return tensor
    old, new = pair
    flat = new.reshape(-1, order="A").view(np.uint8) if new.size else new
    offset = int(array.ctypes.data) - extent(old)[0]
    view: Array = np.ndarray(array.shape, array.dtype, buffer=flat, offset=offset, strides=array.strides)
    return Tensor(tensor.direction, view)


def _edges(runtime: Runtime, notes: list[Note], place: dict[int, int]) -> list[tuple[int, int]]:
    """(producer, consumer) as places. With one worker nothing runs until somebody waits, and nobody does."""
    room = 1 << max(4, len(notes).bit_length() + 1)
    regions = 1 << max(4, (4 * sum(len(note.tensors) for note in notes)).bit_length())
    sketch = type(runtime)(workers=1, window=room, tensormap_capacity=min(regions, 1 << 22), record_edges=True)
    try:
        for note in notes:
            # Without the task that made it: that is told by the memory.
            described = [(*d[:6], None, d[7]) for d in (describe(t, runtime._serial) for t in note.tensors)]
            before = [place[number] for number in note.before if number in place]
            sketch._native.sketch(described, before)
        return sorted({(producer, consumer) for producer, consumer, _ in sketch.recorded_edges()})
    finally:
        sketch.close()
