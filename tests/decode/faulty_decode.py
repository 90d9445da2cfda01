"""The decode layer of a build with planted faults, by ctypes; the structures are those of native/decode/layer.hpp."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

import numpy as np

from whet.decode.shapes import MATRIX_ORDER, NORM_ATTENTION, NORM_MLP
from whet.decode.stored import KV_TYPES, WEIGHT_TYPES

LIBRARY = Path(__file__).parents[2] / "build" / "tests-gcc" / "tests" / "libwhet_faulty_decode.so"
Size, Pointer = ctypes.c_size_t, ctypes.c_void_p


class Matrix(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_int),
        ("rows", Size),
        ("cols", Size),
        ("data", Pointer),
        ("scales", Pointer),
        ("global_scale", ctypes.c_float),
    )


class Shape(ctypes.Structure):
    _fields_ = (
        *((name, Size) for name in ("hidden", "intermediate", "q_heads", "kv_heads", "head_dim")),
        ("eps", ctypes.c_float),
        ("own_token", ctypes.c_bool),
        ("quantise", ctypes.c_bool),
    )


class Weights(ctypes.Structure):
    _fields_ = (("matrices", Matrix * 7), ("norm_attention", Pointer), ("norm_mlp", Pointer))


class Step(ctypes.Structure):
    _fields_ = (
        *((name, Size) for name in ("batch", "page_size", "pages", "table_width")),
        ("kv", ctypes.c_int),
        *((name, Pointer) for name in ("x", "k", "v", "table", "lengths", "cosine", "sine", "gate")),
        *((name, Pointer) for name in ("out", "k_out", "v_out")),
    )


class Variant(ctypes.Structure):
    _fields_ = (("wo_split", Size), *((name, ctypes.c_bool) for name in ("fc1_shared", "spin", "fused", "claimed")))


@cache
def library():
    loaded = ctypes.CDLL(str(LIBRARY))
    loaded.whet_decode_plant_name.argtypes = [Size]
    loaded.whet_decode_plant_name.restype = ctypes.c_char_p
    loaded.whet_decode_plant.argtypes = [ctypes.c_int]
    loaded.whet_decode_step.restype = ctypes.c_bool
    return loaded


def plant_names():
    """Every planted fault by number; the first is "none"."""
    names, native = [], library()
    while (name := native.whet_decode_plant_name(len(names))) is not None:
        names.append(name.decode())
    return names


def _at(array):
    return None if array is None else array.ctypes.data


def run(trial, number, *, wo_split, workers=2):
    """`out` and the arrivals of the second launch, with one fault active."""
    native = library()
    shape = Shape(**trial.shape.as_dict())
    weights = Weights(norm_attention=_at(trial.norms[NORM_ATTENTION]), norm_mlp=_at(trial.norms[NORM_MLP]))
    for place, name in enumerate(MATRIX_ORDER):
        if (m := trial.matrices.get(name)) is not None:
            kind = WEIGHT_TYPES.index(m.kind)
            weights.matrices[place] = Matrix(kind, m.rows, m.cols, _at(m.data), _at(m.scales), m.global_scale)
    cache_ = trial.cache
    own = np.empty((2, cache_.batch, trial.shape.kv_size), np.float32)
    out = np.empty_like(trial.x)
    step = Step(
        cache_.batch,
        cache_.k.shape[1],
        len(cache_.k),
        cache_.table.shape[1],
        KV_TYPES.index(cache_.kv_type),
        *map(_at, (trial.x, cache_.k, cache_.v, cache_.table, cache_.lengths, trial.cosine, trial.sine, trial.gate)),
        *map(_at, (out, own[0], own[1])),
    )
    arrivals = (ctypes.c_uint32 * 5)()
    variant = Variant(wo_split, True, False, True, True)
    native.whet_decode_plant(number)
    try:
        given = map(ctypes.byref, (shape, weights, step, variant))
        assert native.whet_decode_step(*given, ctypes.c_uint(workers), arrivals)
    finally:
        native.whet_decode_plant(0)
    return out, list(arrivals)
