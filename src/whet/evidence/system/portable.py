"""The same promises with what every POSIX system has. Weaker, and the run says so.

A process is frozen by SIGSTOP and its processor time is read from the process table; it shares user, files and process
table with everybody else, so it can look at and signal its rivals.
"""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import time
from collections.abc import Sequence

import psutil

from whet.evidence.system.common import STOP_LIMIT_S, Granted, NotStopped, Usage


def make_memory(name: str, size_bytes: int) -> int:
    with tempfile.TemporaryFile(prefix=f"whet-{name}-") as file:
        fd = os.dup(file.fileno())
    os.ftruncate(fd, max(1, size_bytes))
    return fd


def forbid_new_writers(fd: int) -> bool:
    return False


def die_with_parent() -> None:
    """The closed channel has to do."""


def hide_memory() -> None:
    """Left to the system's own rules."""


def hide_arguments(words: frozenset[str]) -> None:
    """Not to be had everywhere."""


def enter(level: str, kept: Sequence[str] = ()) -> tuple[int, Granted]:
    missing = {what: "not on this system, or left out on request" for what in ("namespaces", "seccomp")}
    return os.getpid(), Granted(missing=missing)


def ask_the_parent(granted: Granted) -> None:
    """Nothing to ask with."""


def seal() -> None:
    """Nothing to seal with."""


def freeze(pid: int) -> None:
    try:
        process = psutil.Process(pid)
        process.send_signal(signal.SIGSTOP)
        deadline = time.monotonic() + STOP_LIMIT_S
        while (state := process.status()) != psutil.STATUS_STOPPED:
            if state in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
                raise NotStopped("the process is gone")
            if time.monotonic() > deadline:
                raise NotStopped("its threads did not stop")
            time.sleep(0)
    except psutil.Error:
        raise NotStopped("the process is gone") from None


def thaw(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGCONT)
    except OSError:
        raise NotStopped("the process is gone") from None


def usage(pid: int) -> Usage:
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.Error:
        return Usage(0, 0, 0)
    spent_ns = int(1e9 * (times.user + times.system))
    return Usage(spent_ns, spent_ns, 0)


def wants_to_run(pid: int) -> bool:
    with contextlib.suppress(psutil.Error):
        return bool(psutil.Process(pid).status() == psutil.STATUS_RUNNING)
    return False


def threads(pid: int) -> int:
    with contextlib.suppress(psutil.Error):
        return int(psutil.Process(pid).num_threads())
    return 1


def own_libraries(pid: int) -> set[str]:
    """Not every system tells."""
    return set()


def children(pid: int) -> list[int]:
    with contextlib.suppress(psutil.Error):
        return [child.pid for child in psutil.Process(pid).children(recursive=True)]
    return []


def shared_with_others(pid: int, *, on_gpu: bool) -> str | None:
    return None


def filters(pid: int) -> int:
    return 0


def pin(pid: int, cores: list[int]) -> None:
    with contextlib.suppress(psutil.Error, AttributeError):
        psutil.Process(pid).cpu_affinity(cores)


def usable_cores() -> list[int]:
    return list(range(os.cpu_count() or 1))


def kill(pid: int) -> None:
    for child in children(pid):
        with contextlib.suppress(OSError):
            os.kill(child, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
