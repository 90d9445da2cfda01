"""The core compiles for arm64 without a warning. Nothing runs here; docs/arm64.md shows how, under an emulator."""

from __future__ import annotations

import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NATIVE = ROOT / "native"
COMPILER = "clang++-19"
HEADERS = Path("/usr/aarch64-linux-gnu/include/c++")
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Wno-sign-conversion", "-Werror"]
# Files that only x86-64 builds compile, as native/msm/CMakeLists.txt says.
ONLY_X86 = {
    *("adx.cpp", "avx2.cpp", "few_ifma.cpp", "ifma.cpp", "ifma_input.cpp", "points_in_ifma.cpp", "roots_ifma.cpp"),
    *("constants51.cpp", "constants52.cpp"),
}
NOT_IN_THE_LIBRARY = {"planted.cpp"}


def compiled(source: Path) -> str:
    """What the compiler says about `source`; nothing when all is well. No code is made: half a second each."""
    command = [COMPILER, "--target=aarch64-linux-gnu", "-std=c++20", "-fsyntax-only", *WARNINGS, f"-I{NATIVE}", source]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return f"{source.name}: {done.stderr}" if done.returncode or done.stderr else ""


@pytest.fixture
def sources() -> list[Path]:
    if shutil.which(COMPILER) is None or not HEADERS.is_dir():
        pytest.skip("clang or the arm64 headers are not installed; `make system` tries to")
    found = [path for part in ("field", "curve", "msm") for path in sorted((NATIVE / part).rglob("*.cpp"))]
    return [path for path in found if path.name not in ONLY_X86 | NOT_IN_THE_LIBRARY]


@pytest.mark.native_build
def test_fields_curve_and_msm_compile_for_arm64(sources):
    assert len(sources) > 10
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        complaints = [told for told in pool.map(compiled, sources) if told]
    assert not complaints, "\n".join(complaints)[:4000]


def test_a_file_for_x86_alone_would_be_noticed(sources):
    assert "adx.cpp" in compiled(NATIVE / "msm" / "affine" / "adx.cpp")
