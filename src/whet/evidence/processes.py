"""The parent's end of the referee and of the benches: starts them, talks to them with a limit, ends them."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from typing import Any

import whet.errors
from whet.errors import DeviceTimeout, WhetError
from whet.evidence.frames import Channel, PeerGone, PeerSilent

QUIET_WINDOW_S = 0.01
QUIET_PATIENCE_S = 0.5
LOG_TAIL = 300


class ProcessEnded(Exception):
    """The other process is gone. The text says how."""


class ProcessSilent(Exception):
    """The other process did not answer within the limit and was killed."""


def shared_memory(name: str) -> int:
    """A file descriptor of anonymous memory that grows on demand and vanishes with its last holder."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create(f"whet-{name}", 0)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def read_only(fd: int) -> int:
    """The same memory through a descriptor that cannot be mapped for writing, where the system offers one."""
    try:
        return os.open(f"/proc/self/fd/{fd}", os.O_RDONLY)
    except OSError:
        return os.dup(fd)


class Worker:
    """One child process and the channel to it."""

    def __init__(self, module: str, fds: list[int]) -> None:
        ours, theirs = socket.socketpair()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  (kept until close)
        arguments = [sys.executable, "-P", "-m", module, str(theirs.fileno()), *map(str, fds)]
        try:
            self._process = subprocess.Popen(
                arguments,
                pass_fds=(theirs.fileno(), *fds),
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                start_new_session=True,
            )
        finally:
            theirs.close()
        self._channel = Channel(ours)
        self.pid = self._process.pid

    def post(self, op: str, **parameters: Any) -> None:
        """Sends a request; `answer` waits for it. Two workers can so start side by side."""
        try:
            self._channel.send({"op": op, **parameters})
        except PeerGone:
            raise ProcessEnded(self._obituary()) from None

    def answer(self, limit_s: float | None = None) -> dict[str, Any]:
        try:
            message = self._channel.receive(limit_s)
        except PeerGone:
            raise ProcessEnded(self._obituary()) from None
        except PeerSilent:
            self.close()
            raise ProcessSilent(f"no answer within {limit_s:g} s") from None
        if error := message.get("error"):
            raise _typed(error)
        return message

    def ask(self, op: str, limit_s: float | None = None, **parameters: Any) -> dict[str, Any]:
        self.post(op, **parameters)
        return self.answer(limit_s)

    def cpu_ns(self) -> int | None:
        """CPU time of all its threads, read from outside; None where the system has no such clock."""
        if sys.platform != "linux":
            return None
        try:
            return time.clock_gettime_ns((~self.pid << 3) | 2)
        except OSError:
            return None

    def goes_on(self, since_cpu_ns: int, since_ns: int) -> int:
        """CPU time burnt by a process that should be waiting, if it does not come to rest; else 0.

        Thread pools may spin for a while before they sleep, so a busy process gets some patience.
        """
        spent, passed = (self.cpu_ns() or 0) - since_cpu_ns, time.monotonic_ns() - since_ns
        if spent < 2_000_000 or spent < passed // 4:
            return 0
        deadline = time.monotonic() + QUIET_PATIENCE_S
        while time.monotonic() < deadline:
            before = self.cpu_ns() or 0
            time.sleep(QUIET_WINDOW_S)
            if (self.cpu_ns() or 0) - before < QUIET_WINDOW_S * 1e9 / 10:
                return 0
        return (self.cpu_ns() or 0) - since_cpu_ns

    def close(self) -> None:
        self._channel.close()
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._log.close()

    def _obituary(self) -> str:
        try:
            code = self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.close()
            return "it closed its channel and went on"
        how = f"exited with code {code}" if code >= 0 else f"died of {signal.Signals(-code).name}"
        self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, self._log.tell() - LOG_TAIL))
        said = " ".join(self._log.read().decode(errors="replace").split())
        return f"the process {how}" + (f"; its last words: {said}" if said else "")


def _typed(error: dict[str, str]) -> WhetError:
    kind = getattr(whet.errors, error["kind"], WhetError)
    raised: WhetError = kind(error["cause"], cure=error["cure"])
    return raised


def referee_fault(error: ProcessEnded | ProcessSilent) -> WhetError:
    """The oracle's process failed: nothing can be judged."""
    if isinstance(error, ProcessSilent):
        return DeviceTimeout(f"the oracle gave {error}", cure="try a smaller case, or a longer --call-limit")
    return whet.errors.DeviceError(f"the oracle's process ended: {error}", cure="run the oracle alone to see why")
