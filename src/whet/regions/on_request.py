"""Writing what has been recorded so far while the program runs: when a signal comes, or a file PATH.ask is made.

The signal's handler writes one byte to a pipe and nothing else; a thread of its own does the work, so nothing that the
interrupted thread holds can stop it. That thread also looks for the file ten times a second.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from whet.errors import WhetError
from whet.regions.capture import save
from whet.regions.recorder import Recording

LOOK_S = 0.1
STOP, ASK = b"s", b"a"


class Requests:
    """`answered` counts the captures that were written."""

    def __init__(self) -> None:
        self.answered = 0


@contextmanager
def on_request(recording: Recording, path: str | Path, number: int = signal.SIGUSR1) -> Iterator[Requests]:
    """Writes `path` (.npz) whenever the process gets the signal, or somebody makes the file `path`.ask.

    Python lets its main thread alone install handlers, and runs them between its bytecodes: from another thread only
    the file asks, and while the main thread is inside a long native call the file is answered sooner.
    """
    target, requests = Path(path), Requests()
    reading, writing = os.pipe()
    os.set_blocking(writing, False)

    def handler(_signal: int, _frame: object) -> None:
        with suppress(BlockingIOError):  # a full pipe has asked already
            os.write(writing, ASK)

    in_main = threading.current_thread() is threading.main_thread()
    former = signal.signal(number, handler) if in_main else None
    watcher = threading.Thread(
        target=_watch, args=(recording, target, reading, requests), name="whet-regions-on-request", daemon=True
    )
    watcher.start()
    try:
        yield requests
    finally:
        if in_main:
            signal.signal(number, former if former is not None else signal.SIG_DFL)
        os.set_blocking(writing, True)
        os.write(writing, STOP)
        watcher.join()
        os.close(reading)
        os.close(writing)


def _watch(recording: Recording, target: Path, reading: int, requests: Requests) -> None:
    ask = Path(f"{target}.ask")
    while True:
        ready = select.select([reading], [], [], LOOK_S)[0]
        said = os.read(reading, 4096) if ready else b""
        asked = ASK in said
        with suppress(OSError):
            ask.unlink()  # its removal tells who asked that it was seen
            asked = True
        if asked:
            try:
                save(recording.capture_so_far(), target)
                requests.answered += 1
            except (WhetError, OSError) as problem:
                print(f"whet regions: {target} is not written: {problem}", file=sys.stderr)
        if STOP in said:
            return
