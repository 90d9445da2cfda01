"""native/ compiles without a warning under gcc and clang, and its test programs hold, plain and under sanitizers.

A test program is any native/tests/test_*.cpp. To run them in another kind of build, add it to KINDS. With
WHET_ALL_BUILDS, as in `make soak`, they run without sanitizers too; gcc's code is what the package's own tests run.
"""

from __future__ import annotations

import os
import subprocess

import pytest

from native_build import GCC, QUICK, BuildKind, build

KINDS = [
    *([GCC, BuildKind("clang", "clang++-19", (QUICK,))] if os.environ.get("WHET_ALL_BUILDS") else []),
    BuildKind(
        "address-undefined",
        "clang++-19",
        ("-DWHET_SANITIZE=address,undefined", QUICK),
        (("ASAN_OPTIONS", "detect_leaks=1"), ("UBSAN_OPTIONS", "print_stacktrace=1")),
    ),
]


@pytest.mark.native_build
@pytest.mark.timeout(1800)  # compiles the whole core; a busy machine makes that long
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_native_programs(kind, tried):
    folder = build(kind)
    programs = sorted(path for path in (folder / "tests").glob("test_*") if os.access(path, os.X_OK))
    programs = [path for path in programs if path.is_file()]
    assert programs
    held = 0
    for program in programs:
        done = subprocess.run(
            [program], env={**os.environ, **dict(kind.environment)}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{program.name}:\n{done.stdout[-3000:]}\n{done.stderr[-6000:]}"
        assert "checks held" in done.stdout
        held += int(done.stdout.split(" checks held")[0].rsplit(maxsplit=1)[-1])
    tried("native checks", held)


@pytest.mark.native_build
def test_a_program_that_breaks_a_rule_of_the_language_is_caught(tmp_path):
    """The sanitizers of the build above do stop a program: the guard is not asleep."""
    kind = next(kind for kind in KINDS if kind.name == "address-undefined")
    build(kind, "whet_field")
    source = tmp_path / "overrun.cpp"
    source.write_text("int main(int n, char**) { int* a = new int[2]; int r = a[1 + n]; delete[] a; return r * 0; }\n")
    program = tmp_path / "overrun"
    flags = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    subprocess.run([kind.compiler, *flags, source, "-o", program], check=True)
    assert subprocess.run([program], capture_output=True, check=False).returncode != 0
