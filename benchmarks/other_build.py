"""Two builds of whet in one interleaved run: each in a process of its own, which times what it is asked for.

A benchmark starts itself with `--serve` under the python of each build. This module imports nothing of whet: the other
build may be an old one.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class Build:
    """One build, asked line by line."""

    def __init__(self, python: str, script: str, core: int) -> None:
        # Not resolved: an environment's python is a link.
        path = Path(python).absolute()
        self._process = subprocess.Popen(
            [path, Path(script).absolute(), "--serve", "--core", str(core)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=path.parent,
        )

    def ask(self, what: dict[str, Any]) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"a build ended at {what}")
        return json.loads(line)

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)


def both(base: str, script: str, core: int) -> dict[str, Build]:
    return {"base": Build(base, script, core), "this": Build(sys.executable, script, core)}


def asked(core: int) -> Iterator[dict[str, Any]]:
    """In the process of a build, before it imports anything: what it is asked for, one after the other."""
    if core >= 0:
        os.sched_setaffinity(0, {core})
    return map(json.loads, sys.stdin)


def answer(what: object) -> None:
    print(json.dumps(what), flush=True)


def options(description: str | None) -> argparse.ArgumentParser:
    """What every such benchmark asks for."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", default="", help="the python of the other build's environment")
    parser.add_argument("--core", type=int, default=0, help="where both run; -1 leaves it to the system")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    return parser
