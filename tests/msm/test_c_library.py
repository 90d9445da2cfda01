"""libwhet_msm: the sum from C, from Rust and from whatever else loads a shared library, against py-ecc.

The examples are built and run as their first lines say; what a careless or hostile caller may do is tried by ctypes.
"""

from __future__ import annotations

import ctypes
import random
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from native_build import GCC, build, unavailable
from whet.msm.oracle import known_multiples, multiple_of_generator
from whet.msm.point import P, R

ROOT = Path(__file__).parents[2]
OK, BAD_INPUT, BAD_FILE, UNSUPPORTED, _, CANCELLED = range(6)
MONTGOMERY, UNCHECKED = 1, 2
PROGRESS = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_double, ctypes.c_void_p)
COUNT = 40
LOGS = [random.Random(7).randrange(1, R) for _ in range(COUNT - 3)] + [1, R - 1, 0]
SCALARS = [random.Random(8).randrange(2**256) for _ in range(COUNT - 3)] + [0, 1, R - 1]

pytestmark = [pytest.mark.native_build, pytest.mark.xdist_group("c-library"), pytest.mark.timeout(900)]


def point_bytes(log: int, factor: int = 1) -> bytes:
    if log % R == 0:
        return bytes(64)
    point = multiple_of_generator(log)
    return b"".join((value * factor % P).to_bytes(32, "little") for value in (point.x, point.y))


POINTS = b"".join(map(point_bytes, LOGS))
SCALAR_BYTES = b"".join(scalar.to_bytes(32, "little") for scalar in SCALARS)
SUM = known_multiples(LOGS, SCALARS)


@pytest.fixture(scope="module")
def folder():
    """Built with the sources of the package, warnings as errors."""
    return build(GCC, "whet_msm_c") / "lib"


@pytest.fixture(scope="module")
def library(folder):
    library = ctypes.CDLL(str(folder / "libwhet_msm.so"))
    library.whet_msm_error.restype = library.whet_msm_backend.restype = ctypes.c_char_p
    library.whet_msm_size.restype = ctypes.c_size_t
    library.whet_msm_backend.argtypes = [ctypes.c_size_t]
    library.whet_msm_free.argtypes = library.whet_msm_cancel.argtypes = [ctypes.c_uint64]
    library.whet_msm_size.argtypes = [ctypes.c_uint64]
    library.whet_msm_set_precompute.argtypes = [ctypes.c_uint64, ctypes.c_uint]
    library.whet_msm_set_budget.argtypes = [ctypes.c_uint64, ctypes.c_size_t]
    library.whet_msm_prepare.argtypes = [ctypes.c_uint64, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint]
    library.whet_msm_save.argtypes = library.whet_msm_load.argtypes = [ctypes.c_uint64, ctypes.c_char_p]
    library.whet_msm_run.argtypes = [
        ctypes.c_uint64,
        ctypes.c_char_p,
        ctypes.c_size_t,
        ctypes.c_size_t,
        PROGRESS,
        ctypes.c_void_p,
        ctypes.c_char_p,
    ]
    return library


@pytest.fixture
def engine(library):
    made = ctypes.c_uint64()
    assert library.whet_msm_new(None, 2, ctypes.byref(made)) == OK
    yield made.value
    library.whet_msm_free(made.value)


def run(library, engine, *, scalars=SCALAR_BYTES, n=COUNT, offset=0, progress=None):
    out = ctypes.create_string_buffer(64)
    status = library.whet_msm_run(engine, scalars, n, offset, progress or PROGRESS(), None, out)
    return status, (int.from_bytes(out.raw[:32], "little"), int.from_bytes(out.raw[32:], "little"))


def error(library) -> str:
    return library.whet_msm_error().decode()


