"""Telling others that tasks are done: callbacks and event loops, which do not wait in the runtime themselves.

A listener calls the callbacks. Where a thread that waits would run tasks, a stand-in does so in its place. Both are
started when somebody first asks, and end when nobody has asked for a while.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from whet.graph.futures import Task

Callback = Callable[["Task"], object]
Role = Literal["listen", "help"]

LISTEN_NS = 2_000_000  # tasks that are added meanwhile are seen after so long
HELP_NS = 20_000_000
LINGER_S = 1.0

_log = logging.getLogger("whet.graph")


def call(function: Callback, task: Task) -> BaseException | None:
    """A callback that raises is logged, as those of concurrent.futures are, and harms nobody. An interrupt is not the
    callback's: it is for the thread that was interrupted, and returned."""
    try:
        function(task)
    except Exception:
        _log.exception("a callback of %r raised", task)
    except BaseException as interrupt:
        return interrupt
    return None


making = threading.RLock()
"""Held while a task gets its `Standard`."""


class Standard:
    """One task as concurrent.futures.wait and as_completed know futures: a state that changes under a condition, and
    waiters that are told of it. Those two functions, and no others, look at these."""

    def __init__(self) -> None:
        # An interrupt can leave a Condition locked that is entered itself; a lock of C's it cannot.
        self._lock = threading.RLock()
        self.condition = threading.Condition(self._lock)
        self.state = "PENDING"
        self.waiters: list[Any] = []

    def finish(self, task: Task) -> None:
        cancelled = failed = False
        try:
            cancelled = task.cancelled()
            failed = not cancelled and task.exception() is not None
        except Exception:  # its outcome is not known any more, or its runtime is gone; asking for it says so
            failed = True
        with self._lock:
            self.state = "CANCELLED_AND_NOTIFIED" if cancelled else "FINISHED"
            for waiter in self.waiters:
                if cancelled:
                    waiter.add_cancelled(task)
                elif failed:
                    waiter.add_exception(task)
                else:
                    waiter.add_result(task)
            self.condition.notify_all()


class Notices:
    """The callbacks of one runtime. Holds the tasks that somebody waits for, and with them their runtime."""

    def __init__(self, native: Any, *, helps: bool) -> None:
        self._native = native
        # By name: bound methods would be a cycle, and a runtime that nobody holds would live until it is found.
        self._roles: tuple[Role, ...] = ("listen", "help") if helps else ("listen",)
        self._lock = threading.Lock()  # entered instead of the condition, see Standard
        self._changed = threading.Condition(self._lock)
        self._waiting: dict[int, list[tuple[Task, Callback]]] = {}
        self._served: dict[Role, threading.Thread] = {}

    def add(self, task: Task, function: Callback) -> None:
        with self._lock:
            self._waiting.setdefault(task.id, []).append((task, function))
            for role in self._roles:
                if role in self._served and self._served[role].is_alive():
                    continue
                # Known before it runs: an interrupt may come while it is started.
                thread = threading.Thread(target=self._serve, args=(role,), name="whet.graph notices", daemon=True)
                self._served[role] = thread
                thread.start()
            self._changed.notify_all()

    def tell(self, numbers: list[int]) -> None:
        """Calls what waits for these tasks, on this thread."""
        with self._lock:
            entries = [entry for number in numbers for entry in self._waiting.pop(number, ())]
        interrupts = [call(function, task) for task, function in entries]
        for interrupt in interrupts:
            if interrupt is not None:
                raise interrupt

    def _serve(self, role: Role) -> None:
        """One thread: it works while somebody waits, and ends when nobody has for a while."""
        work = self._listen if role == "listen" else self._help
        while True:
            with self._lock:
                if self._served.get(role) is not threading.current_thread():
                    return  # started twice
                if not self._waiting and not self._changed.wait(LINGER_S) and not self._waiting:
                    del self._served[role]
                    return
                numbers = list(self._waiting)
            if numbers:
                try:
                    work(numbers)
                except BaseException:  # an exit or an interrupt that a callback raised has no other thread to go to
                    _log.exception("a callback raised")

    def _listen(self, numbers: list[int]) -> None:
        ids = np.array(numbers, np.uint64)
        if not self._native.listen(ids, LISTEN_NS):
            self.tell(numbers)  # shut down: whatever has become of them, nothing more will
            return
        states = self._native.look(ids)
        done = [number for number, state in zip(numbers, states, strict=True) if state >= 2]
        if done:
            self.tell(done)

    def _help(self, numbers: list[int]) -> None:
        self._native.help(HELP_NS)
        with self._lock:
            if self._waiting:
                self._changed.wait(0.001)
