"""The corners of a paged cache: borders, junk in the tail, shared pages, empty sequences, scores of -infinity."""

from __future__ import annotations

import numpy as np
import pytest

from whet.decode import Layer, Shape
from whet.decode.cases import random_cache, random_weights
from whet.decode.exact import exact_step
from whet.decode.oracle import accuracy, reference
from whet.decode.stored import KV_TYPES

SHAPE = Shape(hidden=40, intermediate=56, q_heads=4, kv_heads=2, head_dim=16)
ALONE = Shape(hidden=40, intermediate=56, q_heads=4, kv_heads=2, head_dim=16, own_token=False)


def made(shape, seed=1):
    rng = np.random.default_rng(seed)
    matrices, norms = random_weights(shape, "f32", rng)
    return rng, matrices, norms, Layer(shape, {**matrices, **norms}, workers=2)


@pytest.mark.parametrize("kv_type", KV_TYPES)
@pytest.mark.parametrize("page_size", [1, 4, 16, 64])
def test_lengths_around_a_page_border(kv_type, page_size):
    for shape in (SHAPE, ALONE):
        rng, matrices, norms, layer = made(shape)
        lengths = [0, 1, max(0, page_size - 1), page_size, page_size + 1, 2 * page_size]
        cache = random_cache(shape, lengths, page_size, kv_type, rng, tail="nan")
        x = rng.standard_normal((len(lengths), 40), np.float32)
        got = layer.step(x, cache).out
        found = accuracy(got, reference(shape, matrices, norms, x, cache))
        assert found.finite and found.max_ulp < 16
        assert got.tobytes() == exact_step(shape, matrices, norms, x, cache).tobytes()


@pytest.mark.parametrize("kv_type", KV_TYPES)
def test_junk_behind_the_length_changes_nothing(kv_type):
    for tail in ("nan", "huge", "zero"):
        rng, _, _, layer = made(SHAPE)
        cache = random_cache(SHAPE, [5, 18, 33], 16, kv_type, rng, tail=tail)
        x = rng.standard_normal((3, 40), np.float32)
        before = layer.step(x, cache).out.copy()
        assert np.isfinite(before).all()
        for sequence, length in enumerate((5, 18, 33)):
            page = cache.table[sequence][length // 16]
            cache.k[page, length % 16 :] = 0x7F if kv_type == "e4m3" else np.array(0x7FC0, cache.k.dtype)
            cache.v[page, length % 16 :] = 0xFF if kv_type == "e4m3" else np.array(0x7F80, cache.v.dtype)
        assert layer.step(x, cache).out.tobytes() == before.tobytes()


def test_an_empty_sequence_attends_to_nothing():
    rng, matrices, norms, layer = made(ALONE)
    cache = random_cache(ALONE, [0, 3], 4, "f32", rng)
    x = rng.standard_normal((2, 40), np.float32)
    got = layer.step(x, cache).out
    want = reference(ALONE, matrices, norms, x, cache)
    assert accuracy(got, want).max_ulp < 16
    # Without a table at all: nothing is read.
    cache = random_cache(ALONE, [0], 4, "f32", rng)
    cache.table = cache.table[:, :0]
    assert layer.step(x[:1], cache).out.tobytes() == got[:1].tobytes()


def test_shared_pages_give_each_sequence_its_own_answer():
    rng, _, _, layer = made(SHAPE)
    cache = random_cache(SHAPE, [20, 20, 9], 8, "f32", rng, layout="shared")
    x = np.tile(rng.standard_normal((1, 40), np.float32), (3, 1))
    out = layer.step(x, cache).out
    assert out[0].tobytes() == out[1].tobytes()
    assert out[0].tobytes() != out[2].tobytes()


@pytest.mark.parametrize("place", [0, 7, 15, 16, 40])
def test_all_scores_minus_infinity_but_one(place):
    """Keys that overflow against the query: only one token is left, and its value is the answer."""
    rng, matrices, norms, layer = made(ALONE)
    cache = random_cache(ALONE, [41], 8, "f32", rng)
    x = rng.standard_normal((1, 40), np.float32)
    normed = x[0] / np.sqrt(np.mean(x[0] ** 2) + ALONE.eps) * norms["input_layernorm.weight"]
    q = (matrices["self_attn.q_proj.weight"].data.view(np.float32).reshape(64, -1)[:, :40] @ normed).reshape(4, 16)
    sign = np.sign(q[:2]).astype(np.float32)  # the two heads of KV head 0
    agree = sign[0] == sign[1]
    assert agree.sum() >= 2
    at = np.arange(41)
    pages, places = cache.table[0][at // 8], at % 8
    for token in at:
        if token != place:
            cache.k[pages[token], places[token], 0] = np.where(agree, -3e38 * sign[0] * 1.1, 0).astype(np.float32)
    smallest = float(np.abs(q[:2, agree]).sum(axis=1).min())
    assert smallest * 3.3e38 > float(np.finfo(np.float32).max)  # the other scores do overflow
    got = layer.step(x, cache).out
    assert np.isfinite(got).all()
    assert got.tobytes() == exact_step(ALONE, matrices, norms, x, cache).tobytes()
    before = got.copy()
    cache.v[pages[place], places[place], 0] += 1
    assert layer.step(x, cache).out.tobytes() != before.tobytes()
    other = at[at != place]
    cache.v[pages[place], places[place], 0] -= 1
    cache.v[pages[other], places[other], 0] *= 5
    changed = layer.step(x, cache).out
    cache.v[pages[other], places[other], 0] /= 5
    assert np.abs(changed - before).max() < 1e-4


def test_a_step_leaves_the_cache_alone_and_append_extends_it():
    rng, _, _, layer = made(SHAPE)
    cache = random_cache(SHAPE, [3, 4], 4, "bf16", rng)
    cache.table = np.array([[1, 2], [0, 3]], np.int32)
    cache.k = np.zeros((4, 4, 2, 16), np.uint16)
    cache.v = np.zeros((4, 4, 2, 16), np.uint16)
    kept = cache.k.copy(), cache.v.copy(), cache.table.copy(), cache.lengths.copy()
    result = layer.step(rng.standard_normal((2, 40), np.float32), cache)
    assert all((a == b).all() for a, b in zip(kept, (cache.k, cache.v, cache.table, cache.lengths), strict=True))
    cache.append(result.k, result.v)
    assert cache.lengths.tolist() == [4, 5]
    assert cache.k[1, 3].any() and cache.k[3, 0].any()
    assert not cache.k[0].any() and not cache.k[2].any()
