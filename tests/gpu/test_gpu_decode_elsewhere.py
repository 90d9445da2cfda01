"""The whole program of a step, weights and all, as plain data under Dawn and in Chromium, against float64."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from whet.decode import SHAPES
from whet.decode.cases import angles, random_cache, random_trial, random_weights
from whet.decode.oracle import MAX_ULP, accuracy, reference
from whet.decode.webgpu.geometry import Geometry
from whet.decode.webgpu.layer import packed_inputs
from whet.decode.webgpu.program import PASSES, build, parts

pytestmark = [pytest.mark.gpu, pytest.mark.browser, pytest.mark.slow, pytest.mark.xdist_group("gpu")]


def request(weight_type, kv_type, lengths):
    """A trial on the tiny layer, its program and its inputs by buffer."""
    shape, rng = SHAPES["tiny"], np.random.default_rng(5)
    matrices, norms = random_weights(shape, weight_type, rng)
    cache = random_cache(shape, lengths, 4, kv_type, rng)
    x = rng.standard_normal((len(lengths), shape.hidden), np.float32)
    cosine, sine = angles(lengths, shape.head_dim)
    gate = rng.standard_normal((len(lengths), shape.q_size), np.float32)
    known = {"shape": shape, "matrices": matrices, "norms": norms, "x": x, "cache": cache, "gate": gate}
    trial = replace(random_trial(0), **known, cosine=cosine, sine=sine)
    g = Geometry(
        batch=cache.batch,
        page_size=4,
        pages=len(cache.k),
        table_width=cache.table.shape[1],
        kv_type=kv_type,
        rotary=True,
        gated=True,
        wo_split=3,
    )
    inputs = packed_inputs(parts(shape, g), x, cache, (cosine, sine), gate)
    contents = {"inputs": inputs, "k": cache.k.reshape(-1), "v": cache.v.reshape(-1)}
    return trial, build(shape, matrices, norms, g), contents


@pytest.mark.parametrize(
    ("elsewhere", "weight_type", "kv_type", "lengths"),
    [("dawn", "fp4", "e4m3", [270]), ("chromium", "int8", "bf16", [9])],
    indirect=["elsewhere"],
)
def test_a_step_elsewhere_is_near_float64(elsewhere, weight_type, kv_type, lengths, tried):
    trial, program, contents = request(weight_type, kv_type, lengths)
    outcome = elsewhere(program, contents, ["results"], time_limit_s=400)
    out = outcome.outputs["results"][: trial.x.size].view(np.float32).reshape(trial.x.shape)
    found = accuracy(out, reference(trial.shape, trial.matrices, trial.norms, **trial.inputs()))
    assert found.finite and found.max_ulp <= MAX_ULP
    assert tuple(name for name, _ in outcome.passes) == PASSES
    tried("decode steps elsewhere")
