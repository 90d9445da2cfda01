"""The parent's end of the referee, the judge and the benches: starts them, talks to them with a limit, ends them."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

import whet.errors
from whet.errors import DeviceTimeout, WhetError
from whet.evidence import messages, system
from whet.evidence.channel import Channel, NoMessage, PeerGone, PeerSilent
from whet.evidence.messages import Answer, Failed, Hello, Request
from whet.evidence.system.setup_calls import SetupCalls

START_LIMIT_S = 300.0
LOG_TAIL = 300
HEARS = {"bench": messages.FromBench, "referee": messages.FromReferee, "judge": messages.FromJudge}


class ProcessEnded(Exception):
    """The other process is gone. The text says how."""

    reason = "died"


class ProcessSilent(Exception):
    """The other process did not answer within the limit and was killed."""

    reason = "hung"


class ProcessGarbled(Exception):
    """The other process said what no honest one says, and was killed."""

    reason = "garbled answer"


Faults = (ProcessEnded, ProcessSilent, ProcessGarbled)


class Worker:
    """One child process and the channel to it. `pid` is set once it has said hello.

    `kept`: files and folders that a bench may read, but not change.
    """

    def __init__(self, role: str, kept: Sequence[str] = ()) -> None:
        ours, theirs = socket.socketpair()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  (kept until close)
        arguments = [sys.executable, "-P", "-m", "whet.evidence.launch", role, str(theirs.fileno()), *kept]
        try:
            self._process = subprocess.Popen(
                arguments,
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                start_new_session=True,
            )
        finally:
            theirs.close()
        self._channel = Channel(ours, HEARS[role])
        self._host = system.host()
        self.pid = 0
        self.hello: Hello | None = None
        self._setup_calls: SetupCalls | None = None

    def greet(self, limit_s: float = START_LIMIT_S) -> Hello:
        """Waits until the process is up and confined."""
        if self.hello is None:
            said = self.answer(limit_s)
            if not isinstance(said, Hello):
                raise self._garbled(f"it opened with {type(said).__name__}")
            self.hello, self.pid = said, said.pid
            if said.fds:
                self._setup_calls = SetupCalls(*self._channel.receive_fds(1))
        return self.hello

    def seal(self) -> None:
        """What only setting up may do fails from now on, whatever the process did to its own filters."""
        if self._setup_calls is not None:
            self._setup_calls.close()
            self._setup_calls = None

    def post(self, request: Request, fds: list[int] | None = None) -> None:
        """Sends a request; `answer` waits for it. Several workers can so start side by side."""
        try:
            self._channel.send(request, fds)
        except PeerGone:
            raise ProcessEnded(self._obituary()) from None

    def answer(self, limit_s: float | None = None) -> Any:
        try:
            message = self._channel.receive(limit_s)
        except PeerGone:
            raise ProcessEnded(self._obituary()) from None
        except NoMessage as error:
            raise self._garbled(str(error)) from None
        except PeerSilent:
            self.close()
            raise ProcessSilent(f"no answer within {limit_s:g} s") from None
        if isinstance(message, Failed):
            raise _typed(message)
        return message

    def ask(self, request: Request, limit_s: float | None = None, fds: list[int] | None = None) -> Any:
        self.post(request, fds)
        return self.answer(limit_s)

    def expect(
        self, kind: type[Answer], request: Request, limit_s: float | None = None, fds: list[int] | None = None
    ) -> Any:
        """Asks, and takes nothing but an answer of that kind."""
        return self.must_be(kind, self.ask(request, limit_s, fds))

    def must_be(self, kind: type[Answer], answer: Any) -> Any:
        if not isinstance(answer, kind):
            raise self._garbled(f"it answered with {type(answer).__name__}, not {kind.__name__}")
        return answer

    def loaded(self) -> None:
        """Waits until the engine that was posted is there."""
        try:
            self.answer(START_LIMIT_S)
        except ProcessSilent:
            raise DeviceTimeout("loading the engine took too long", cure="import less at the top of its file") from None
        except Faults as error:
            raise WhetError(f"loading the engine failed: {error}", cure="import the file alone to see why") from None

    def close(self) -> None:
        self._channel.close()
        if self._process.returncode is None:
            # With a namespace of its own the bench is the first process of it, and everything in it ends with it.
            if self.pid:
                self._host.kill(self.pid)
            # Not yet waited for, so its group cannot be anybody else's.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self.seal()
        self._log.close()

    def _garbled(self, what: str) -> ProcessGarbled:
        self.close()
        return ProcessGarbled(f"it sent what is no message: {what}")

    def _obituary(self) -> str:
        try:
            code = self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.close()
            return "it closed its channel and went on"
        how = f"exited with code {code}" if code >= 0 else f"died of {_signal_name(-code)}"
        if self._log.closed:
            return f"the process {how}"
        self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, self._log.tell() - LOG_TAIL))
        said = " ".join(self._log.read().decode(errors="replace").split())
        hint = (
            " (inputs are read-only; a write far outside of a buffer ends so as well)"
            if code == -signal.SIGSEGV
            else ""
        )
        return f"the process {how}{hint}" + (f"; its last words: {said}" if said else "")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _typed(said: Failed) -> WhetError:
    kind = getattr(whet.errors, said.kind, WhetError)
    if not (isinstance(kind, type) and issubclass(kind, WhetError)):
        kind = WhetError
    raised: WhetError = kind(said.cause, cure=said.cure)
    return raised
