"""region.hpp: off it leaves no trace in the code, on it changes no bit of the answer, and whet reads what it wrote."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import pytest

from whet.regions import include_dir
from whet.regions.accounting import account
from whet.regions.capture import load
from whet.regions.reducer import reduce
from whet.regions.verdict import Bracket, judge

# One worker builds the programs for all of them.
pytestmark = [pytest.mark.native_build, pytest.mark.xdist_group("regions_header")]

KERNEL = """
#ifdef PLAIN
#define WHET_REGION(sheet, worker, region) static_cast<void>(0)
#else
#include "regions/region.hpp"
extern whet::regions::Sheet sheet;
#endif
#include <cmath>
void kernel(const float* x, float* y, int n, unsigned worker) {
    for (int trip = 0; trip < 34; ++trip) {
        WHET_REGION(sheet, worker, 0);
        for (int i = 0; i < n; ++i) {
            WHET_REGION(sheet, worker, 1);
            y[i] += std::sqrt(x[i] * static_cast<float>(trip));
        }
    }
}
"""

MAIN = """
#include <cstdio>
#include <cstring>
#include <vector>
#include "regions/region.hpp"
whet::regions::Sheet sheet("demo", 2, {{"fc1"}, {"inner", "work", {"hot"}, 0}, {"barrier", "wait"}});
void kernel(const float* x, float* y, int n, unsigned worker);
int main(int, char** argv) {
    std::vector<float> x(64), y(64);
    for (unsigned i = 0; i < 64; ++i) x[i] = 0.37f * static_cast<float>(i);
    sheet.start();
    for (unsigned worker = 0; worker < 2; ++worker) kernel(x.data(), y.data(), 64, worker);
    sheet.stop();
    for (float v : y) {
        unsigned bits;
        std::memcpy(&bits, &v, sizeof bits);
        std::printf("%08x", bits);
    }
    return static_cast<int>(sheet.save(argv[1], {{"layer", "3"}}));
}
"""

COMPILERS = [name for name in ("g++", "clang++-19", "clang++") if shutil.which(name)][:2]


def compile_with(compiler, folder, name, *options):
    command = [compiler, "-std=c++20", "-O2", f"-I{include_dir()}", *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return folder / name


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    folder = tmp_path_factory.mktemp("header")
    (folder / "kernel.cpp").write_text(KERNEL)
    (folder / "main.cpp").write_text(MAIN)
    return folder


def listing(path):
    """The assembly without file names, and with local labels numbered in the order in which they appear."""
    labels: dict[str, str] = {}
    lines = [line for line in path.read_text().splitlines() if not line.strip().startswith((".file", ".ident"))]
    return [re.sub(r"\.L\w+", lambda m: labels.setdefault(m[0], f".L{len(labels)}"), line) for line in lines]


@pytest.mark.parametrize("compiler", COMPILERS)
def test_pitfall_off_generates_no_code(compiler, sources, tried):
    """One statement more in the source must not change the code that is measured."""
    listings = [
        listing(compile_with(compiler, sources, f"{name}.s", "-S", "kernel.cpp", define, "-o", f"{name}.s"))
        for name, define in (("plain", "-DPLAIN"), ("off", "-DOTHER"), ("on", "-DWHET_REGIONS=1"))
    ]
    assert listings[0] == listings[1]
    assert listings[2] != listings[0], "the comparison could not fail"
    tried("machine code listings compared", 2)


@pytest.fixture(scope="module")
def programs(sources):
    """The demo with timing off and on."""
    built = []
    for value in (0, 1):
        flags = [f"-DWHET_REGIONS={value}", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror"]
        name = f"prog{value}"
        built.append(compile_with(COMPILERS[0], sources, name, *flags, "kernel.cpp", "main.cpp", "-o", name))
    return built


def run(program, target):
    return subprocess.run([program, target], capture_output=True, text=True, timeout=60, check=False)


def test_on_and_off_give_the_same_bits_and_whet_reads_the_capture(programs, tmp_path):
    off, on = programs
    kept = run(on, tmp_path / "demo.npy")
    silent = run(off, tmp_path / "off.npy")
    assert kept.returncode == 0 and silent.returncode == 1, "Saved::yes and Saved::off"
    assert kept.stdout == silent.stdout and len(kept.stdout) == 64 * 8
    assert not (tmp_path / "off.npy").exists()

    capture = load(tmp_path / "demo.npy")
    table = reduce(capture)
    assert [(r.region, r.trips, r.active_workers) for r in table.rows] == [
        ("fc1", 68, 2),
        ("inner", 68 * 64, 2),
        ("barrier", 0, 0),
    ]
    assert capture.about.launch == {"name": "demo", "layer": "3"}
    counted = account(capture)
    assert all(
        check.held
        for check in judge(capture, tag="hot", counted=counted).checks
        if check.name in ("launch", "nothing stale", "nesting")
    )


def test_pitfall_on_and_off_never_share_a_symbol(programs):
    """A cache or a linker that mixed both states up would reuse the wrong code: they live in different namespaces."""
    off, on = (subprocess.run(["nm", "-C", p], capture_output=True, text=True, check=True).stdout for p in programs)
    assert "regions::on::Sheet" in on and "regions::off::" not in on
    assert "regions::on::" not in off


def test_the_verdict_of_a_header_capture_follows_the_same_rules(programs, tmp_path):
    target = tmp_path / "demo.npy"
    run(programs[1], target)
    about = json.loads((tmp_path / "demo.npy.json").read_text())
    about["window"] = [1, 2]
    (tmp_path / "demo.npy.json").write_text(json.dumps(about))
    verdict = judge(load(target), tag="hot")
    assert verdict.bracket is Bracket.UNSUPPORTED and any("stale" in reason for reason in verdict.reasons)
