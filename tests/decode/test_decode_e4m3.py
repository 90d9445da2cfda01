"""All 256 codes of e4m3 through whole steps: as entries of the cache and as scales of weights, against ml_dtypes.

The layer is built so that one code comes out alone: a cache of one token makes attention hand on its values, W_O picks
them, and all else is zero. NaN has steps of its own, because zero times NaN is NaN in every row.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from whet._native import decode as native

from whet.decode import Layer, PagedCache, Shape
from whet.decode.layer import ISAS
from whet.decode.shapes import NORM_ATTENTION, NORM_MLP
from whet.decode.stored import StoredMatrix, store

CODES = np.arange(256, dtype=np.uint8)
VALUES = CODES.view(ml_dtypes.float8_e4m3fn).astype(np.float32)
NAN = np.flatnonzero(np.isnan(VALUES))
ONE = 0x38
SHAPE = Shape(hidden=256, intermediate=16, q_heads=16, kv_heads=16, head_dim=16, own_token=False)
WHERE = [
    *(pytest.param({"isa": isa}, id=isa) for isa in ISAS if native.isa_usable(ISAS.index(isa))),
    pytest.param({"device": "webgpu"}, id="webgpu", marks=[pytest.mark.gpu, pytest.mark.xdist_group("gpu")]),
]


def stepped(where, wo, entries):
    """`out` for x = 0: W_O times the values of the only token."""
    weights = {name: np.zeros(size, np.float32) for name, size in SHAPE.matrices().items()}
    weights |= {name: np.ones(256, np.float32) for name in (NORM_ATTENTION, NORM_MLP)}
    cache = PagedCache.empty(SHAPE, batch=1, max_length=1, kv_type="e4m3")
    cache.v[0, 0] = entries.reshape(16, 16)
    cache.lengths[:] = 1
    layer = Layer(SHAPE, {**weights, "self_attn.o_proj.weight": wo}, **where)
    try:
        return layer.step(np.zeros((1, 256), np.float32), cache).out[0]
    finally:
        layer.close()


def scaled_by(codes):
    """W_O whose row i is 1 in the first column, times the e4m3 value of codes[i]."""
    made = store("fp4", np.zeros((256, 256), np.float32))
    data = made.data.reshape(256, -1).copy()
    data[:, 0] = 2  # the code of 1 in e2m1
    return StoredMatrix("fp4", 256, 256, data.reshape(-1), np.repeat(codes, 16), 1.0)


def test_two_codes_are_nan():
    assert NAN.tolist() == [0x7F, 0xFF] and VALUES[0x7E] == 448


@pytest.mark.parametrize("where", WHERE)
def test_an_entry_of_the_cache_is_its_code(where, tried):
    finite = np.where(np.isnan(VALUES), 0, CODES).astype(np.uint8)
    identity = np.eye(256, dtype=np.float32)
    assert np.array_equal(stepped(where, identity, finite), np.nan_to_num(VALUES))
    for code in NAN if "isa" in where else ():  # a shader may assume NaN away
        assert np.isnan(stepped(where, identity, np.where(CODES == 5, code, finite).astype(np.uint8))).all()
    tried("differential operations", 256)


@pytest.mark.parametrize("where", WHERE)
def test_a_scale_of_weights_is_its_code(where, tried, monkeypatch):
    monkeypatch.setattr("whet.decode.layer.E4M3_NAN", np.int16(0x100))  # no byte has it: refusing is another test
    finite = np.where(np.isnan(VALUES), 0, CODES).astype(np.uint8)
    ones = np.full(256, ONE, np.uint8)
    assert np.array_equal(stepped(where, scaled_by(finite), ones), np.nan_to_num(VALUES))
    for code in NAN if "isa" in where else ():
        assert np.isnan(stepped(where, scaled_by(np.where(CODES == 5, code, finite).astype(np.uint8)), ones)).all()
    tried("differential operations", 256)
