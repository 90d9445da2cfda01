"""Never two trials on one machine at a time: one lock for pytest's workers, other clusters and other users."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from whet.errors import DeviceTimeout

NAME = "whet-trial.lock"
WAIT_S = 3600.0
STEP_S = 0.05


@contextlib.contextmanager
def alone(on_wait: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Waits until no other trial holds the machine; `on_wait` is told once if there is one.

    The lock ends with its process, so it cannot stick. Systems without such locks do without.
    """
    try:
        import fcntl
    except ImportError:
        yield
        return
    place = Path(tempfile.gettempdir()) / NAME
    deadline = time.monotonic() + WAIT_S
    handle = _open(place)
    try:
        told = False
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise DeviceTimeout(
                        f"another trial has held {place} for {WAIT_S:g} s", cure="wait for it, or end it"
                    ) from None
            if not told:
                on_wait()
                told = True
            time.sleep(STEP_S)
        yield
    finally:
        os.close(handle)


def _open(path: Path) -> int:
    """A file that any user of the machine may lock. The system refuses O_CREAT on another user's file in /tmp."""
    flags = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
    try:
        handle = os.open(path, flags | os.O_CREAT, 0o666)
    except PermissionError:
        return os.open(path, flags)
    with contextlib.suppress(OSError):
        os.fchmod(handle, 0o666)
    return handle
