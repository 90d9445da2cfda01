"""Colours and bars appear on a terminal and nowhere else."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest

ESCAPE = "\x1b["
BAR = "from whet.cli.console import progress\nwith progress('timing', 3) as advance:\n    advance(1, 'round 1')\n"
COLOUR = "from whet.cli.console import console\nconsole().print('[b]plain[/b] text', style='red')\n"
FAILURE = "from whet.cli.app import run\nrun(['nonsense'])\n"


def on_terminal(source: str, env: dict[str, str], stream: str) -> str:
    """Runs `source` with one stream on a pseudo-terminal and returns what that stream shows."""
    ours, theirs = pty.openpty()
    other = "stderr" if stream == "stdout" else "stdout"
    child = subprocess.Popen(
        [sys.executable, "-c", source],
        env=env | {"TERM": "xterm-256color"},
        stdin=subprocess.DEVNULL,
        **{stream: theirs, other: subprocess.DEVNULL},
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:
            break
        if not piece:
            break
        shown += piece
    child.wait(timeout=60)
    os.close(ours)
    return shown.decode()


def piped(source: str, env: dict[str, str]) -> tuple[str, str]:
    done = subprocess.run([sys.executable, "-c", source], env=env, capture_output=True, text=True, check=False)
    return done.stdout, done.stderr


def test_a_bar_on_a_terminal_only(whet_env):
    assert "timing" in on_terminal(BAR, whet_env, "stderr")
    assert piped(BAR, whet_env) == ("", "")


@pytest.mark.parametrize(("source", "stream"), [(COLOUR, "stdout"), (FAILURE, "stderr")])
def test_colours_on_a_terminal_only(whet_env, source, stream):
    assert ESCAPE in on_terminal(source, whet_env, stream)
    assert ESCAPE not in on_terminal(source, whet_env | {"NO_COLOR": "1"}, stream)
    assert ESCAPE not in "".join(piped(source, whet_env))


def test_markup_in_data_stays_data(whet_env):
    assert piped(COLOUR, whet_env)[0] == "[b]plain[/b] text\n"
