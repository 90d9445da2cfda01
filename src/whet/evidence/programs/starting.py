"""The parent's end of `starter.py`: one program at a time, with a limit, and what it wrote."""

from __future__ import annotations

import contextlib
import fcntl
import marshal
import os
import select
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from whet.errors import Unsupported

MOST_OUTPUT_BYTES = 1 << 30
END_LIMIT_S = 5.0
STDERR_TAIL = 300
# A subreaper that ends when its parent does; both outlive the exec that makes the process small again.
FIRST = (
    "import ctypes, os, sys\n"
    "libc = ctypes.CDLL(None)\n"
    "libc.prctl(36, 1, 0, 0, 0); libc.prctl(1, 15, 0, 0, 0)\n"
    "os.getppid() == int(sys.argv[1]) or os._exit(1)\n"
    "os.execv(sys.executable, [sys.executable, '-I', '-S', *sys.argv[2:]])\n"
)


@dataclass(frozen=True)
class Ended:
    """One program from start to end. `code` is negative for a signal and None where it could not be started."""

    wall_ns: int
    code: int | None
    why: str
    user_ns: int
    system_ns: int
    peak_bytes: int
    left_process: bool


class TookTooLong(Exception):
    """The limit is over; the program and all that it started are gone."""


class Starter:
    """Use as a context manager. When it is closed nothing that it started is running."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._out = _memory("stdout")
        self._err = _memory("stderr")

    def __enter__(self) -> Starter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._end()
        for fd in (self._out, self._err):
            with contextlib.suppress(OSError):
                os.close(fd)

    def run(self, words: list[str], *, source: str, cores: list[int], limit_s: float) -> Ended:
        """Waits until it has ended. TookTooLong after `limit_s`."""
        self._begin()
        for fd in (self._out, self._err):
            os.ftruncate(fd, 0)
        request = marshal.dumps((words, source, cores))
        os.write(self._asked, len(request).to_bytes(4, "little") + request)
        if not select.select([self._told], [], [], limit_s)[0]:
            self._end()
            raise TookTooLong
        head = os.read(self._told, 4)
        if len(head) < 4:
            self._end()
            raise Unsupported("the process that starts programs is gone", cure="did something kill it? run it again")
        found = marshal.loads(os.read(self._told, int.from_bytes(head, "little")))
        start, end, *rest = found
        return Ended(end - start, *rest)

    def output(self) -> bytes:
        """What the last program wrote to stdout."""
        size = os.fstat(self._out).st_size
        if size > MOST_OUTPUT_BYTES:
            raise Unsupported(
                f"a program wrote {size / 1e9:.1f} GB", cure="let it write less, as through sha256sum in the command"
            )
        return os.pread(self._out, size, 0) if size < 1 << 30 else Path(f"/proc/self/fd/{self._out}").read_bytes()

    def complaint(self) -> str:
        """The end of what it wrote to stderr, in one line."""
        size = os.fstat(self._err).st_size
        text = os.pread(self._err, STDERR_TAIL, max(0, size - STDERR_TAIL)).decode(errors="replace")
        return " ".join(text.split())

    def _begin(self) -> None:
        if self._process is not None:
            return
        asked, self._asked = os.pipe()
        self._told, told = os.pipe()
        file = str(Path(__file__).with_name("starter.py"))
        words = [sys.executable, "-I", "-S", "-c", FIRST, str(os.getpid()), file]
        fds = (asked, told, self._out, self._err)
        try:
            self._process = subprocess.Popen(
                [*words, *map(str, fds)], pass_fds=fds, stdin=subprocess.DEVNULL, start_new_session=True
            )
        finally:
            os.close(asked)
            os.close(told)

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(END_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        os.close(self._asked)
        os.close(self._told)


def _memory(name: str) -> int:
    fd = os.memfd_create(name, os.MFD_CLOEXEC)
    # Every writer at the end, as with a file that a shell appends to.
    fcntl.fcntl(fd, fcntl.F_SETFL, os.O_APPEND)
    return fd
