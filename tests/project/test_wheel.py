"""What a wheel of this tree needs, without building one. `make test-wheel` builds it and runs installed_wheel.py."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from importlib.metadata import Distribution, PathDistribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CARRIED = {"markupsafe"}  # by jinja2, always


def names(requirements: list[str]) -> set[str]:
    return {Requirement(each).name.lower() for each in requirements}


def imported(path: Path) -> set[str]:
    """Roots of what a module imports when it is loaded: not inside functions, not for the type checker alone."""
    found: set[str] = set()

    def walk(statements: list[ast.stmt]) -> None:
        for statement in statements:
            if isinstance(statement, ast.Import):
                found.update(alias.name.partition(".")[0] for alias in statement.names)
            elif isinstance(statement, ast.ImportFrom) and not statement.level:
                found.add((statement.module or "").partition(".")[0])
            elif isinstance(statement, ast.If) and "TYPE_CHECKING" not in ast.unparse(statement.test):
                walk(statement.body + statement.orelse)
            elif isinstance(statement, ast.ClassDef):
                walk(statement.body)

    walk(ast.parse(path.read_text()).body)
    return found


def test_loading_whet_needs_only_what_pip_brings():
    declared = {name.replace("-", "_") for name in names(PROJECT["dependencies"])}
    brought = declared | CARRIED | set(sys.stdlib_module_names) | {"whet"}
    extras = {name.replace("-", "_") for each in PROJECT["optional-dependencies"].values() for name in names(each)}
    wrong, seen = [], set()
    for path in (ROOT / "src" / "whet").rglob("*.py"):
        others = imported(path) - brought
        seen |= imported(path)
        if "pytest" in path.name:
            others.discard("pytest")  # which alone loads its plugin
        # What belongs to an extra stands in a package that is loaded only by those who have it.
        package = path.relative_to(ROOT / "src" / "whet").parts[0]
        wrong += [
            f"{path.relative_to(ROOT)}: {other}"
            for other in others
            if package not in ("gpu", "decode", "lab", "cluster") or other not in extras
        ]
    assert not wrong, wrong
    unused = declared - everything_imported()
    assert not unused, "a dependency that nothing imports"
    assert "numpy" in seen, "the check could not fail"


def everything_imported() -> set[str]:
    text = "\n".join(path.read_text() for path in (ROOT / "src" / "whet").rglob("*.py"))
    return set(re.findall(r"^\s*(?:import|from)\s+(\w+)", text, re.MULTILINE))


def test_what_pip_brings_is_small():
    """Extras carry what not everyone needs: browsers, GPUs, clusters, weights, compilers."""
    heavy = {"wgpu", "ray", "torch", "scipy", "numba", "playwright", "ml-dtypes", "safetensors", "starlette", "ziglang"}
    assert not names(PROJECT["dependencies"]) & heavy
    assert len(PROJECT["dependencies"]) <= 8


def test_the_metadata_says_what_the_project_says(tmp_path):
    """As the build backend makes it; nothing is compiled."""
    code = (
        "from scikit_build_core.build import prepare_metadata_for_build_wheel as p; import sys; print(p(sys.argv[1]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    made: Distribution = PathDistribution(tmp_path / done.stdout.split()[-1])
    plain = [each for each in made.requires or [] if "extra ==" not in each]
    assert names(plain) == names(PROJECT["dependencies"])
    assert made.metadata["Requires-Python"] == PROJECT["requires-python"]
    assert {entry.name for entry in made.entry_points} >= {"whet", "msm", "graph", "decode"}


SHIM = r"""
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <random>
#include <thread>
#include "bind/glibc_floor.cpp"
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
int main() {
    std::mutex m;
    std::condition_variable cv;
    bool ready = false;
    std::unique_lock<std::mutex> lock(m);
    const auto begun = Clock::now();
    if (cv.wait_for(lock, milliseconds(60), [&] { return ready; })) return 1;
    if (Clock::now() - begun < milliseconds(60)) return 2;
    std::thread other([&] { std::lock_guard<std::mutex> held(m); ready = true; cv.notify_all(); });
    if (!cv.wait_for(lock, std::chrono::seconds(300), [&] { return ready; })) return 3;
    lock.unlock();
    other.join();
    std::timed_mutex timed;
    timed.lock();
    std::thread loser([&] { ready = timed.try_lock_until(Clock::now() + milliseconds(60)); });
    loser.join();
    if (ready) return 4;
    std::thread winner([&] { ready = timed.try_lock_for(std::chrono::seconds(300)); if (ready) timed.unlock(); });
    timed.unlock();
    winner.join();
    if (!ready) return 5;
    std::random_device random;
    if (random() == random() && random() == random()) return 7;
    return __libc_single_threaded;
}
"""


@pytest.mark.native_build
def test_what_stands_in_for_a_newer_glibc_waits_as_long(tmp_path):
    """The program's own functions come before those of the system, so the C++ library calls ours."""
    (tmp_path / "shim.cpp").write_text(SHIM)
    command = ["g++", "-std=c++20", "-O1", "-pthread", f"-I{ROOT / 'native'}", "shim.cpp", "-o", "shim"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    listed = subprocess.run(["nm", tmp_path / "shim"], capture_output=True, text=True, check=True).stdout
    assert re.search(r"T pthread_cond_clockwait$", listed, re.MULTILINE)
    assert subprocess.run([tmp_path / "shim"], timeout=600, check=False).returncode == 0
