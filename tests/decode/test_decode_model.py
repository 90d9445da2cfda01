"""A model of layers says the same tokens however it is computed; its regions can be believed; the gate takes it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from whet.decode import SHAPES, Schedule
from whet.decode.cases import Trial, random_cache, random_weights
from whet.decode.engine import DecodeEngine
from whet.decode.model import Model
from whet.errors import BadInput
from whet.protocol import Case
from whet.regions import account, load, reduce

WAYS = [
    (1, Schedule(), False),
    (1, Schedule(barrier="spin"), True),
    (2, Schedule(), True),
    (2, Schedule(launch="phased"), False),
    (3, Schedule(fc1="recomputed"), False),
    (3, Schedule(launch="phased", fc1="recomputed"), True),
    *((2, Schedule(wo_split=split), timed) for split in (2, 3, 8) for timed in (False, True)),
]


@pytest.mark.parametrize(("weight_type", "kv_type"), [("f32", "f32"), ("int8", "bf16"), ("fp4", "e4m3")])
def test_the_same_tokens_for_every_variant_worker_count_and_timing(weight_type, kv_type, tried):
    said = {
        tuple(
            Model.random(7, weight_type=weight_type, workers=workers).generate(
                [3, 1, 4], 20, kv_type=kv_type, schedule=schedule, timed=timed
            )
        )
        for workers, schedule, timed in WAYS
    }
    assert len(said) == 1
    tokens = said.pop()
    assert len(tokens) == 20 and len(set(tokens)) > 3
    other = Model.random(8, weight_type=weight_type).generate([3, 1, 4], 20, kv_type=kv_type)
    assert tuple(other) != tokens
    tried("decode generations", len(WAYS))


def test_what_came_before_matters():
    model = Model.random(7, workers=1)
    assert model.generate([3, 1, 4], 8) != model.generate([5, 1, 4], 8)
    with pytest.raises(BadInput):
        model.generate([97], 2)


def test_regions_of_a_step_cover_it(tmp_path):
    shape = SHAPES["tiny"]
    rng = np.random.default_rng(1)
    matrices, norms = random_weights(shape, "f32", rng)
    cache = random_cache(shape, [2000] * 4, 64, "f32", rng)
    x = rng.standard_normal((4, 64), np.float32)
    trial = Trial(shape, matrices, norms, x, cache, None, None, None, "")
    layer = trial.layer(workers=2)
    path = tmp_path / "step.npy"
    with pytest.raises(BadInput, match="timed=True"):
        layer.save_regions(path)
    trial.run(layer, Schedule(wo_split=2), timed=True)
    layer.save_regions(path, "wo_split=2")
    counted = account(load(path))
    assert counted.coverage >= 0.9
    rows = {row.region: row for row in reduce(load(path)).rows}
    assert rows["wo"].active_workers == 2 and rows["gather"].active_workers == 1 and rows["attend"].active_workers == 2
    # A launch with another schedule starts from an empty sheet: one W_O worker, and no wait behind FC1.
    trial.run(layer, Schedule(wo_split=1, fc1="recomputed", rows="fixed"), timed=True)
    layer.save_regions(path)
    rows = {row.region: row for row in reduce(load(path)).rows}
    assert rows["wo"].active_workers == 1 and rows["wait_fc1"].active_workers == 0


def test_the_gate_takes_the_variants():
    asked = ["fused:wo_split=3,fc1=recomputed", "phased", "fused:timing=true,workers=3"]
    command = [sys.executable, "-m", "whet", "check", "decode", *asked, "--repeats", "1", "--cases", "12"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("green") == 3


def test_cases_that_do_not_exist():
    engine = DecodeEngine()
    step = {"batch": 1, "length": 1, "page": 1, "hidden": 64}
    for sizes in ({"batch": 1}, step | {"batch": 9}, step | {"hidden": 65}, step | {"page": 0}):
        with pytest.raises(BadInput):
            engine.prepare(Case(sizes=sizes, profile="f32-f32"), 1)


def test_the_example_generates_tokens():
    example = Path(__file__).parents[2] / "examples" / "decode_model.py"
    said = subprocess.run([sys.executable, example], capture_output=True, text=True, timeout=120, check=True).stdout
    assert len(eval(said.splitlines()[0].removeprefix("tokens "))) == 20
    assert "the same with one worker: True" in said
