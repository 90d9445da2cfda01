"""A library behind a pipe: one process, one JSON object per line each way, and patience that ends."""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from pathlib import Path
from typing import Any

from install import CRATES, GO, GO_PROGRAM, NODE_HOME, NPM, PYTHON, RUST_PROGRAMS

HERE = Path(__file__).parent
STACK_BYTES = 1 << 30  # some keep their buckets on the stack and end with 2^18 points otherwise


def command_of(name: str, threads: int) -> list[str]:
    if name in GO:
        return [str(GO_PROGRAM)]
    if name in CRATES:
        return [str(RUST_PROGRAMS["parallel" if threads > 1 else ""]), name]
    if name in NPM:
        return ["node", "--max-old-space-size=8192", str(HERE / "peer_node.mjs"), name, str(NODE_HOME)]
    return [str(PYTHON), str(HERE / "peer_python.py"), name]


class Peer:
    def __init__(self, name: str, threads: int = 1) -> None:
        self._process = subprocess.Popen(
            ["prlimit", f"--stack={STACK_BYTES}:", *command_of(name, threads)],
            env=os.environ | {"RAYON_NUM_THREADS": str(threads)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
        )
        self._unread = b""

    def ask(
        self, files: dict[str, str], *, patience_s: float, load: int | None = None, calls: int = 1
    ) -> dict[str, Any]:
        """The answer, or {"error": why}; times are those of one of `calls` in a row. A process that takes longer than
        `patience_s` is ended.
        """
        assert self._process.stdin
        request: dict[str, Any] = {"files": files} | ({"calls": calls} if load is None else {"load": load})
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            end = time.monotonic() + patience_s
            while (line := self._line(end)) is not None:
                if line.startswith(b"{"):  # some libraries print lines of their own
                    return json.loads(line)  # type: ignore[no-any-return]
        except BrokenPipeError:
            pass
        if self._process.poll() is None:
            self.close()
            return {"error": f"over {patience_s:.0f} s"}
        return {"error": f"its process ended with {self._process.returncode}"}

    def _line(self, end: float) -> bytes | None:
        """The next line; None when time is up or the process has ended."""
        assert self._process.stdout
        while b"\n" not in self._unread:
            ready = select.select([self._process.stdout], [], [], max(0.0, end - time.monotonic()))[0]
            more = os.read(self._process.stdout.fileno(), 1 << 16) if ready else b""
            if not more:
                if ready:
                    self._process.wait()
                return None
            self._unread += more
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
