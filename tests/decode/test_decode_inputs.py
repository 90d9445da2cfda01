"""Mistakes get a typed error that says what is wrong; stored types agree with another implementation of them."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file
from whet._native import decode as native

from whet.decode import Layer, PagedCache, Schedule, Shape, store
from whet.decode.cases import random_cache, random_weights
from whet.decode.oracle import E4M3_TABLE, decoded
from whet.decode.stored import to_bf16, to_e4m3
from whet.errors import BadInput

SHAPE = Shape(hidden=40, intermediate=56, q_heads=4, kv_heads=2, head_dim=16)


@pytest.fixture
def ready():
    rng = np.random.default_rng(1)
    matrices, norms = random_weights(SHAPE, "f32", rng)
    layer = Layer(SHAPE, {**matrices, **norms}, workers=2)
    return layer, rng.standard_normal((2, 40), np.float32), random_cache(SHAPE, [9, 3], 4, "f32", rng)


def _set(name, value):
    return lambda cache: setattr(cache, name, value(cache))


def _entry(row, column, page):
    def change(cache):
        cache.table[row, column] = page

    return change


BAD_CACHES = {
    "page 6 at entry 1": _entry(0, 1, 6),
    "page -1 at entry 2": _entry(0, 2, -1),
    "page 2147483647": _entry(1, 0, 2**31 - 1),
    "negative length": _set("lengths", lambda c: np.array([9, -1], np.int32)),
    "longer than its row": _set("lengths", lambda c: np.array([13, 3], np.int32)),
    "dtype float64": _set("k", lambda c: c.k.astype(np.float64)),
    "cache.v has dtype": _set("v", lambda c: c.v.astype(np.float16)),
    "cache.k has the shape": _set("k", lambda c: c.k[..., :8]),
    "not contiguous": _set("k", lambda c: c.k[:, ::-1]),
    "make them alike": _set("v", lambda c: c.v[:-1]),
    "int64": _set("lengths", lambda c: c.lengths.astype(np.int64)),
    "table is float32": _set("table", lambda c: c.table.astype(np.float32)),
    "row for each of 2": _set("table", lambda c: c.table[:1]),
    "KV type 'f16'": _set("kv_type", lambda c: "f16"),
    "kept as uint8": _set("kv_type", lambda c: "e4m3"),
}


@pytest.mark.parametrize("said", BAD_CACHES)
def test_bad_caches(ready, said, tried):
    layer, x, cache = ready
    BAD_CACHES[said](cache)
    with pytest.raises(BadInput, match=said.replace("(", r"\(")):
        layer.step(x, cache)
    tried("malformed inputs", 1)


def test_bad_arguments_of_a_step(ready, tried):
    layer, x, cache = ready
    half = np.zeros((2, 8), np.float32)
    bad = [
        (dict(x=x.astype(np.float64)), "x is not a float32"),
        (dict(x=x[:1]), "x has the shape"),
        (dict(x=x.tolist()), "x is not a float32"),
        (dict(x=np.asfortranarray(x)), "x is not contiguous"),
        (dict(cosine=half), "cosine and sine"),
        (dict(cosine=half, sine=half[:, :3]), "sine has the shape"),
        (dict(gate=half), "gate has the shape"),
        (dict(out=half), "out has the shape"),
        (dict(schedule=Schedule(wo_split=65)), "wo_split must be 1 to 64"),
    ]
    for change, said in bad:
        with pytest.raises(BadInput, match=said):
            layer.step(**{"x": x, "cache": cache, **change})
    tried("malformed inputs", len(bad))


def test_bad_schedules_and_shapes(tried):
    bad = [
        lambda: Schedule(wo_split=0),
        lambda: Schedule(wo_split="0..7"),
        lambda: Schedule(wo_split=True),
        lambda: Schedule(fc1="both"),
        lambda: Schedule(barrier="yield"),
        lambda: Schedule(launch="all"),
        lambda: Shape(hidden=0, intermediate=1, q_heads=1, kv_heads=1, head_dim=16),
        lambda: Shape(hidden=8, intermediate=8, q_heads=3, kv_heads=2, head_dim=16),
        lambda: Shape(hidden=8, intermediate=8, q_heads=2, kv_heads=2, head_dim=20),
        lambda: Shape(hidden=8, intermediate=8, q_heads=2, kv_heads=2, head_dim=16, eps=-1),
        lambda: store("fp8", np.ones((2, 2))),
        lambda: store("f32", np.ones(3)),
        lambda: store("bf16", np.array([[1.0, np.nan]])),
        lambda: store("int8", np.array([[1.0, np.inf]])),
        lambda: PagedCache.empty(SHAPE, batch=9, max_length=4),
        lambda: PagedCache.empty(SHAPE, batch=1, max_length=4, page_size=0),
        lambda: PagedCache.empty(SHAPE, batch=1, max_length=4, kv_type="f16"),
        lambda: Layer(SHAPE, {}),
    ]
    for make in bad:
        with pytest.raises(BadInput):
            make()
    tried("malformed inputs", len(bad))


@pytest.mark.parametrize("device", ["cpu", "webgpu"])
@pytest.mark.parametrize("code", [0x7F, 0xFF])
def test_a_scale_that_is_nan_is_refused_alike(device, code, tried):
    """OCP's e4m3 has two NaN. A layer refuses weights with such a scale; 0x7e, the largest, is fine."""
    matrices, norms = random_weights(SHAPE, "fp4", np.random.default_rng(1))
    name = "mlp.up_proj.weight"
    scales = matrices[name].scales.copy()
    scales[7] = 0x7E
    Layer(SHAPE, {**matrices, name: replace(matrices[name], scales=scales), **norms})
    scales[7] = code
    with pytest.raises(BadInput, match=f"scale 7 of {name} is NaN"):
        Layer(SHAPE, {**matrices, name: replace(matrices[name], scales=scales), **norms}, device=device)
    tried("malformed inputs")


