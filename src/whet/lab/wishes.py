"""Comparisons that pages ask for by their address, one after the other, each on the page's own device.

Each is a `whet ab` in a process of its own, as if somebody had typed it: the words come from a page that was let in,
and none of them can be a path, an option or a revision (`wire.Wish`).
"""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from whet.errors import DeviceError, WhetError
from whet.evidence.elsewhere import Disturbed
from whet.lab.chromium import LocalLink
from whet.lab.operator_link import VARIABLE
from whet.lab.serving import LabServer
from whet.lab.wire import Wish

# Exit codes of a comparison that ran: done, slower, undecided, refused.
RAN = (0, 1, 2, 3)
SHOW_LIMIT_S = 30.0
END_LIMIT_S = 30.0


def words_of(wish: Wish, device: str) -> list[str]:
    """The command that the wish stands for."""
    return ["ab", wish.engine, *wish.variants, "--n", wish.n, "--device", f"lab:{device}", "--quick"]


class Wishes:
    """`look` from time to time; `close` ends what runs. `more` are words of every command, as a store of its own."""

    def __init__(self, server: LabServer, operator_path: Path, more: tuple[str, ...] = ()) -> None:
        self._server, self._more = server, more
        self._environment = {**os.environ, VARIABLE: str(operator_path)}
        self._running: tuple[str, subprocess.Popen[bytes]] | None = None

    def look(self) -> list[str]:
        """Goes on to the next one where nothing runs; what there is to tell."""
        told = []
        if self._running is not None:
            device, process = self._running
            if process.poll() is None:
                return []
            self._running = None
            if process.returncode not in RAN:
                told.append(f"what lab:{device} asked for could not be run")
                self._tell(device, "what the link asks for could not be run; whet lab says why")
        asked = self._server.call(self._next())
        if asked is not None:
            device, wish = asked
            words = words_of(wish, device)
            command = [sys.executable, "-m", "whet", *words, *self._more]
            self._running = device, subprocess.Popen(command, stdin=subprocess.DEVNULL, env=self._environment)
            told.append(f"asked for by its address: {shlex.join(['whet', *words])}")
        return told

    def close(self) -> None:
        if self._running is not None:
            _, process = self._running
            self._running = None
            process.terminate()
            try:
                process.wait(END_LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    async def _next(self) -> tuple[str, Wish] | None:
        return self._server.hub.next_wish()

    def _tell(self, device: str, note: str) -> None:
        """On the page, where it is still there and free."""
        view: dict[str, Any] = {"note": note, "share": 0, "rows": []}
        with contextlib.suppress(WhetError, DeviceError, Disturbed):
            link = LocalLink(self._server, device)
            try:
                link.ask({"kind": "show", "view": view}, {}, limit_s=SHOW_LIMIT_S)
            finally:
                link.close()
