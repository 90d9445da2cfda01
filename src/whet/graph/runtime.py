"""Tasks submitted while earlier ones run. Dependencies follow from the tensors, or are given."""

from __future__ import annotations

import atexit
import itertools
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from whet._native import graph as _native
from whet.graph import context
from whet.graph.errors import BadInput, GraphClosed, GraphTimeout
from whet.graph.functions import TaskFunction
from whet.graph.futures import Call, State, Task, running_serial
from whet.graph.group import Group
from whet.graph.mapping import map_tasks
from whet.graph.notices import Callback, Notices
from whet.graph.observe import Peak, Span, Stuck, peaks_of, spans_of, stuck_tasks
from whet.graph.options import number_in, one_of, seconds
from whet.graph.recording import Note, Recording
from whet.graph.replay import check_workers, flat
from whet.graph.status import raise_for, translated
from whet.graph.tensors import OutExisting, Tensor

Policy = Literal["wired", "polling", "hybrid"]
POLICIES: tuple[Policy, ...] = ("wired", "polling", "hybrid")
WakeTarget = Literal["last", "first", "single"]
WAKE_TARGETS: tuple[WakeTarget, ...] = ("last", "first", "single")
RETAINS = ("scope", "consumers")
TRACES = ("off", "phases", "tasks")
CLOSE_AT_EXIT_S = 5.0

if TYPE_CHECKING:

    class Submitter:
        """The call that a program makes per task, and what it needs: native/bind/graph_submit.cpp."""

        _native: Any
        _recording: Recording | None
        _serial: int
        _closed: bool

        def _attach(self, native: Any, serial: int) -> None: ...

        def submit(
            self, body: Any, /, *arguments: Any, after: Iterable[Task | int] = (), name: str | None = None
        ) -> Task:
            """Submits one task. Blocks while rings are full; runs tasks meanwhile.

            Arguments in order: tensors (In, InOut, Out, OutExisting, NoDep) and scalars. A Python body gets arrays and
            values in that order, a native one gets all tensor addresses and all scalar words. A Task as an argument is
            waited for, and a Python body gets what it returned.
            """
else:
    Submitter = _native.Submitter

_live: weakref.WeakSet[Runtime] = weakref.WeakSet()
_serial = itertools.count(1)
_one_recording = threading.Lock()


