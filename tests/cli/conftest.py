"""Runs the real `whet` program in an environment of its own: no user settings, no user store."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

PROGRAM = [sys.executable, "-m", "whet"]


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str

    def assert_explained(self, code: int, *words: str) -> None:
        """The program said what is wrong and what to do, for a person, with the documented exit code."""
        assert self.code == code, self
        assert self.err.startswith("error: "), self
        assert "\n  cure: " in self.err, self
        assert "Traceback" not in self.err + self.out, self
        for word in words:
            assert word in self.err, self


@pytest.fixture
def whet_env(tmp_path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "SYSTEMROOT") if name in os.environ}
    home = tmp_path / "home"
    home.mkdir()
    folders = {f"XDG_{kind}_HOME": str(home / kind.lower()) for kind in ("DATA", "CONFIG", "STATE", "CACHE")}
    return kept | folders | {"HOME": str(home), "PYTHONWARNINGS": "error"}


@pytest.fixture
def whet(whet_env, tmp_path):
    def run(*arguments: str | bytes | Path, cwd: Path | None = None, **variables: str) -> Ended:
        done = subprocess.run(
            [*PROGRAM, *arguments],
            cwd=cwd or tmp_path,
            env=whet_env | variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=120,
            check=False,
        )
        return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())

    return run


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch):
    """A runner of tests may say how wide its own terminal is; what is tested here has none."""
    monkeypatch.delenv("COLUMNS", raising=False)
