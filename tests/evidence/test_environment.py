"""The environment of a run: cheap, never failing, and comparable."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import msgspec
import pytest

from whet.evidence import environment
from whet.evidence.environment import capture, differences


def test_it_says_what_matters():
    seen = capture()
    assert seen["cpu"]["model"] and seen["cpu"]["logical_cores"] >= 1
    assert seen["memory"]["total_bytes"] > seen["memory"]["available_bytes"] > 0
    assert seen["python"]["version"].startswith("3.")
    assert seen["packages"]["numpy"].split(".")[0].isdigit()
    assert seen["os"]["kernel"] == os.uname().release
    assert seen["native"]["compiler"].lower().split()[0] in {"gcc", "clang", "ubuntu", "debian", "apple"}
    assert len(seen["native"]["sha256"]) == 16
    assert msgspec.json.decode(msgspec.json.encode(seen)) == json.loads(json.dumps(seen)) == seen


PARTS = ["_cpu", "_load", "_memory", "_power", "_virtualisation", "_system", "_python", "_packages", "_native", "_git"]


@pytest.mark.parametrize("part", PARTS)
def test_a_failing_part_is_left_out(monkeypatch, part):
    whole = capture()

    def broken(*_):
        raise RuntimeError("sensor on fire")

    monkeypatch.setattr(environment, part, broken)
    name = {"_system": "os"}.get(part, part.removeprefix("_"))
    left = capture()
    assert name not in left
    assert left.keys() == whole.keys() - {name}


def test_a_gpu_part_joins(tmp_path):
    assert capture(extra={"gpu": {"adapter": "x"}})["gpu"] == {"adapter": "x"}


def test_git_state(tmp_path):
    def git(*arguments: str) -> str:
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.invalid"]
        return subprocess.check_output(["git", "-C", tmp_path, *identity, *arguments], text=True).strip()

    git("init", "-q", "-b", "trunk")
    (tmp_path / "kernel.py").write_text("a = 1\n")
    git("add", "-A")
    git("commit", "-q", "-m", "first")
    clean = capture(tmp_path)["git"]
    assert clean == {"commit": git("rev-parse", "HEAD")[:16], "branch": "trunk", "dirty": False}
    (tmp_path / "kernel.py").write_text("a = 2\n")
    assert capture(tmp_path)["git"]["dirty"] is True
    (tmp_path / "kernel.py").write_text("a = 1\n")
    (tmp_path / "notes.txt").write_text("untracked")
    assert capture(tmp_path)["git"]["dirty"] is False


def test_no_git_no_part(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert "git" not in capture(tmp_path)
    monkeypatch.setenv("PATH", "")
    assert "git" not in capture(Path(__file__).parent)


def test_differences():
    before = {"cpu": {"model": "A", "governor": "powersave", "frequency_mhz": 1}, "load": {"1min": 3.0}, "os": {"k": 1}}
    after = {
        "cpu": {"model": "A", "governor": "performance", "frequency_mhz": 2},
        "load": {"1min": 0.0},
        "gpu": {"x": 1},
    }
    seen = [(d.field, d.before, d.after) for d in differences(before, after)]
    assert seen == [("cpu.governor", "powersave", "performance"), ("gpu.x", None, 1), ("os.k", 1, None)]
    assert differences(before, before) == []


def test_two_captures_do_not_differ():
    assert differences(capture(), capture()) == []
