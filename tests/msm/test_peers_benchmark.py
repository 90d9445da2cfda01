"""The table of other libraries: a wrong answer has no time, patience ends, and the page says why one is left out."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from whet.msm import Engine, inputs

FOLDER = Path(__file__).parents[2] / "benchmarks" / "msm_peers"


@pytest.fixture
def modules(monkeypatch, tmp_path):
    """The benchmark's modules, which find each other by their folder; kept inputs go to a folder of the test."""
    monkeypatch.syspath_prepend(str(FOLDER))
    names = ("bench", "peer", "page", "install")
    loaded = {name: __import__(name) for name in names}
    monkeypatch.setattr(loaded["bench"], "HOME", tmp_path)
    yield loaded
    for name in names:
        sys.modules.pop(name, None)


class Scripted:
    """A library that computes with our engine and then errs as told."""

    def __init__(self, bench, *, shift: int = 0, error: str = "") -> None:
        self.bench, self.shift, self.error, self.closed = bench, shift, error, False
        self.asked: list[int] = []

    def ask(self, files, *, patience_s, load=None, calls=1):
        self.asked.append(calls)
        if self.error:
            return {"error": self.error}
        point = self.bench._engine.compute(inputs.to_limbs(_integers(files["scalars"])))
        return {"wall_ms": 7.0, "cpu_ms": 6.0, "x": str(point.x + self.shift), "y": str(point.y)}

    def close(self):
        self.closed = True


def _integers(path: str) -> list[int]:
    data = Path(path).read_bytes()
    return [int.from_bytes(data[i : i + 32], "little") for i in range(0, len(data), 32)]


def test_only_right_answers_have_times(modules):
    bench = modules["bench"].Bench(64, 1, 2, 5.0, lambda name: None)
    bench.peers = {
        "right": Scripted(bench),
        "wrong": Scripted(bench, shift=1),
        "late": Scripted(bench, error="over 5 s"),
    }
    bench.load_ms |= {"right": 1.0, "wrong": 1.0, "late": 1.0}
    late, right = bench.peers["late"], bench.peers["right"]
    try:
        row = bench.measure("D")
        assert set(row["ms"]) == {"whet", "right"} and row["ms"]["right"] == (6.0, 7.0)
        assert right.asked == [1, 2]  # of 7 ms, two make a turn of 20
        assert row["machine"] and row["backend"] == bench._engine.backend
        assert "another answer" in row["notes"]["wrong"] and row["notes"]["late"] == "over 5 s"
        assert set(bench.measure("E")["notes"]) == {"wrong", "late"}  # too late once is too late for good
        assert "late" not in bench.peers and "over 5 s for D" in bench.absent["late"]
    finally:
        bench.close()
    assert not late.closed  # whoever is late has been ended by its own pipe


def test_a_wrong_answer_of_ours_ends_the_run(modules, monkeypatch):
    bench = modules["bench"].Bench(64, 1, 1, 5.0, lambda name: None)
    other = Engine([(1, 2)])([5])
    monkeypatch.setattr(bench._engine, "compute", lambda scalars: other)
    with pytest.raises(SystemExit, match="whet is wrong at n = 64, random"):
        bench.measure("random")
    bench.close()


def test_what_starting_takes_is_no_reason_to_leave_a_library_out(modules):
    row = {"threads": 1, "n": 8, "ms": {"mcl": (1.0, 1.0)}, "load_ms": {"mcl": 900.0}, "notes": {}}
    too_slow = modules["bench"].too_slow
    assert too_slow([row], 2**10, 1, 5.0, "mcl") is None
    assert "for loading: 1 s for 2^10" in too_slow([row | {"n": 2**10}], 2**18, 1, 5.0, "mcl")
    assert "5.0 s for 2^10" in too_slow([row | {"n": 2**10, "ms": {"mcl": (1.0, 5e3)}}], 2**12, 1, 5.0, "mcl")


def test_libraries_in_go_and_rust_are_left_out_with_a_reason(modules, monkeypatch):
    install = modules["install"]
    monkeypatch.setattr(install.shutil, "which", lambda name: None)
    assert install._build_go() == "go is not installed" and install._build_rust() == "cargo is not installed"
    stated = install.versions()
    assert stated["gnark"].startswith("github.com/consensys/gnark-crypto 0.") and stated["arkworks"].startswith(
        "ark-ec 0."
    )


@pytest.mark.parametrize(
    ("script", "patience_s", "error"),
    [
        ("import time; print('hello', flush=True); time.sleep(600)", 1.0, "over 1 s"),
        ("import sys; sys.exit(3)", 60.0, "its process ended with 3"),
    ],
)
def test_a_library_that_hangs_or_dies_is_ended(modules, monkeypatch, script, patience_s, error):
    peer = modules["peer"]
    monkeypatch.setattr(peer, "command_of", lambda name, threads: [sys.executable, "-c", script])
    one = peer.Peer("any")
    assert one.ask({}, patience_s=patience_s) == {"error": error}
    assert one._process.returncode is not None


def test_the_page_has_every_row_and_every_reason(modules, tmp_path):
    base = {
        "machine": "a machine",
        "backend": "adx",
        "threads": 1,
        "profile": "random",
        "load_ms": {"whet": 1.0, "mcl": 2.0},
    }
    rows = [
        {**base, "n": 2**10, "ms": {"whet": (2.0, 2.0), "mcl": (9.0, 9.0)}, "notes": {"noble": "over 5 s"}},
        {**base, "n": 2**12, "ms": {"whet": (4.0, 4.0)}, "notes": {"mcl": "refused by the gate: another answer"}},
    ]
    page = tmp_path / "page.md"
    modules["page"].write_page(page, rows, {"mcl": "mclbn256 1"})
    text = page.read_text()
    assert "| 1 | 2^10 | 2 | 4.5 |" in text and "| 1 | 2^12 | 4 | – |" in text
    assert "noble, 1 thread, 2^10 (random): over 5 s" in text and "refused by the gate" in text
    assert "Measured on a machine, our kernel `adx`." in text
    assert "Narrowest lead with random scalars: 4.5 (mcl, 2^10, random, 1 thread)" in text
