"""How an error reaches the user: one line of cause, one line of cure, the path of what was saved, an exit code."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
import traceback
from pathlib import Path

import click

from whet import __version__
from whet.errors import ExitCode, WhetError


def explain(error: BaseException) -> int:
    """Prints `error` for a person and returns the exit code. Never raises, never shows a traceback."""
    if isinstance(error, BrokenPipeError):
        _forget_stdout()
        return ExitCode.PIPE_CLOSED
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else ExitCode.OK if error.code is None else ExitCode.USAGE
    if isinstance(error, OSError):
        _forget_stdout()
    code, cause, cure, evidence = _describe(error)
    _say(cause, cure, evidence)
    return code


def _describe(error: BaseException) -> tuple[ExitCode, str, str, str | None]:
    if isinstance(error, WhetError):
        return error.exit_code, error.cause, error.cure, error.evidence
    if isinstance(error, click.ClickException):
        where = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "whet"
        return ExitCode.USAGE, error.format_message(), f"{where} --help lists what it takes", None
    if isinstance(error, KeyboardInterrupt | click.Abort):
        return ExitCode.INTERRUPTED, "interrupted", "run it again; what was acknowledged before is stored", None
    if isinstance(error, MemoryError):
        return ExitCode.ENVIRONMENT, "out of memory", "try a smaller case, or close other programs", None
    if isinstance(error, OSError):
        cure = "check the path, its permissions and the free space"
        return ExitCode.ENVIRONMENT, f"the system refused: {error}", cure, None
    cause = f"whet failed unexpectedly: {type(error).__name__}: {error}"
    return ExitCode.INTERNAL, cause, "this is a fault in whet; please report it", _save_traceback(error)


def _say(cause: str, cure: str = "", evidence: str | None = None) -> None:
    coloured = sys.stderr is not None and sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    head = "\033[1;31merror:\033[0m" if coloured else "error:"
    lines = [f"{head} {_one_line(cause)}"]
    if cure:
        lines.append(f"  cure: {_one_line(cure)}")
    if evidence:
        lines.append(f"  evidence: {evidence}")
    with contextlib.suppress(OSError, ValueError, AttributeError):
        print("\n".join(lines), file=sys.stderr, flush=True)


def _one_line(text: str) -> str:
    """Line breaks folded, and no control character of a hostile file name reaches the terminal."""
    return "".join(c if c.isprintable() else " " for c in " ".join(text.split()))


def _forget_stdout() -> None:
    """The reader is gone: what is still buffered must not fail again at interpreter exit."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _save_traceback(error: BaseException) -> str | None:
    from platformdirs import user_state_path

    name = f"crash-{time.strftime('%Y%m%dT%H%M%S')}-{os.getpid()}.txt"
    text = f"whet {__version__}\n{sys.argv}\n\n" + "".join(traceback.format_exception(error))
    for folder in (user_state_path("whet", appauthor=False), Path(tempfile.gettempdir())):
        with contextlib.suppress(OSError, UnicodeError):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8", errors="backslashreplace")
            return str(folder / name)
    return None
