"""`whet msm --device webgpu`: says where it ran, is checked by the CPU, and falls back only when asked."""

from __future__ import annotations

import json

import pytest

import point_files as pf
from whet.cli import app
from whet.errors import DeviceLost
from whet.msm.webgpu import sums

pytestmark = [pytest.mark.gpu, pytest.mark.xdist_group("gpu")]


def run_json(capsys, *arguments: object) -> dict:
    assert app.invoke(["msm", *map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_sum_over_files_on_the_gpu_is_checked_on_the_cpu(device, tmp_path, capsys):
    points = pf.multiples(7)
    (tmp_path / "pot.ptau").write_bytes(pf.ptau(points))
    (tmp_path / "w.wtns").write_bytes(pf.wtns([3, 0, 1, 5, 7, 2, 9]))
    given = ["--points", tmp_path / "pot.ptau", "--scalars", tmp_path / "w.wtns"]
    told = run_json(capsys, *given, "--device", "webgpu", "--memory-budget", "64MB")
    assert told["device"] == "webgpu" and told["check"]["kind"] == "whole" and told["fallback_reason"] is None
    assert told["point"] == run_json(capsys, *given)["point"]


def test_the_command_falls_back_when_asked_and_says_why(device, capsys, monkeypatch):
    def lost(*given: object, **more: object) -> None:
        raise DeviceLost("the adapter left", cure="plug it in again")

    monkeypatch.setattr(sums.WebGpuSums, "compute", lost)
    with pytest.raises(DeviceLost):
        app.invoke(["msm", "--n", "40", "--device", "webgpu"])
    told = run_json(capsys, "--n", 40, "--seed", 3, "--device", "webgpu", "--fallback")
    assert "the adapter left" in told["fallback_reason"]
    assert told["point"] == run_json(capsys, "--n", 40, "--seed", 3)["point"]
