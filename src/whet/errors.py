"""Every error that whet raises on purpose. Each names a cause and a cure; the command line prints both.

Exit codes live here as well, because an error and the code a script sees for it are one decision.
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What `whet` returns to the shell."""

    OK = 0
    SLOWER = 1
    UNDECIDED = 2
    REFUSED = 3
    ENVIRONMENT = 4
    USAGE = 64
    INTERNAL = 70
    INTERRUPTED = 130
    PIPE_CLOSED = 141


class WhetError(Exception):
    """Base of the hierarchy. `cure` says what to do about it; `evidence` is the path of what was saved, if anything."""

    exit_code: ExitCode = ExitCode.ENVIRONMENT

    def __init__(self, cause: str, *, cure: str = "", evidence: str | None = None) -> None:
        super().__init__(cause)
        self.cause = cause
        self.cure = cure
        self.evidence = evidence

    def __str__(self) -> str:
        return f"{self.cause} ({self.cure})" if self.cure else self.cause


class BadInput(WhetError, ValueError):
    """The caller's data or arguments are wrong. `index` is the first bad element where there is one."""

    exit_code = ExitCode.USAGE

    def __init__(self, cause: str, *, cure: str = "", evidence: str | None = None, index: int | None = None) -> None:
        super().__init__(cause, cure=cure, evidence=evidence)
        self.index = index


class OracleMismatch(WhetError):
    """A variant disagrees with the oracle. Nothing of it is timed."""

    exit_code = ExitCode.REFUSED


class Unsupported(WhetError):
    """Legal, but this device or this build cannot do it."""


class DeviceError(WhetError):
    """A device failed."""


class DeviceLost(DeviceError):
    """The device is gone; the next call opens a new one."""


class DeviceGone(DeviceLost):
    """A device that others reach went away for good: a tab was closed, a phone was unplugged."""


class DeviceOutOfMemory(DeviceError):
    """An allocation failed."""


class DeviceTimeout(DeviceError):
    """A dispatch or a wait took longer than allowed."""


class WrongAnswer(DeviceError):
    """What a device computed fails a check. Nothing of it is returned."""


class ShaderError(DeviceError):
    """A kernel does not compile. `log` is all the compiler said.

    `line` is the line of the rendered source, `origin` the file and line that it was written in, such as
    `point.wgsl:7`; empty where the source comes from no file.
    """

    def __init__(
        self,
        cause: str,
        *,
        cure: str = "",
        evidence: str | None = None,
        line: int | None = None,
        origin: str = "",
        log: str = "",
    ) -> None:
        super().__init__(cause, cure=cure, evidence=evidence)
        self.line = line
        self.origin = origin
        self.log = log


class StoreError(WhetError):
    """The run store cannot be read or written. Nothing acknowledged is lost."""


class Cancelled(WhetError):
    """The caller asked for an end; nothing half-done is returned."""

    exit_code = ExitCode.INTERRUPTED
