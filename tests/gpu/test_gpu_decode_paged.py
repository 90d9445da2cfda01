"""The corners of a paged cache on a GPU: borders of pages and of tiles, junk, sharing, nothing at all, -infinity."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from gpu_decode import close_to, distance_ulp, run_on

from whet.decode import Layer, Schedule, Shape
from whet.decode.cases import angles, random_cache, random_trial, random_weights
from whet.decode.oracle import MAX_ULP
from whet.decode.stored import KV_TYPES
from whet.errors import BadInput, Unsupported

pytestmark = [pytest.mark.gpu, pytest.mark.xdist_group("gpu")]

SHAPE = Shape(hidden=40, intermediate=56, q_heads=4, kv_heads=2, head_dim=16)
ALONE = replace(SHAPE, own_token=False)


def made(shape, lengths, page_size, kv_type="f32", seed=1, **layout):
    rng = np.random.default_rng(seed)
    matrices, norms = random_weights(shape, "f32", rng)
    cache = random_cache(shape, lengths, page_size, kv_type, rng, **layout)
    x = rng.standard_normal((len(lengths), shape.hidden), np.float32)
    common = replace(random_trial(0), cosine=None, sine=None, gate=None, about=f"{shape} {lengths} {page_size}")
    return replace(common, shape=shape, matrices=matrices, norms=norms, x=x, cache=cache)


@pytest.mark.parametrize("kv_type", KV_TYPES)
@pytest.mark.parametrize("page_size", [1, 4, 16, 64])
def test_lengths_around_a_page_border(decode_device, kv_type, page_size, tried):
    lengths = [0, 1, max(0, page_size - 1), page_size, page_size + 1, 2 * page_size]
    for shape in (SHAPE, ALONE):
        trial = made(shape, lengths, page_size, kv_type)
        assert distance_ulp(trial, run_on(decode_device, trial)) <= 16
    tried("adversarial cases", 2 * len(lengths))


@pytest.mark.parametrize("shape", [SHAPE, ALONE], ids=["own token", "cache alone"])
def test_lengths_around_a_tile_of_256_tokens(decode_device, shape, tried):
    """The own token may stand at the end of a tile, or alone in the next."""
    for lengths in ([254, 255, 256, 257], [511, 512, 513, 0, 1030]):
        trial = made(shape, lengths, 64)
        assert distance_ulp(trial, run_on(decode_device, trial)) <= 16, lengths
    tried("adversarial cases", 9)


@pytest.mark.parametrize(
    ("head_dim", "q_heads", "kv_heads"), [(64, 2, 1), (80, 3, 3), (112, 71, 1), (256, 6, 2), (1024, 2, 1)]
)
def test_heads_of_every_size(decode_device, head_dim, q_heads, kv_heads):
    """112 leaves invocations without work in the second half of a tile; 1,024 leaves one slice of tokens."""
    shape = Shape(hidden=24, intermediate=32, q_heads=q_heads, kv_heads=kv_heads, head_dim=head_dim)
    trial = made(shape, [300, 7], 16, "bf16")
    cosine, sine = angles([300, 7], head_dim)
    gate = np.random.default_rng(2).standard_normal((2, shape.q_size), np.float32)
    trial = replace(trial, cosine=cosine, sine=sine, gate=gate)
    assert distance_ulp(trial, run_on(decode_device, trial, Schedule(wo_split=5))) <= 32


@pytest.mark.parametrize("kv_type", KV_TYPES)
def test_junk_behind_the_length_changes_nothing(decode_device, kv_type):
    for tail in ("nan", "huge", "zero"):
        trial = made(SHAPE, [5, 18, 33], 16, kv_type, tail=tail)
        before = run_on(decode_device, trial).out
        assert np.isfinite(before).all()
        for sequence, length in enumerate((5, 18, 33)):
            page = trial.cache.table[sequence][length // 16]
            junk = 0x7F if kv_type == "e4m3" else np.array(0x7FC0, trial.cache.k.dtype)
            trial.cache.k[page, length % 16 :] = trial.cache.v[page, length % 16 :] = junk
        assert run_on(decode_device, trial).out.tobytes() == before.tobytes()


def test_an_empty_sequence_attends_to_nothing(decode_device):
    trial = made(ALONE, [0, 3], 4)
    got = run_on(decode_device, trial)
    assert distance_ulp(trial, got) <= 16
    # Without a table or a page at all: nothing is read.
    alone = replace(trial, x=trial.x[:1], cache=made(ALONE, [0], 4).cache)
    alone.cache.table = alone.cache.table[:, :0]
    alone.cache.k, alone.cache.v = alone.cache.k[:0], alone.cache.v[:0]
    assert close_to(run_on(decode_device, alone).out, got.out[:1], 4)


def test_shared_pages_give_each_sequence_its_own_answer(decode_device):
    trial = made(SHAPE, [20, 20, 9], 8, layout="shared")
    out = run_on(decode_device, replace(trial, x=np.tile(trial.x[:1], (3, 1)))).out
    assert out[0].tobytes() == out[1].tobytes() != out[2].tobytes()


@pytest.mark.parametrize("place", [0, 7, 40, 255, 256, 299])
def test_all_scores_minus_infinity_but_one(decode_device, place, tried):
    """Keys that overflow against the query: only one token is left, wherever it stands in its tile."""
    tokens = 300
    trial = made(ALONE, [tokens], 8)
    normed = trial.x[0] / np.sqrt(np.mean(trial.x[0] ** 2) + ALONE.eps) * trial.norms["input_layernorm.weight"]
    weights = trial.matrices["self_attn.q_proj.weight"].data.view(np.float32).reshape(64, -1)
    q = (weights[:, :40] @ normed).reshape(4, 16)
    sign = np.sign(q[:2]).astype(np.float32)  # the two heads of KV head 0
    agree = sign[0] == sign[1]
    at = np.arange(tokens)
    pages, places = trial.cache.table[0][at // 8], at % 8
    others = at != place
    trial.cache.k[pages[others], places[others], 0] = np.where(agree, -3.3e38 * sign[0], 0).astype(np.float32)
    assert float(np.abs(q[:2, agree]).sum(axis=1).min()) * 3.3e38 > float(np.finfo(np.float32).max)
    got = run_on(decode_device, trial).out
    assert close_to(got, trial.run(trial.layer(workers=1)).out, 16)
    trial.cache.v[pages[place], places[place], 0] += 1
    assert not close_to(run_on(decode_device, trial).out, got)
    tried("adversarial cases")


def test_scores_far_apart_over_many_tiles(decode_device):
    """Maxima that rise from tile to tile: what was summed before must shrink, in the sum and in the total."""
    trial = made(ALONE, [1000], 16)
    order = np.arange(1000)
    pages, places = trial.cache.table[0][order // 16], order % 16
    trial.cache.k[pages, places] *= (1 + order / 10)[:, None, None].astype(np.float32)
    assert distance_ulp(trial, run_on(decode_device, trial)) <= MAX_ULP


def _entry(row, column, page):
    return lambda cache: cache.table.__setitem__((row, column), page)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_entry(0, 1, 6), "page 6 at entry 1"),
        (_entry(0, 2, -1), "page -1 at entry 2"),
        (_entry(1, 0, 2**31 - 1), "page 2147483647"),
        (lambda cache: setattr(cache, "lengths", np.array([9, -1], np.int32)), "negative length"),
        (lambda cache: setattr(cache, "lengths", np.array([13, 3], np.int32)), "longer than its row"),
        (lambda cache: setattr(cache, "k", cache.k.astype(np.float64)), "dtype float64"),
    ],
)
def test_a_bad_cache_is_refused_in_the_words_of_the_cpu(decode_device, change, said, tried):
    trial = made(SHAPE, [9, 3], 4)
    change(trial.cache)
    causes = []
    for device in ("cpu", decode_device):
        with pytest.raises(BadInput, match=said) as caught:
            run_on(device, trial)
        causes.append(caught.value.cause)
    assert causes[0] == causes[1]
    tried("malformed inputs")


def test_what_a_device_cannot_do_is_refused(decode_device, tried):
    trial = made(SHAPE, [9, 3], 4)
    for schedule, said in ((Schedule(wo_split=65), "wo_split must be 1 to 64"), (Schedule(barrier="spin"), "spin at")):
        with pytest.raises(BadInput, match=said):
            run_on(decode_device, trial, schedule)
    with pytest.raises(BadInput, match="no device 'cuda'"):
        trial.layer(device="cuda")
    with pytest.raises(Unsupported, match="no adapter matches"):
        trial.layer(device="webgpu:no-such-adapter")
    wide = made(replace(SHAPE, head_dim=1040), [1], 4)
    with pytest.raises(Unsupported, match="1,040 dimensions of a head"):
        run_on(decode_device, wide)
    weights = {**trial.matrices, **trial.norms}
    layer = Layer(SHAPE, weights, device=decode_device)
    with pytest.raises(Unsupported, match="sheet"):
        layer.save_regions("nowhere.npy")
    assert layer.arrivals() == []
    layer.close()
    assert not decode_device.ledger.live
    tried("malformed inputs", 6)
