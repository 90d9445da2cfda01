"""Faults planted in the WGSL of the decode layer, one at a time: every one is far from float64."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from gpu_decode import distance_ulp, run_on

from whet.decode import Schedule, Shape
from whet.decode.cases import angles, random_cache, random_trial, random_weights
from whet.decode.oracle import MAX_ULP
from whet.decode.webgpu import program

pytestmark = [pytest.mark.gpu, pytest.mark.xdist_group("gpu")]

# eps is large, so that leaving it out shows; 270 columns are more than a block per lane, 301 tokens more than a tile of
# the attention, and five slots of 96 columns have borders inside blocks.
SHAPE = Shape(hidden=270, intermediate=50, q_heads=6, kv_heads=2, head_dim=16, eps=0.05)
SPLIT = Schedule(wo_split=5)

# Entry point, storage types and batch, what stands in the source, what is planted there.
F32, BF16, INT8, FP4 = ("f32-f32", 1), ("bf16-bf16", 1), ("int8-f32", 1), ("fp4-e4m3", 1)
FAULTS = {
    "norm ignores eps": ("norm", F32, " + params.eps", " + 0.0 * params.eps"),
    "norm takes the first weight": ("norm", F32, "(x[row + i] * by) * weight[i]", "(x[row + i] * by) * weight[0]"),
    "norm divides by the padding": ("gather", F32, "f32(params.hidden)", "f32(params.stride)"),
    "last slot lost": ("gather", F32, "s < params.slots", "s + 1u < params.slots"),
    "residual not added": ("gather", F32, "gathered += x[row + i];", "gathered += 0.0 * x[row + i];"),
    "last block skipped": ("project", INT8, "block < end", "block + 1u < end"),
    "a lane lost": ("project", INT8, "min(LANES, params.blocks); lane++", "LANES - 1u; lane++"),
    "batch rows mixed": ("project", ("int8-f32", 5), "min(tile * TILE + 1u", "min(tile * TILE + 0u"),
    "second tile is the first": ("project", ("int8-f32", 5), "let b = tile * TILE +", "let b ="),
    "bf16 halves swapped": (
        "fc2",
        BF16,
        "words.x << 16u, words.x & 0xffff0000u",
        "words.x & 0xffff0000u, words.x << 16u",
    ),
    "int8 without its sign": ("fc2", INT8, "bitcast<vec4i>(vec4u(word)", "(vec4u(word)"),
    "int8 scale of the row before": ("fc2", INT8, "scales[row]", "scales[max(row, 1u) - 1u]"),
    "fp4 sign lost": ("fc2", FP4, "(nibble & vec4u(8u))", "(nibble & vec4u(0u))"),
    "fp4 half lost": ("fc2", FP4, "vec4f(magnitude) * 0.5", "vec4f()"),
    "fp4 scale of the first block": ("fc2", FP4, "at / 4u], at % 4u)", "0u], 0u)"),
    "slots overlap": ("wo", INT8, "(at < vec4u(high))", "(at <= vec4u(high))"),
    "silu on up": ("fc1", INT8, "(g * sigmoid(g)) * u", "(u * sigmoid(u)) * g"),
    "exp loses a term": ("fc1", INT8, " + n * 2.12194440e-4", ""),
    "final residual missing": ("fc2", INT8, "sum + residual[at]", "sum + 0.0 * residual[at]"),
    "rotary forgets keys": ("attend", F32, "key = rotated(key_at, local, b)", "key = qkv[key_at + local]"),
    "attention scale missing": ("attend", F32, " * params.scale", ""),
    "page table ignored": ("attend", F32, "+ token / params.page_size]", "]"),
    "wrong KV head": ("attend", F32, "head / params.group", "head % params.kv_heads"),
    "reads beyond the tail": ("attend", F32, "let cached = index[b]", "let cached = index[b] + 1u"),
    "own token forgotten": ("attend", F32, "cached + params.own_token", "cached"),
    "sum not rescaled": ("attend", F32, "sum *= keep;", ""),
    "total not rescaled": ("attend", F32, "total *= keep;", ""),
    "gate without sigmoid": ("attend", F32, "sigmoid(gate.y)", "gate.y"),
    "e4m3 subnormals lost": ("attend", FP4, "vec4f(magnitude) * 0.001953125", "vec4f()"),
}


def trial_of(profile, batch):
    weight_type, kv_type = profile.split("-")
    lengths = [301, 9, 0, 4, 13][:batch]
    rng = np.random.default_rng(11)
    matrices, norms = random_weights(SHAPE, weight_type, rng)
    cache = random_cache(SHAPE, lengths, 4, kv_type, rng)
    # Keys that grow make the maximum rise from tile to tile.
    if kv_type == "f32":
        used = np.arange(301)
        cache.k[cache.table[0][used // 4], used % 4] *= (1 + used / 100)[:, None, None].astype(np.float32)
    x = rng.standard_normal((batch, SHAPE.hidden), np.float32) / 4
    cosine, sine = angles(lengths, SHAPE.head_dim)
    gate = rng.standard_normal((batch, SHAPE.q_size), np.float32)
    known = {"shape": SHAPE, "matrices": matrices, "norms": norms, "x": x, "cache": cache, "gate": gate}
    return replace(random_trial(0), **known, cosine=cosine, sine=sine, about=profile)


@pytest.mark.parametrize(("profile", "batch"), sorted({fault[1] for fault in FAULTS.values()}))
def test_green_without_a_fault(decode_device, profile, batch):
    trial = trial_of(profile, batch)
    assert distance_ulp(trial, run_on(decode_device, trial, SPLIT)) <= MAX_ULP / 2


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_caught(decode_device, monkeypatch, fault, tried):
    entry, which, sound, wrong = FAULTS[fault]
    hits = []

    def planted(make):
        def made(*choice):
            kernel = make(*choice)
            if kernel.entry != entry or sound not in kernel.source:
                return kernel
            hits.append(entry)
            return replace(kernel, source=kernel.source.replace(sound, wrong))

        return made

    for name in ("norm_kernel", "product_kernel", "attend_kernel"):
        monkeypatch.setattr(program, name, planted(getattr(program, name)))
    trial = trial_of(*which)
    found = distance_ulp(trial, run_on(decode_device, trial, SPLIT))
    assert hits, "the fault is in no kernel"
    assert not found <= MAX_ULP, "not caught"
    tried("planted faults")
