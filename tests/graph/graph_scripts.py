"""Scripts that tests run in an interpreter of their own: they may crash, hang or be interrupted."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time

PRELUDE = """
    import faulthandler, gc, os, signal, sys, threading, time
    import numpy as np
    from whet.errors import Cancelled
    from whet.graph import *
    faulthandler.enable()

    def spin(milliseconds):
        return kernel("spin").with_user(np.array([milliseconds * 1_000_000], np.uint64))
"""


def run_script(text: str, *, limit_s: float = 60, send: tuple[float, int] | None = None) -> subprocess.CompletedProcess:
    """A fresh interpreter; with `send`, a signal so many seconds after it has printed `ready`."""
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PRELUDE) + textwrap.dedent(text)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        if send is not None:
            assert child.stdout.readline().strip() == "ready", child.communicate()[1]
            time.sleep(send[0])
            child.send_signal(send[1])
        out, err = child.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        raise AssertionError(f"the script did not end within {limit_s} s") from None
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()
    return subprocess.CompletedProcess(child.args, child.returncode, out, err)


def printed(text: str, **options) -> list[str]:
    """The lines that a script printed; it must have ended well."""
    done = run_script(text, **options)
    assert done.returncode == 0, (done.stdout, done.stderr[-3000:])
    return done.stdout.split("\n")[:-1]
