"""A fresh Python process on a machine of the cluster: what a Ray worker does for a trial, and all that it does.

Ray carries this module to the machine by value and it needs the standard library alone, so that a machine without
whet, or with another whet, can still say so. A Ray worker is no place for a trial: it is niced, it has threads of its
own and variables that change how many threads a library takes. The process below has none of that.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from typing import IO

# What Ray sets for its workers, and what would change what is measured.
OF_RAY = ("OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "PYTHONBREAKPOINT", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE")
# Lines that wait to be fetched; a process that says more waits with them.
MOST_LINES = 4096
# Between the end of what it says and the end of what it complains.
LAST_WORDS_S = 0.1
# How long a process may take to end by itself once nobody listens.
END_LIMIT_S = 10.0
LAST_LINES = 20
LONGEST_LINE_BYTES = 2000

Heard = tuple[list[bytes], int | None, str]


class FreshProcess:
    """One process at a time. Whoever holds this actor holds the process: when the actor ends, so does the process."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self._lines: queue.Queue[bytes] = queue.Queue(MOST_LINES)
        self._words: deque[bytes] = deque(maxlen=LAST_LINES)

    def start(self, module: str, request: bytes) -> None:
        """`python -P -m module`, with the request as the first line of its input. An open input says: go on."""
        self.end()
        self._lines = queue.Queue(MOST_LINES)
        self._words = deque(maxlen=LAST_LINES)
        self._child = subprocess.Popen(
            [sys.executable, "-P", "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd="/",
            env=clean_environment(),
            start_new_session=True,
        )
        threading.Thread(target=_read, args=(self._child.stdout, self._lines), daemon=True).start()
        threading.Thread(target=_keep, args=(self._child.stderr, self._words), daemon=True).start()
        assert self._child.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._child.stdin.write(request + b"\n")
            self._child.stdin.flush()

    def hear(self, wait_s: float) -> Heard:
        """The lines since the last call, after at most so long; its exit code once it has ended, and its last words."""
        lines: list[bytes] = []
        with contextlib.suppress(queue.Empty):
            lines.append(self._lines.get(timeout=wait_s))
            while True:
                lines.append(self._lines.get_nowait())
        if lines and lines[-1] == b"":
            return lines[:-1], self._exit_code(), self._last_words()
        return lines, None, ""

    def stop(self) -> None:
        """Asks it to end, and to say what it has; `hear` goes on."""
        if self._child is not None and self._child.stdin is not None:
            with contextlib.suppress(OSError):
                self._child.stdin.close()

    def end(self) -> None:
        """Ends the process and all that it started."""
        child, self._child = self._child, None
        if child is None:
            return
        with contextlib.suppress(OSError):
            if child.stdin is not None:
                child.stdin.close()
        deadline = time.monotonic() + END_LIMIT_S
        while child.poll() is None and time.monotonic() < deadline:
            with contextlib.suppress(queue.Empty):
                self._lines.get(timeout=0.05)
        with contextlib.suppress(OSError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()

    def _exit_code(self) -> int:
        """Of a process that closed its output: it ends now, or is ended."""
        assert self._child is not None
        time.sleep(LAST_WORDS_S)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._child.wait(END_LIMIT_S)
        self._child.kill()
        return self._child.wait()

    def _last_words(self) -> str:
        return b"".join(list(self._words)).decode(errors="replace").strip()


def ask(module: str, request: bytes, limit_s: float) -> Heard:
    """One question and all that is answered to it within the time."""
    process = FreshProcess()
    deadline = time.monotonic() + limit_s
    lines: list[bytes] = []
    try:
        process.start(module, request)
        while time.monotonic() < deadline:
            more, code, words = process.hear(0.2)
            lines += more
            if code is not None:
                return lines, code, words
        return lines, None, f"no answer within {limit_s:g} s"
    finally:
        process.end()


def clean_environment() -> dict[str, str]:
    """The variables of this machine without those that Ray adds."""
    return {name: value for name, value in os.environ.items() if not name.startswith("RAY_") and name not in OF_RAY}


def _keep(stream: IO[bytes], words: deque[bytes]) -> None:
    while line := stream.readline(LONGEST_LINE_BYTES):
        words.append(line)


def _read(stream: IO[bytes], lines: queue.Queue[bytes]) -> None:
    for line in stream:
        lines.put(line)
    lines.put(b"")