def test_the_examples_print_the_sum(folder, tmp_path, tried):
    points, scalars = tmp_path / "points", tmp_path / "scalars"
    points.write_bytes(POINTS)
    scalars.write_bytes(SCALAR_BYTES)
    header = ROOT / "native" / "c"
    link = ["-L", str(folder), f"-Wl,-rpath,{folder}"]
    source = str(ROOT / "examples" / "c" / "msm.c")
    strict = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I", str(header)]
    commands = {"c": ["gcc", *strict, source, *link, "-lwhet_msm", "-o", str(tmp_path / "c")]}
    if shutil.which("rustc"):  # may be missing anywhere
        rust = str(ROOT / "examples" / "rust" / "msm.rs")
        rpath = ["-C", f"link-arg=-Wl,-rpath,{folder}"]
        commands["rust"] = ["rustc", "-D", "warnings", rust, "-L", str(folder), *rpath, "-o", str(tmp_path / "rust")]
    for language, command in commands.items():
        if shutil.which(command[0]) is None:
            unavailable(f"{command[0]} is not installed")
        subprocess.run(command, check=True, capture_output=True)
        done = subprocess.run([tmp_path / language, points, scalars], capture_output=True, text=True, check=True)
        assert done.stdout == f"x 0x{SUM.x:064x}\ny 0x{SUM.y:064x}\n", language
        scalars_missing = subprocess.run(
            [tmp_path / language, points, tmp_path / "no-such-file"], capture_output=True, text=True, check=False
        )
        assert scalars_missing.returncode != 0 and "no-such-file" in scalars_missing.stderr
        tried("languages that call the sum")


def test_the_header_is_also_cpp(tmp_path):
    source = tmp_path / "header.cpp"
    source.write_text('#include "whet_msm.h"\nint main() { return whet_msm_version() == 0; }\n')
    command = ["g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I", str(ROOT / "native" / "c")]
    subprocess.run([*command, str(source)], check=True)


def test_every_backend_gives_the_sum_of_points_in_either_form(library):
    names = [name.decode() for name in map(library.whet_msm_backend, range(9)) if name]
    assert names[-1] == "portable"
    for name in names:
        made = ctypes.c_uint64()
        assert library.whet_msm_new(name.encode(), 1, ctypes.byref(made)) == OK
        for how, points in ((0, POINTS), (MONTGOMERY, b"".join(point_bytes(log, 2**256) for log in LOGS))):
            assert library.whet_msm_prepare(made, points, COUNT, how) == OK, error(library)
            assert library.whet_msm_size(made) == COUNT
            assert run(library, made) == (OK, (SUM.x, SUM.y)), (name, how)
        part = known_multiples(LOGS[5:25], SCALARS[:20])
        assert run(library, made, n=20, offset=5) == (OK, (part.x, part.y))
        assert run(library, made, n=0) == (OK, (0, 0))
        library.whet_msm_free(made)


def test_points_are_saved_and_loaded(library, engine, tmp_path):
    path = str(tmp_path / "points.whet").encode()
    assert library.whet_msm_prepare(engine, POINTS, COUNT, 0) == OK
    assert library.whet_msm_save(engine, path) == OK
    other = ctypes.c_uint64()
    assert library.whet_msm_new(None, 1, ctypes.byref(other)) == OK
    assert library.whet_msm_load(other, path) == OK
    assert run(library, other) == (OK, (SUM.x, SUM.y))
    (tmp_path / "points.whet").write_bytes(b"no points")
    assert library.whet_msm_load(engine, path) == BAD_FILE
    assert library.whet_msm_load(engine, str(tmp_path / "missing").encode()) == BAD_FILE
    # What failed to load left the earlier points alone.
    assert run(library, engine) == (OK, (SUM.x, SUM.y))
    library.whet_msm_free(other)


def test_multiples_are_kept_from_the_next_points_on(library, engine, tmp_path):
    path, sizes = str(tmp_path / "srs.whet").encode(), []
    for most in (1, 2):
        assert library.whet_msm_set_precompute(engine, most) == OK
        assert library.whet_msm_prepare(engine, POINTS, COUNT, 0) == OK
        assert run(library, engine) == (OK, (SUM.x, SUM.y))
        assert library.whet_msm_save(engine, path) == OK
        sizes.append((tmp_path / "srs.whet").stat().st_size)
    assert sizes[1] - sizes[0] == 64 * COUNT
    for wrong in (0, 17):
        assert library.whet_msm_set_precompute(engine, wrong) == BAD_INPUT
        assert f"precompute = {wrong}" in error(library)


