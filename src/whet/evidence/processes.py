"""The parent's end of the referee and of the benches: starts them, talks to them with a limit, ends them."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec

import whet.errors
from whet.errors import DeviceTimeout, WhetError
from whet.evidence.frames import Channel, PeerGone, PeerSilent

START_LIMIT_S = 300.0
QUIET_PATIENCE_S = 0.5
STARVED_PATIENCE_S = 20.0
LOG_TAIL = 300


class ProcessEnded(Exception):
    """The other process is gone. The text says how."""

    reason = "died"


class ProcessSilent(Exception):
    """The other process did not answer within the limit and was killed."""

    reason = "hung"


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


def waited_for_a_core_ns(pid: int) -> int:
    """How long the main thread of a process has been ready but not running so far; 0 where the kernel does not say."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return 0


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
        except msgspec.MsgspecError:
            self.close()
            raise ProcessEnded("it sent what is no message") from None
        except PeerSilent:
            self.close()
            raise ProcessSilent(f"no answer within {limit_s:g} s") from None
        if error := message.get("error"):
            raise _typed(error)
        return message

    def ask(self, op: str, limit_s: float | None = None, **parameters: Any) -> dict[str, Any]:
        self.post(op, **parameters)
        return self.answer(limit_s)

    def loaded(self) -> None:
        """Waits until the engine that was posted as `load` is there."""
        try:
            self.answer(START_LIMIT_S)
        except ProcessSilent:
            raise DeviceTimeout("loading the engine took too long", cure="import less at the top of its file") from None
        except ProcessEnded as error:
            raise WhetError(f"loading the engine failed: {error}", cure="import the file alone to see why") from None

    def running_threads(self) -> int:
        """Its threads that run or want to run, seen from outside. A waiting process has none; 0 where unknown."""
        running = 0
        for stat in Path(f"/proc/{self.pid}/task").glob("*/stat"):
            with contextlib.suppress(OSError):
                running += stat.read_text().rpartition(")")[2].split()[0] == "R"
        return running

    def goes_on(self) -> int:
        """How many threads do not come to rest; 0 if all do. Pools may spin before they sleep and get some patience.

        A thread that wants to run but gets no core is given more of it: what counts is the time it really ran.
        """
        began_s, before_ns = time.monotonic(), self._ran_ns()
        pause_s = 0.0005
        while running := self.running_threads():
            waited_s = time.monotonic() - began_s
            if waited_s > QUIET_PATIENCE_S:
                busiest_ns = max((ran - before_ns.get(one, 0) for one, ran in self._ran_ns().items()), default=None)
                if busiest_ns is None or busiest_ns > QUIET_PATIENCE_S * 0.8e9 or waited_s > STARVED_PATIENCE_S:
                    return running
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, 0.02)
        return 0

    def _ran_ns(self) -> dict[str, int]:
        """How long each of its threads has run so far; empty where the kernel does not say."""
        ran = {}
        for stat in Path(f"/proc/{self.pid}/task").glob("*/schedstat"):
            with contextlib.suppress(OSError, ValueError, IndexError):
                ran[stat.parent.name] = int(stat.read_text().split()[0])
        return ran

    def close(self) -> None:
        self._channel.close()
        # Not yet waited for, so its group cannot be anybody else's; children that a variant forked go with it.
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            self._process.wait()
        self._log.close()

    def _obituary(self) -> str:
        try:
            code = self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.close()
            return "it closed its channel and went on"
        how = f"exited with code {code}" if code >= 0 else f"died of {signal.Signals(-code).name}"
        if self._log.closed:
            return f"the process {how}"
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
