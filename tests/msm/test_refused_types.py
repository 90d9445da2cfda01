"""What is neither points nor scalars is refused on every way in: with a budget, as plain limbs, by the native class."""

from __future__ import annotations

import array
import os
from pathlib import Path

import numpy as np
import pytest
from whet._native import msm as native

from whet.errors import BadInput
from whet.msm import Engine, Srs, inputs, msm
from whet.msm.points import write_points

BUDGETS = [None, 10**9, 1_500_000]
ONE = np.array([[1, 0, 0, 0, 2, 0, 0, 0]], np.uint64)


@pytest.mark.parametrize("budget", BUDGETS)
def test_points_that_are_none(budget, tried):
    wrong = [
        None, 5, 1.5, "text", {}, {(1, 2)}, object(), iter([(1, 2)]), (point for point in [(1, 2)]), map(int, "12"),
        memoryview(np.zeros(8, np.uint64)), array.array("d", [1.0] * 8), np.zeros((1, 8)), np.zeros((1, 8), np.int64),
        np.zeros((1, 64), np.int8), np.zeros((), np.uint8), np.zeros((1, 1, 64), np.uint8), [(1, 2), None, 7], [1, 2],
        np.array([None, (1, 2)], object), np.zeros((2, 63), np.uint8), bytes(63), [(1.0, 2.0)], ["12"], [b"12"],
    ]  # fmt: skip
    for points in wrong:
        with pytest.raises(BadInput) as caught:
            Engine(points, memory_budget=budget)
        assert caught.value.cause and caught.value.cure, points
    tried("malformed inputs", len(wrong))


@pytest.mark.parametrize("budget", BUDGETS)
def test_points_in_strides(budget):
    rows = np.zeros((40, 64), np.uint8)
    rows[::2, 0], rows[::2, 32] = 1, 2
    expected = msm([(1, 2)], [20])
    packed = rows[::2].tobytes()
    views = [
        rows[::2], memoryview(rows)[::2], memoryview(rows[::2]), memoryview(packed), memoryview(packed).cast("b"),
        memoryview(packed).cast("c"), memoryview(b"".join(bytes((byte, 0)) for byte in packed))[::2], bytearray(packed),
        np.asfortranarray(rows[::2]), rows[38::-2], array.array("b", packed), np.frombuffer(packed, np.uint8),
    ]  # fmt: skip
    for points in views:
        assert Engine(points, memory_budget=budget)([1] * 20) == expected


@pytest.mark.parametrize("budget", BUDGETS)
def test_plain_limbs_must_be_limbs(budget, tried):
    engine = Engine(np.tile(ONE, (3, 1)), memory_budget=budget)
    good = inputs.to_limbs([1, 2, 3])
    wrong = [
        good.tolist(), [1, 2, 3], None, good.tobytes(), good[:, :3], good.reshape(-1), good.reshape(1, 3, 4),
        good.reshape(4, 3), np.uint64(1),
    ]  # fmt: skip
    wrong += [good.astype(dtype) for dtype in (float, np.float32, np.int64, np.uint32, bool, complex, object, ">u8")]
    for limbs in wrong:
        for call in (engine.compute, engine.answer, lambda limbs: engine.compute_batch([limbs])):
            with pytest.raises(BadInput) as caught:
                call(limbs)
            assert caught.value.cure, limbs
    expected = msm([(1, 2)], [6])
    wide = np.zeros((3, 8), np.uint64)
    wide[:, :4] = good
    for limbs in (good, wide[:, :4], np.asfortranarray(good), np.require(good, requirements="W")[::-1]):
        assert engine.compute(limbs) == expected == engine.compute_batch([limbs])[0]
    tried("malformed inputs", 3 * len(wrong))


@pytest.mark.parametrize("budget", BUDGETS)
def test_misaligned_limbs_are_copied(budget):
    raw = np.zeros(3 * 32 + 1, np.uint8)
    raw[1:] = inputs.to_limbs([1, 2, 3]).view(np.uint8).reshape(-1)
    shifted = raw[1:].view(np.uint64).reshape(3, 4)
    assert not shifted.flags.aligned
    assert Engine(np.tile(ONE, (3, 1)), memory_budget=budget).compute(shifted) == msm([(1, 2)], [6])


def test_the_native_class_converts_nothing():
    engine = native.AffineEngine("auto", 1)
    for points in (ONE.astype(float), ONE.astype(np.int64), ONE[:, ::-1], ONE.tolist()):
        with pytest.raises(TypeError):
            engine.prepare(points, False)
    engine.prepare(ONE, False)
    for scalars in (np.ones((1, 4)), np.ones((1, 4), np.int64), np.ones((1, 8), np.uint64)[:, ::2], [[1, 0, 0, 0]]):
        with pytest.raises(TypeError):
            engine.run(scalars, 0, 0)


def test_files_whose_names_are_not_text(tmp_path):
    raw = os.fsencode(tmp_path) + b"/points-\xff"
    path = Path(os.fsdecode(raw))
    write_points(path, [(1, 2)])
    for given in (path, raw, os.fsdecode(raw)):
        with Srs.open(given, "raw-le") as srs:
            assert srs.commit([3]) == msm([(1, 2)], [3])
    with pytest.raises(BadInput, match="not a whole number"):
        write_points(raw, [(1, 2)])
        os.truncate(raw, 63)
        Srs.open(raw, "raw-le")
    for nonsense in (5, None, 1.5, ["x"]):
        with pytest.raises(BadInput, match="path") as caught:
            Srs.open(nonsense, "raw-le")
        assert caught.value.cure
        with pytest.raises(BadInput):
            write_points(nonsense, [(1, 2)])
