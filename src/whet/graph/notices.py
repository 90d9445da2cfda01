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


def call(function: Callback, task: Task) -> None:
    """A callback that raises is logged, as those of concurrent.futures are, and harms nobody."""
    try:
        function(task)
    except BaseException:
        _log.exception("a callback of %r raised", task)


making = threading.RLock()
"""Held while a task gets its `Standard`."""


class Standard:
    """One task as concurrent.futures.wait and as_completed know futures: a state that changes under a condition, and
    waiters that are told of it. Those two functions, and no others, look at these."""

    def __init__(self) -> None:
        self.condition = threading.Condition()
        self.state = "PENDING"
        self.waiters: list[Any] = []

    def finish(self, task: Task) -> None:
        cancelled = failed = False
        try:
            cancelled = task.cancelled()
            failed = not cancelled and task.exception() is not None
        except Exception:  # its outcome is not known any more, or its runtime is gone; asking for it says so
            failed = True
        with self.condition:
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
        self._changed = threading.Condition()
        self._waiting: dict[int, list[tuple[Task, Callback]]] = {}
        self._served: list[Role] = []  # the roles that have a thread now

    def add(self, task: Task, function: Callback) -> None:
        with self._changed:
            self._waiting.setdefault(task.id, []).append((task, function))
            for role in self._roles:
                if role not in self._served:
                    threading.Thread(target=self._serve, args=(role,), name="whet.graph notices", daemon=True).start()
                    self._served.append(role)
            self._changed.notify_all()

    def tell(self, numbers: list[int]) -> None:
        """Calls what waits for these tasks, on this thread."""
        with self._changed:
            entries = [entry for number in numbers for entry in self._waiting.pop(number, ())]
        for task, function in entries:
            call(function, task)

    def _serve(self, role: Role) -> None:
        """One thread: it works while somebody waits, and ends when nobody has for a while."""
        work = self._listen if role == "listen" else self._help
        while True:
            with self._changed:
                if not self._waiting and not self._changed.wait(LINGER_S) and not self._waiting:
                    self._served.remove(role)
                    return
                numbers = list(self._waiting)
            if numbers:
                work(numbers)

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
        with self._changed:
            if self._waiting:
                self._changed.wait(0.001)