def test_spinning_needs_a_core_per_worker(ready):
    _, x, cache = ready
    rng = np.random.default_rng(1)
    matrices, norms = random_weights(SHAPE, "f32", rng)
    crowded = Layer(SHAPE, {**matrices, **norms}, workers=native.hardware_workers() + 1)
    with pytest.raises(BadInput, match="core for each"):
        crowded.step(x, cache, schedule=Schedule(barrier="spin"))
    alone = Layer(SHAPE, {**matrices, **norms}, workers=1)
    want = crowded.step(x, cache).out
    assert alone.step(x, cache, schedule=Schedule(barrier="spin")).out.tobytes() == want.tobytes()


def test_append_refuses_what_does_not_fit():
    cache = PagedCache.empty(SHAPE, batch=1, max_length=4, page_size=2)
    token = np.ones((1, 2, 16), np.float32)
    for _ in range(4):
        cache.append(token, token)
    with pytest.raises(BadInput, match="no page left"):
        cache.append(token, token)


def test_stored_types_agree_with_ml_dtypes():
    rng = np.random.default_rng(2)
    words = rng.integers(0, 2**32, 200_000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    common = rng.standard_normal(200_000) * 10.0 ** rng.integers(-5, 4, 200_000)
    near = np.concatenate([words, common.astype(np.float32)])
    finite = near[np.isfinite(near)]
    with np.errstate(over="ignore"):
        assert (to_bf16(finite) == finite.astype(ml_dtypes.bfloat16).view(np.uint16)).all()
    clipped = np.clip(finite, -448, 448)
    assert (to_e4m3(clipped) == clipped.astype(ml_dtypes.float8_e4m3fn).view(np.uint8)).all()
    theirs = np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn).astype(np.float32)
    assert np.array_equal(E4M3_TABLE, theirs, equal_nan=True)


def values(stored):
    """What a stored matrix stands for."""
    parts = decoded(stored)
    return parts.values.astype(np.float64) * parts.row_scale.astype(np.float64)[:, None]


@pytest.mark.parametrize(("kind", "bound"), [("f32", 0), ("bf16", 2**-8), ("int8", 1 / 200), ("fp4", 0.2)])
def test_storing_rounds_no_more_than_its_type(kind, bound):
    dense = np.random.default_rng(3).standard_normal((20, 37)).astype(np.float32)
    back = values(store(kind, dense))
    assert back.shape == (20, 48) and not back[:, 37:].any()
    row = np.abs(dense).max(axis=1, keepdims=True)
    assert (np.abs(back[:, :37] - dense) <= bound * row).all()
    if kind == "fp4":
        exact = np.tile(np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.5, -1, -1.5, -2, -3, -4, -6, 6], np.float32), (2, 2))
        assert np.allclose(values(store(kind, exact)), exact, rtol=1e-6, atol=0)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_weights_load_from_safetensors(tmp_path, dtype):
    rng = np.random.default_rng(4)
    tensors = {name: rng.standard_normal(size, np.float32).astype(dtype) for name, size in SHAPE.matrices().items()}
    tensors |= {n: np.ones(40, dtype) for n in ("input_layernorm.weight", "post_attention_layernorm.weight")}
    path = tmp_path / "model.safetensors"
    save_file({f"model.layers.3.{name}": tensor for name, tensor in tensors.items()}, path)
    loaded = Layer.from_safetensors(path, 3, SHAPE, workers=1)
    direct = Layer(SHAPE, {name: tensor.astype(np.float32) for name, tensor in tensors.items()}, workers=1)
    x, cache = rng.standard_normal((1, 40), np.float32), PagedCache.empty(SHAPE, batch=1, max_length=4)
    assert loaded.step(x, cache).out.tobytes() == direct.step(x, cache).out.tobytes()
    with pytest.raises(BadInput, match="layers in it: 3 to 3"):
        Layer.from_safetensors(path, 4, SHAPE)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(BadInput, match="cannot be read"):
        Layer.from_safetensors(path, 3, SHAPE)
    with pytest.raises(BadInput, match="cannot be read"):
        Layer.from_safetensors(tmp_path / "absent", 3, SHAPE)
