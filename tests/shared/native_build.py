"""Builds of native/ for the tests: one folder per kind under build/, kept between runs so that a rerun is quick."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class BuildKind:
    """How to build: which compiler, which CMake options. `environment` is for running the programs."""

    name: str
    compiler: str
    options: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()

    @property
    def folder(self) -> Path:
        return ROOT / "build" / f"tests-{self.name}"


# The package is built with full optimisation, and the Python tests run that; these builds are for what they catch.
QUICK = "-DCMAKE_CXX_FLAGS_RELEASE=-O1"
GCC = BuildKind("gcc", "g++", (QUICK,))
# By clang: the runtime of gcc 12 does not know the lock with a deadline that std::timed_mutex takes.
THREAD = BuildKind(
    "thread",
    "clang++-19",
    ("-DWHET_SANITIZE=thread", QUICK),
    (("TSAN_OPTIONS", "halt_on_error=1 second_deadlock_stack=1"),),
)


@cache
def build(kind: BuildKind, target: str = "all") -> Path:
    """Configures and builds `target`, once per process; warnings are errors. Returns the build folder."""
    compiler = shutil.which(kind.compiler)
    if compiler is None:
        unavailable(f"{kind.compiler} is not installed")
    tools = str(Path(sys.executable).parent)  # cmake and ninja live beside the interpreter
    environment = {**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}
    kind.folder.mkdir(parents=True, exist_ok=True)
    options = ["-DWHET_PYTHON=OFF", "-DWHET_NATIVE_TESTS=ON", "-DWHET_WERROR=ON", *kind.options]
    with (kind.folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (kind.folder / "build.ninja").exists():  # never configured, or in vain: its cache would remember that
            (kind.folder / "CMakeCache.txt").unlink(missing_ok=True)
        configure = ["cmake", "-S", ROOT / "native", "-B", kind.folder, "-G", "Ninja", *options]
        _run([*configure, f"-DCMAKE_CXX_COMPILER={compiler}"], environment)
        _run(["cmake", "--build", kind.folder, "--target", target], environment)
    return kind.folder


def unavailable(what: str) -> None:
    """A missing tool is a failure where everything must be there, and a skip with its reason elsewhere."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"{what}; `make system` installs it")
    pytest.skip(f"{what}; `make system` installs it where it may")


def _run(command: list[str | Path], environment: dict[str, str]) -> None:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        shown = " ".join(map(str, command))
        pytest.fail(f"{shown}\n{done.stdout[-6000:]}\n{done.stderr[-2000:]}", pytrace=False)