def test_what_is_wrong_is_refused_with_its_name_and_changes_nothing(library, engine, tried):
    assert library.whet_msm_prepare(engine, POINTS, COUNT, 0) == OK
    off = POINTS[:-64] + b"\1" + bytes(63)
    large = P.to_bytes(32, "little") + bytes(32) + POINTS[64:]
    for words, status, told in (
        ((engine, off, COUNT, 0), BAD_INPUT, "point 39 is not on the curve"),
        ((engine, large, COUNT, 0), BAD_INPUT, "point 0 has a coordinate that is not below p"),
        ((engine, large, COUNT, UNCHECKED), BAD_INPUT, "point 0 has a coordinate that is not below p"),
        ((engine, None, COUNT, 0), BAD_INPUT, "points is NULL"),
        ((engine, POINTS, 2**60, 0), BAD_INPUT, "too many"),
        ((engine, POINTS, COUNT, 64), BAD_INPUT, "unknown bits"),
        ((0, POINTS, COUNT, 0), BAD_INPUT, "no engine 0"),
        ((engine + 1000, POINTS, COUNT, 0), BAD_INPUT, f"no engine {engine + 1000}"),
    ):
        assert library.whet_msm_prepare(*words) == status
        assert told in error(library)
        tried("calls of C refused")
    assert library.whet_msm_new(b"abacus", 1, ctypes.byref(ctypes.c_uint64())) == UNSUPPORTED
    assert "abacus" in error(library)
    assert library.whet_msm_new(None, 1, None) == BAD_INPUT
    assert library.whet_msm_save(engine, None) == BAD_INPUT
    assert run(library, engine, scalars=None)[0] == BAD_INPUT and "scalars is NULL" in error(library)
    assert run(library, engine, offset=1)[0] == BAD_INPUT
    assert run(library, engine, offset=2**64 - 1)[0] == BAD_INPUT
    assert run(library, engine) == (OK, (SUM.x, SUM.y))


def test_an_engine_that_was_freed_is_refused(library):
    made = ctypes.c_uint64()
    assert library.whet_msm_new(None, 1, ctypes.byref(made)) == OK
    assert library.whet_msm_prepare(made, POINTS, COUNT, 0) == OK
    library.whet_msm_free(made)
    library.whet_msm_free(made)
    library.whet_msm_free(0)
    assert run(library, made)[0] == BAD_INPUT and "no engine" in error(library)
    assert library.whet_msm_size(made) == 0


def test_a_callback_may_cancel_prepare_free_or_call_again(library, engine):
    assert library.whet_msm_prepare(engine, POINTS, COUNT, 0) == OK
    assert run(library, engine, progress=PROGRESS(lambda done, user: 1))[0] == CANCELLED
    inner = []

    def again(done, user):
        inner.append(run(library, engine)[0])
        # Other points in the middle of a call are for the calls that come after it.
        inner.append(library.whet_msm_prepare(engine, POINTS[64:], COUNT - 1, 0))
        library.whet_msm_cancel(engine + 1000)
        library.whet_msm_free(engine)
        return 0

    assert run(library, engine, progress=PROGRESS(again)) == (OK, (SUM.x, SUM.y))
    assert inner[:2] == [BAD_INPUT, OK]
    assert run(library, engine)[0] == BAD_INPUT and "no engine" in error(library)


def test_calls_of_many_threads_meet_prepare_cancel_and_free(library):
    """Every call is right, cancelled or refused; nothing hangs."""
    made = ctypes.c_uint64()
    assert library.whet_msm_new(None, 2, ctypes.byref(made)) == OK
    assert library.whet_msm_prepare(made, POINTS, COUNT, 0) == OK
    answers, lock = [], threading.Lock()

    def ask():
        for _ in range(50):
            answer = run(library, made)
            with lock:
                answers.append(answer)

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for _ in range(20):
        library.whet_msm_prepare(made, POINTS, COUNT, 0)
        library.whet_msm_set_budget(made, 1 << 30)
        library.whet_msm_cancel(made)
    library.whet_msm_free(made)
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert len(answers) == 300
    assert {status for status, _ in answers} <= {OK, CANCELLED, BAD_INPUT}
    assert {point for status, point in answers if status == OK} <= {(SUM.x, SUM.y)}
