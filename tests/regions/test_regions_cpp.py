"""Regions of C++ programs: the example of docs/regions-cpp.md end to end, mistakes that must be told, live sheets."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from test_regions_header import COMPILERS
from whet.regions import account, find_loop, include_dir, judge, load, predict
from whet.regions.critical import critical_path
from whet.regions.verdict import Bracket

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.native_build, pytest.mark.xdist_group("regions_header")]
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Wno-sign-conversion", "-Werror"]


def compiled(compiler, source, target, *options):
    command = [compiler, "-std=c++20", "-O1", "-pthread", f"-I{include_dir()}", *options, source, "-o", target]
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300, check=False)


def run(*command):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture(scope="module")
def jacobi(tmp_path_factory):
    """The example with timing off and on."""
    folder = tmp_path_factory.mktemp("jacobi")
    for on in (0, 1):
        done = compiled(
            COMPILERS[0], ROOT / "examples/regions_cpp.cpp", folder / f"on{on}", f"-DWHET_REGIONS={on}", *WARNINGS
        )
        assert done.returncode == 0, done.stderr
    return folder / "on0", folder / "on1"


def test_the_example_gives_trips_a_path_a_verdict_and_a_prediction(jacobi, tmp_path):
    off, on = jacobi
    target = tmp_path / "jacobi.npy"
    kept, silent = run(on, target), run(off, tmp_path / "off.npy")
    assert kept.returncode == silent.returncode == 0, kept.stderr
    assert kept.stdout.splitlines()[0] == silent.stdout.splitlines()[0]
    assert "compile with -DWHET_REGIONS=1" in silent.stdout and not (tmp_path / "off.npy").exists()
    capture = load(target)
    counted = account(capture)
    loop = find_loop(counted)
    assert loop is not None and loop.barrier == "meet" and len(loop.trips) in (200, 201)
    assert sum(trip.ticks for trip in loop.trips) == critical_path(counted).length == counted.span
    verdict = judge(capture, tag="compute")
    failed = {check.name for check in verdict.checks if not check.held}
    assert failed <= {"coverage", "span"}, "a busy machine may take the processor away between regions"
    assert len(verdict.trips) == len(loop.trips) and any(t.bracket is not Bracket.UNSUPPORTED for t in verdict.trips)
    made = predict(capture, ["region=sweep factor=2"])
    assert 0 < made.predicted_gain <= made.ceiling < 1 and made.waits[0].passes == 200


def test_the_page_shows_the_example_as_it_is():
    """Every piece of C++ in docs/regions-cpp.md is in the example, word for word."""
    example = squeezed((ROOT / "examples/regions_cpp.cpp").read_text())
    blocks = re.findall(r"```cpp\n(.*?)```", (ROOT / "docs/regions-cpp.md").read_text(), re.DOTALL)
    assert len(blocks) >= 3
    for block in blocks:
        for part in block.split("...\n"):
            assert squeezed(part) in example, part


def squeezed(text):
    return "".join(text.split())


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize(
    ("worker", "fine"),
    [("int w = 1", True), ("short w = 1", True), ("unsigned long w = 1", True), ("double w = 1", False)],
)
def test_any_integer_is_a_worker_and_nothing_else(compiler, worker, fine, tmp_path):
    source = tmp_path / "w.cpp"
    source.write_text(
        '#include "regions/region.hpp"\nenum class R { a };\nint main() { whet::regions::Sheet s("s", 2, {{"a"}}); '
        f"{worker}; WHET_REGION(s, w, R::a); }}\n"
    )
    done = compiled(compiler, source, tmp_path / "w", "-DWHET_REGIONS=1", "-fsyntax-only", *WARNINGS)
    assert (done.returncode == 0) is fine, done.stderr
    assert fine or "the worker is an index" in done.stderr


@pytest.mark.parametrize("compiler", COMPILERS)
def test_an_ignored_save_is_a_warning(compiler, tmp_path):
    source = tmp_path / "n.cpp"
    source.write_text(
        '#include "regions/region.hpp"\nint main() { whet::regions::Sheet s("s", 1, {{"a"}}); s.save("x.npy"); }\n'
    )
    done = compiled(compiler, source, tmp_path / "n", "-DWHET_REGIONS=1", "-fsyntax-only")
    assert re.search("nodiscard|unused.result", done.stderr)


TELLS = """
#include "regions/region.hpp"
#include <cstring>
using namespace whet::regions;
int main(int, char** words) {
    Sheet sheet("s", 1, {{"a"}, {"b", "wait"}}, Room{3});
    if (std::strchr(words[1], 's')) sheet.start();
    for (int i = 0; i < (std::strchr(words[1], 'm') ? 9 : 2); ++i) {
        { WHET_REGION(sheet, 0, 0); }
        { WHET_REGION(sheet, 0, 1); }
    }
    if (std::strchr(words[1], 'x')) { WHET_REGION(sheet, -1, 0); }
    if (std::strchr(words[1], 'e')) sheet.stop();
    return static_cast<int>(sheet.save(words[2]));
}
"""


@pytest.fixture(scope="module")
def tells(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tells")
    (folder / "tells.cpp").write_text(TELLS)
    done = compiled(COMPILERS[0], folder / "tells.cpp", folder / "tells", "-DWHET_REGIONS=1", *WARNINGS)
    assert done.returncode == 0, done.stderr
    return folder / "tells"


@pytest.mark.parametrize(
    ("how", "said"),
    [("e", r"start\(\) was not called"), ("s", r"stop\(\) was not called"), ("sex", "that the sheet does not have")],
)
def test_a_sheet_that_is_not_saved_says_why(tells, how, said, tmp_path, tried):
    target = tmp_path / "t.npy"
    target.write_text("older")
    done = run(tells, how, target)
    assert done.returncode > 1 and re.search(said, done.stderr) and not target.exists()
    tried("mistakes told", 1)


def test_more_waits_than_room_are_summed_and_told(tells, tmp_path):
    assert run(tells, "sem", tmp_path / "t.npy").returncode == 0
    capture = load(tmp_path / "t.npy")
    assert capture.cells["count"].tolist() == [[9, 9]]
    (path,) = [check for check in judge_any(capture) if check.name == "critical path"]
    assert not path.held and "room for stretches" in path.detail


def judge_any(capture):
    from whet.regions.checks import preconditions

    return preconditions(account(capture))


LIVE = """
#include <atomic>
#include <barrier>
#include <cstdio>
#include <cstdlib>
#include "regions/on_request.hpp"
using namespace whet::regions;
int main(int, char** words) {
    Sheet sheet("live", 3, {{"work", "work", {"hot"}}, {"meet", "wait"}}, Room{100000});
    const std::size_t want = std::strtoul(words[2], nullptr, 10);
    sheet.start();
    {
        OnRequest requests(sheet, words[1]);
        std::atomic<bool> over{false};
        std::barrier gate(3, [&]() noexcept { over = requests.written() >= want; });
        const auto body = [&](int worker) {
            volatile double sum = 0;
            while (!over) {
                { WHET_REGION(sheet, worker, 0); for (int i = 0; i < 20000; ++i) sum = sum + i; }
                { WHET_REGION(sheet, worker, 1); gate.arrive_and_wait(); }
            }
        };
        std::puts("running");
        std::fflush(stdout);
        std::thread a(body, 1), b(body, 2);
        body(0);
        a.join();
        b.join();
        std::printf("written %zu\\n", requests.written());
    }
    return 0;
}
"""


def test_a_running_program_writes_its_sheet_when_asked(tmp_path, tried):
    (tmp_path / "live.cpp").write_text(LIVE)
    done = compiled(COMPILERS[0], tmp_path / "live.cpp", tmp_path / "live", "-DWHET_REGIONS=1", *WARNINGS)
    assert done.returncode == 0, done.stderr
    target = tmp_path / "live.npy"
    program = subprocess.Popen([tmp_path / "live", target, "6"], stdout=subprocess.PIPE, text=True)
    try:
        assert program.stdout.readline() == "running\n"
        for ask in range(6):
            target.unlink(missing_ok=True)
            if ask % 2:
                (tmp_path / "live.npy.ask").touch()
            else:
                os.kill(program.pid, signal.SIGUSR1)
            end = time.monotonic() + 200
            while not target.is_file():
                assert time.monotonic() < end, "no answer"
                time.sleep(0.01)
            capture = load(target)
            assert not capture.about.complete
            if capture.cells["written"].any():
                critical_path(account(capture))
        assert program.wait(200) == 0 and "written 6" in program.stdout.read()
    finally:
        program.kill()
        program.wait()
    tried("sheets of running programs", 6)
