"""The gate takes the WebGPU variant beside the CPU's, and its passes become a region table."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from whet.decode.engine import DecodeEngine
from whet.decode.webgpu.program import PASSES
from whet.errors import Unsupported
from whet.protocol import Case, parse_variant
from whet.regions import Bracket, Limits, account, judge, load

pytestmark = [pytest.mark.gpu, pytest.mark.xdist_group("gpu")]
CASE = Case(sizes={"batch": 2, "length": 17, "page": 4, "hidden": 64}, profile="int8-bf16")


def whet(*words):
    command = [sys.executable, "-m", "whet", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)


def test_the_gate_takes_it_beside_the_cpu(decode_device):
    case = ("--size", "batch=2", "--size", "length=17", "--size", "page=4", "--profile", "int8-bf16")
    done = whet("check", "decode", "fused", "webgpu:wo_split=3,fc1=recomputed", *case, "--repeats", "2")
    assert done.returncode == 0, done.stderr
    assert "green: webgpu:wo_split=3" in done.stdout and "green: fused" in done.stdout
    named = whet("check", "decode", "webgpu", *case, "--device", f"webgpu:{decode_device.info.key}", "--repeats", "1")
    assert named.returncode == 0, named.stderr
    assert whet("check", "decode", "fused", *case, "--device", "webgpu").returncode == 4


def test_passes_become_the_region_table(decode_device, tmp_path):
    if decode_device.timestamp_period_ns is None:
        pytest.skip("this adapter has no timestamps")
    kept = tmp_path / "passes.npz"
    done = whet("regions", "capture", "decode", "webgpu:wo_split=2", "--repeats", "3", "--out", str(kept), "--json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["table"]["rows"]
    assert tuple(row["region"] for row in rows) == PASSES
    assert all(row["active_workers"] == 3 for row in rows)
    capture = load(kept)
    assert capture.about.tick_source == "timestamp_query"
    # What lies between the passes is a hole, not theirs.
    assert 0 < account(capture).coverage < 1
    # So small a step is more hole than passes, which is the one thing a verdict holds against it.
    assert [region.name for region in capture.schema.tagged("k_reducible")] == ["project", "wo", "fc1", "fc2"]
    verdict = judge(capture, limits=Limits(coverage=0.01, span=0.99))
    assert verdict.bracket != Bracket.UNSUPPORTED, verdict.reasons
    assert verdict.dominant in {"project", "wo", "fc1", "fc2"}


def test_timing_can_be_left_out_and_a_cpu_variant_stays_on_the_cpu(decode_device):
    engine = DecodeEngine()
    fixed = engine.fixed(CASE, 1)
    state = engine.setup(parse_variant(engine, "webgpu:timing=false"), CASE, fixed, "webgpu")
    assert engine.timing(state) is None
    assert [engine.device_of(parse_variant(engine, name), "cpu") for name in ("fused", "webgpu")] == ["cpu", "webgpu"]
    engine.close(state)
    with pytest.raises(Unsupported, match="fused does not run on webgpu"):
        engine.setup(parse_variant(engine, "fused"), CASE, fixed, "webgpu")