class Runtime(Submitter):
    """A task-graph runtime. Use it as a context manager. Any thread may call any of its methods at any time.

    policy: how readiness is found (`hybrid`, `polling`, `wired`); the results are the same. workers: with the
    submitting thread, one per core when left out. window: tasks in flight, a power of two from 4. heap_bytes: the ring
    of a batch's outputs, and how many bytes of other outputs may be held at a time. retain: an output of a batch lives
    to the end of its scope and its last consumer (`scope`), or of its last submitted consumer (`consumers`).
    submitter_helps: the submitting thread runs tasks while it waits; turn
    it off when a body may block for ever and `wait(timeout_s=...)` must still return.
    """

    def __init__(
        self,
        *,
        policy: Policy = "hybrid",
        workers: int | None = None,
        window: int = 16384,
        heap_bytes: int = 256 << 20,
        retain: Literal["scope", "consumers"] = "scope",
        wake_target: WakeTarget = "last",
        ready_capacity: int = 1024,
        tensormap_capacity: int = 65536,
        output_align: int = 64,
        submitter_helps: bool = True,
        stall_s: float = 10.0,
        trace: Literal["off", "phases", "tasks"] = "off",
        trace_capacity: int = 1 << 16,
        record_edges: bool = False,
    ) -> None:
        options = {
            "policy": one_of("policy", policy, POLICIES),
            "wake_target": one_of("wake_target", wake_target, WAKE_TARGETS),
            "workers": check_workers(workers),
            "window": number_in("window", window, 4, 2**30),
            "heap_bytes": number_in("heap_bytes", heap_bytes, 64, 2**62),
            "retain": one_of("retain", retain, RETAINS),
            "ready_capacity": number_in("ready_capacity", ready_capacity, 1, 2**30),
            "tensormap_capacity": number_in("tensormap_capacity", tensormap_capacity, 4, 2**22),
            "output_align": number_in("output_align", output_align, 8, 2**20),
            "submitter_helps": bool(submitter_helps),
            "stall_ns": int(seconds("stall_s", stall_s) * 1e9),
            "trace": one_of("trace", trace, TRACES),
            "trace_capacity": number_in("trace_capacity", trace_capacity, 1, 2**31),
            "record_edges": bool(record_edges),
        }
        self.policy = policy
        self.window = window
        with translated():
            self._attach(_native.Runtime(options), next(_serial))
        self._notices = Notices(self._native, helps=bool(submitter_helps) or options["workers"] == 1)
        _live.add(self)

    @contextmanager
    def record(self) -> Iterator[Recording]:
        """What this thread submits inside runs, and is noted to be replayed: `with rt.record() as graph: ...`, then
        `graph.replay()`. The block ends when its tasks are done."""
        self._usable()
        recording = Recording(self)
        try:
            with _one_recording:
                if self._recording is not None:
                    raise BadInput("this runtime is recording already", cure="one recording at a time")
                self._recording = recording
            yield recording
        finally:
            if self._recording is recording:
                self._recording = None
        recording.end()

    @property
    def is_recording(self) -> bool:
        """Whether what this thread submits is noted."""
        return self._recording is not None and self._recording.wants()

    def submit_batch(self, batch: Any, rows: list[tuple[int, int, bool, str]], *, keep: Any) -> int:
        """Submits a checked batch (see whet.graph.batch) and returns the id of its first task."""
        return self._submit_at_once(self._native.submit_batch, batch, rows, keep)[0]

    def submit_rows(
        self, rows: Any, body: tuple[int, int, bool, str], tasks: int, *, keep: Any
    ) -> npt.NDArray[np.uint64]:
        """Submits many tasks of one body (see whet.graph.mapping) and returns their ids."""
        first, ids = self._submit_at_once(self._native.submit_rows, rows, [body], keep)
        return np.arange(first, first + tasks, dtype=np.uint64) if ids is None else np.frombuffer(ids, np.uint64)

    def _submit_at_once(
        self, submit: Callable[..., Any], tasks: Any, bodies: list[tuple[int, int, bool, str]], keep: Any
    ) -> tuple[int, bytes | None]:
        self._usable()
        if self.is_recording:
            raise BadInput(
                "a batch cannot be recorded", cure="build a Graph of the same workload, or submit one by one"
            )
        with translated():
            named = [
                (address, user, built_in, self._native.name_task(name)) for address, user, built_in, name in bodies
            ]
            first, ids = submit(tasks, named, keep)
            return int(first), ids

    def map(self, body: Any, /, *arguments: Any, after: Iterable[Task | int] = (), name: str | None = None) -> Group:
        """As many tasks as the arguments have rows, in one call.

        Tensors are cut along their first axis; of a list, a tuple or a plain 1-D array each task gets one item;
        anything else is given to every task. `Out((n, ...))` is allocated once and is in `group.outputs`.
        """
        self._usable()
        return map_tasks(self, body, arguments, after=_iterable(after), name=name)

    def alloc(self, *tensors: Tensor, name: str = "alloc") -> Task:
        """Outputs without a body, to be filled by later tasks."""
        if not all(isinstance(t, Tensor) and t.array is None for t in tensors):
            raise BadInput("alloc takes Out(...) only", cure="rt.alloc(Out((4, 4), np.float32), ...)")
        return self.submit(None, *tensors, name=name)

    def barrier(self, after: Iterable[Task | int], name: str = "barrier") -> Task:
        """A task that does nothing, after others: one name for many."""
        return self.submit(None, after=after, name=name)

    @contextmanager
    def scope(self, *, manual: bool = False) -> Iterator[None]:
        """Outputs of a batch live to its end (`retain="scope"`). A manual scope tracks no tensors: edges are given. It
        holds for what this thread submits inside."""
        self._usable()
        with translated():
            # It ends with the object at the latest: an interrupt may keep the last line from being reached.
            opened = _native.OpenScope(self._native, bool(manual))
        try:
            yield
        finally:
            if not self._closed:
                with translated():
                    opened.end()

    def wait(self, timeout_s: float | None = None) -> None:
        """Returns when every task is done. Raises the first error since the last wait, with the task's name."""
        self._usable()
        self._wait(self._native.wait_all, timeout_s)

    def wait_for(self, task: Task | int, timeout_s: float | None = None) -> None:
        """Returns when the task is done. Raises what became of it if that is an error, now and later."""
        self._not_inside()
        number = self._id_of(task)
        call = task._call if isinstance(task, Task) else None
        self._wait(lambda limit: self._native.wait(number, limit), timeout_s, call)

    def done(self, task: Task | int) -> bool:
        with translated():
            return bool(self._native.done(self._id_of(task)))

    def state(self, task: Task | int) -> State:
        with translated():
            return State(self._native.state(self._id_of(task)))

    def states(self, ids: npt.ArrayLike) -> npt.NDArray[np.uint8]:
        """`State` of each, in one call."""
        known = self._known(ids)
        with translated():
            return np.frombuffer(self._native.look(known), np.uint8)

    def wait_all_of(self, ids: npt.ArrayLike, timeout_s: float | None = None) -> None:
        """Returns when these tasks are done, whatever became of them."""
        self._not_inside()
        known = self._known(ids)
        self._wait(lambda limit: self._native.wait_all_of(known, limit), timeout_s)

    def wait_any_of(self, ids: npt.ArrayLike, timeout_s: float | None = None) -> None:
        """Returns when one of these tasks is done."""
        self._not_inside()
        known = self._known(ids)
        self._wait(lambda limit: self._native.wait_any_of(known, limit), timeout_s)

    def cancel_these(self, ids: npt.ArrayLike) -> None:
        """Cancels those of these tasks that have not begun."""
        known = self._known(ids)
        with translated():
            self._native.cancel_these(known)

    def withdraw(self, task: Task) -> bool:
        """Cancels one task if it has not begun; whether that is so."""
        number = self._id_of(task)
        with translated():
            return bool(self._native.cancel_one(number))

    def notify(self, task: Task, function: Callback) -> None:
        """`task.add_done_callback` for a task that is not done."""
        self._id_of(task)
        self._notices.add(task, function)

    def tell(self, task: Task) -> None:
        """Calls the callbacks of a task whose end is known before the core comes to it."""
        self._notices.tell([self._id_of(task)])

    def cancel(self) -> None:
        """Tasks that are there and have not begun are cancelled; running ones finish. The next `wait` says so."""
        with translated():
            self._native.cancel()

    def close(self, timeout_s: float | None = None) -> None:
        """Cancels what has not begun, waits for what runs, ends the workers. Again: nothing.

        With a timeout, a body that does not return in time is left behind with its thread and what it uses, and
        GraphTimeout names it.
        """
        if self._closed:
            return
        if running_serial() == self._serial:
            raise BadInput("a task body closes the runtime that runs it", cure="close it from the thread that owns it")
        limit = 0 if timeout_s is None else max(1, int(seconds("timeout_s", timeout_s) * 1e9))
        stuck = self.watchdog() if limit else []
        try:
            self._native.shutdown(limit)
        except _native.StatusError as status:
            if status.args[0] != "timed_out":
                raise_for(status.args)
            self._end()
            running = ", ".join(str(s) for s in self.watchdog() or stuck if s.running) or "a body"
            raise GraphTimeout(
                f"the runtime did not close within {timeout_s} s: {running} did not return",
                cure="its thread is left behind; end the process, or make the body return",
            ) from None
        self._end()

    def _end(self) -> None:
        self._closed = True
        _live.discard(self)

    def peaks(self) -> dict[str, Peak]:
        """Occupancy of every ring, now and at its highest, with advice on its size."""
        with translated():
            return peaks_of(self._native.peaks())

    def totals(self) -> dict[str, int]:
        with translated():
            return dict(self._native.totals())

    def watchdog(self) -> list[Stuck]:
        """Tasks that are not done: those running and for how long, then those waiting and for whom."""
        with translated():
            return stuck_tasks(self._native.watchdog())

    def phases(self) -> list[dict[str, tuple[int, int]]]:
        """Per worker and phase: nanoseconds and times (trace="phases" or "tasks"). Wait first."""
        return list(self._native.phases())

    def spans(self) -> list[Span]:
        """One span per task that ran (trace="tasks"). Wait first."""
        return [s for w in range(self._native.workers) for s in spans_of(w, self._native.trace(w))]

    def recorded_edges(self) -> list[tuple[int, int, str]]:
        """(producer, consumer, owner | data | given) for every edge (record_edges=True)."""
        with translated():
            return list(self._native.edges())

    @property
    def workers(self) -> int:
        return int(self._native.workers)

    def __enter__(self) -> Runtime:
        context.enter(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        context.leave(self)
        if kind is not None:
            with suppress(GraphTimeout):
                self.close(CLOSE_AT_EXIT_S)
            return
        try:
            if not self._closed:
                self.wait()
        finally:
            self.close()

    # By default arguments: what the module holds may be gone by then.
    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing, quiet: Any = suppress) -> None:
        """Made after the handlers at exit have run: its workers wait for the interpreter lock, which nobody gets any
        more, so they are not waited for."""
        if is_finalizing() and not self._closed:
            with quiet(Exception):
                self._native.shutdown(1)

    def _not_inside(self) -> None:
        if running_serial() == self._serial:
            raise BadInput(
                "a task body waits for the runtime that runs it, or submits many tasks at once to it",
                cure="let it submit single tasks and return them; wait from the thread that owns the runtime",
            )

    def _usable(self) -> None:
        self._not_inside()
        if self._closed:
            raise GraphClosed("the runtime has been closed", cure="make another one")

    def _wait(self, wait: Any, timeout_s: float | None, call: Call | None = None) -> None:
        """One wait of the core, which asks for signals by itself. `call`: the one that is waited for, if any."""
        limit = 0 if timeout_s is None else max(1, int(seconds("timeout_s", timeout_s) * 1e9))
        try:
            wait(limit)
        except _native.StatusError as status:
            if status.args[0] == "task_failed" and call is not None and call.error is not None:
                raise_for((*status.args[:6], call.error))
            if status.args[0] != "timed_out":
                raise_for(status.args)
            stuck = "; ".join(str(s) for s in self.watchdog()[:4]) or "nothing is left to wait for"
            raise GraphTimeout(
                f"the wait ended after {timeout_s} s: {stuck}", cure="wait longer, or see what it waits for"
            ) from None

    def _known(self, ids: npt.ArrayLike) -> npt.NDArray[np.uint64]:
        """The numbers of tasks that were submitted here. One that comes later must not be waited for or cancelled."""
        numbers = flat(ids, np.uint64, "the numbers of tasks")
        with translated():
            submitted = self._native.next_id
        if len(numbers) and numbers.max() >= submitted:
            raise BadInput(f"task {numbers.max()} was never submitted", cure="pass ids of what submit returned")
        return numbers

    def _id_of(self, task: Task | int) -> int:
        if isinstance(task, Task):
            if task._runtime is not self:
                raise BadInput(f"{task} belongs to another runtime", cure="wait for it there")
            return task.id
        if isinstance(task, bool) or not isinstance(task, int) or task < 0:
            raise BadInput(f"{task!r} is not a task", cure="pass what submit returned")
        with translated():
            unknown = task >= self._native.next_id
        if unknown:
            raise BadInput(f"task {task} was never submitted", cure="pass what submit returned")
        return task


def _note(runtime: Runtime, task: Task, submitted: tuple[Any, tuple[Any, ...], list[int], list[int]]) -> None:
    """A submission while the runtime records: its body, arguments, scalar words and the tasks before it."""
    recording = runtime._recording
    if recording is None or not recording.wants():
        return
    body, arguments, scalars, before = submitted
    made = iter(task.outputs)
    tensors = [a for a in arguments if isinstance(a, Tensor)]
    known = tuple(t if t.array is not None else OutExisting(next(made)) for t in tensors)
    recording.note(Note(task, body, arguments, known, tuple(scalars), tuple(before)))


_native.configure(raise_for=raise_for, function=TaskFunction, note=_note)


def _iterable(after: Any) -> Iterable[Any]:
    if isinstance(after, (Task, int)) or not isinstance(after, Iterable):
        raise BadInput(f"after={after!r} is not a list of tasks", cure="after=[task, ...]")
    return after


@atexit.register
def _close_all() -> None:
    """Workers that need the interpreter must be gone before it is."""
    for runtime in list(_live):
        with suppress(Exception):
            runtime.close(CLOSE_AT_EXIT_S)
