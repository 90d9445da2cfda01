"""Steps of the decode layer on a real adapter: float64, repeats to the bit, poisoned scratch, tokens of a model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from gpu_decode import close_to, distance_ulp, run_on

from whet.cli.app import invoke
from whet.decode import SHAPES, PagedCache, Schedule, Shape, store
from whet.decode.cases import angles, random_cache, random_trial, random_weights
from whet.decode.exact import to_fp4
from whet.decode.model import Model
from whet.decode.oracle import MAX_ULP
from whet.decode.webgpu.layer import WebGpuLayer
from whet.errors import DeviceError, DeviceLost
from whet.gpu import open_device
from whet.gpu.faults import FAULTS

pytestmark = [pytest.mark.gpu, pytest.mark.xdist_group("gpu")]
STEPS = 300


def schedule_of(seed):
    rng = np.random.default_rng([seed, 1])
    return Schedule(wo_split=int(rng.integers(1, 8)), fc1=("shared", "recomputed")[int(rng.integers(2))])


def test_random_steps_agree_with_float64_and_with_the_cpu(decode_device, tried):
    """Unwritten bytes are poison here, so a pass that reads what no pass wrote is far off."""
    compared = 0
    for seed in range(STEPS):
        trial = random_trial(seed)
        result = run_on(decode_device, trial, schedule_of(seed))
        assert distance_ulp(trial, result) <= MAX_ULP, trial.about
        on_cpu = trial.run(trial.layer(workers=1))
        assert close_to(result.k, on_cpu.k) and close_to(result.v, on_cpu.v), trial.about
        compared += trial.shape.hidden >= 8
    assert compared >= 250 and not decode_device.ledger.live
    tried("decode steps on a GPU against float64", compared)


@pytest.mark.parametrize("number", [0, 5, 9])
def test_the_gate_checks_hard_cases_on_a_gpu(number):
    assert invoke(["check", "decode", "webgpu", "--seed", "7", "--hard-case", str(number)]) == 0


def test_repeats_are_equal_to_the_bit_whatever_the_memory_held(decode_device, tried):
    with open_device() as fresh:  # zeroes where the other has poison
        for seed in range(40, 52):
            trial, schedule = random_trial(seed), schedule_of(seed)
            layer = trial.layer(device=decode_device)
            answers = [trial.run(layer, schedule, timed=timed) for timed in (False, True, False)]
            layer.close()
            answers.append(run_on(fresh, trial, schedule))
            for part in ("out", "k", "v"):
                assert len({getattr(answer, part).tobytes() for answer in answers}) == 1, trial.about
    tried("decode repeats on a GPU equal to the bit", 48)


def test_a_layer_computes_steps_of_changing_sizes(decode_device):
    """Buffers of another geometry take the place of those before; weights stay."""
    shape = Shape(hidden=37, intermediate=50, q_heads=4, kv_heads=2, head_dim=16)
    rng = np.random.default_rng(8)
    matrices, norms = random_weights(shape, "int8", rng)
    layer = WebGpuLayer(shape, matrices, norms, decode_device)
    for batch in (8, 1, 3, 2, 8, 5):
        lengths = [int(n) for n in rng.integers(0, 30, batch)]
        trial = replace(
            random_trial(0),
            shape=shape,
            matrices=matrices,
            norms=norms,
            x=rng.standard_normal((batch, 37), np.float32),
            cache=random_cache(shape, lengths, 4, "e4m3", rng),
            gate=None,
            **dict(zip(("cosine", "sine"), angles(lengths, 16), strict=True)),
        )
        out, k, v = layer.step(trial.x, trial.cache, (trial.cosine, trial.sine), schedule=Schedule(wo_split=3))
        on_cpu = trial.run(trial.layer(workers=1), Schedule(wo_split=3))
        assert close_to(out.reshape(on_cpu.out.shape), on_cpu.out, 16)
        assert close_to(k.reshape(on_cpu.k.shape), on_cpu.k, 16) and close_to(v.reshape(on_cpu.v.shape), on_cpu.v, 16)
    layer.close()
    layer.close()
    assert not decode_device.ledger.live


@pytest.mark.parametrize("binding_bytes", [64 * 32 * 4, 64 * 64 * 4])
def test_weights_beyond_a_binding_are_cut_into_pieces(decode_device, binding_bytes):
    """Each matrix of its own type, and bindings so small that most stages need several."""
    shape = Shape(hidden=64, intermediate=90, q_heads=6, kv_heads=2, head_dim=16)
    rng = np.random.default_rng(4)
    _, norms = random_weights(shape, "f32", rng)
    kinds = ("bf16", "f32", "f32", "int8", "f32", "f32", "fp4")
    matrices = {
        name: store(kind, rng.standard_normal(size, np.float32) / 8)
        for kind, (name, size) in zip(kinds, shape.matrices().items(), strict=True)
    }
    trial = replace(random_trial(0), shape=shape, matrices=matrices, norms=norms, gate=None, cosine=None, sine=None)
    trial = replace(
        trial, x=rng.standard_normal((2, 64), np.float32), cache=random_cache(shape, [5, 9], 4, "bf16", rng)
    )
    layer = WebGpuLayer(shape, matrices, norms, decode_device, binding_bytes=binding_bytes)
    out, k, v = layer.step(trial.x, trial.cache, schedule=Schedule(wo_split=2), timed=True)
    layer.close()
    stages = [name for name, _ in layer.passes_ns]
    assert stages.count("project") >= 2 and stages.count("fc1") >= 3
    on_cpu = trial.run(trial.layer(workers=1), Schedule(wo_split=2))
    assert close_to(out.reshape(2, 64), on_cpu.out, 16)
    assert close_to(k.reshape(on_cpu.k.shape), on_cpu.k, 16) and close_to(v.reshape(on_cpu.v.shape), on_cpu.v, 16)


@pytest.mark.parametrize("seed", range(3))
def test_rounding_before_down(decode_device, seed):
    """The rounded h is the rounding of the plain h; only a quotient on a border may fall to its other side."""
    trial = random_trial(2000 + seed)

    def h_of(shape):
        layer = WebGpuLayer(shape, trial.matrices, trial.norms, decode_device)
        pair = None if trial.cosine is None else (trial.cosine, trial.sine)
        layer.step(trial.x, trial.cache, pair, trial.gate, schedule=Schedule())
        raw = decode_device.read(decode_device.named(layer.label + "h"), np.float32).reshape(len(trial.x), -1)
        layer.close()
        assert not raw[:, shape.intermediate :].any(), "padding is zero"
        return raw

    plain = h_of(trial.shape)
    want = np.stack([to_fp4(row) for row in plain])
    got = h_of(replace(trial.shape, quantise=True))
    assert (got == want).mean() > 0.995 and (got != plain).any()
    assert np.abs(got - want).max() <= np.abs(want).max() / 2


@pytest.mark.parametrize(("weight_type", "kv_type"), [("f32", "f32"), ("int8", "bf16"), ("fp4", "e4m3")])
def test_the_same_tokens_as_on_the_cpu(decode_device, weight_type, kv_type, tried):
    on_gpu = Model.random(7, weight_type=weight_type, device=decode_device)
    said = on_gpu.generate([3, 1, 4], 16, kv_type=kv_type, schedule=Schedule(wo_split=2), timed=True)
    for layer in on_gpu.layers:
        layer.close()
    assert said == Model.random(7, weight_type=weight_type).generate([3, 1, 4], 16, kv_type=kv_type)
    assert not decode_device.ledger.live
    tried("decode generations")


def test_a_held_cache_grows_with_what_is_appended(decode_device):
    shape, rng = SHAPES["tiny"], np.random.default_rng(3)
    matrices, norms = random_weights(shape, "bf16", rng)
    caches = [PagedCache.empty(shape, batch=2, max_length=9, page_size=4, kv_type="bf16") for _ in range(2)]
    held, sent = (WebGpuLayer(shape, matrices, norms, decode_device) for _ in range(2))
    held.hold(caches[0])
    for token in range(8):
        x = rng.standard_normal((2, 64), np.float32)
        answers = [layer.step(x, cache, schedule=Schedule()) for layer, cache in zip((held, sent), caches, strict=True)]
        assert all(a.tobytes() == b.tobytes() for a, b in zip(*answers, strict=True)), token
        for cache in caches:
            cache.append(answers[0][1], answers[0][2])
    # Pages that change hands, and a cache that is not the held one in between.
    caches[0].table[:] = caches[1].table[:] = caches[0].table[::-1].copy()
    x = rng.standard_normal((2, 64), np.float32)
    want = sent.step(x, caches[1], schedule=Schedule())[0].tobytes()
    assert held.step(x, caches[0], schedule=Schedule())[0].tobytes() == want
    empty = PagedCache.empty(shape, batch=2, max_length=9, page_size=4, kv_type="bf16")
    empty.lengths += 3
    assert held.step(x, empty, schedule=Schedule())[0].tobytes() != want
    assert held.step(x, caches[0], schedule=Schedule())[0].tobytes() == want
    held.close()
    sent.close()


@pytest.mark.parametrize("moment", ["allocate", "submit", "wait", "read"])
@pytest.mark.parametrize("fault", ["memory", "timeout"])
def test_a_fault_of_the_device_is_typed_and_the_next_step_is_right(decode_device, moment, fault, tried):
    trial = random_trial(5)
    layer = trial.layer(device=decode_device)
    layer.gpu.hold(trial.cache)
    if moment != "allocate":
        trial.run(layer, timed=True)
    with decode_device.inject.plan(moment, fault), pytest.raises(FAULTS[fault]) as caught:
        trial.run(layer, timed=True)
    assert caught.value.cure
    assert distance_ulp(trial, trial.run(layer, timed=True)) <= MAX_ULP
    layer.close()
    assert not decode_device.ledger.live
    tried("device faults at a moment")


def test_a_lost_device_is_typed_and_the_layer_can_be_closed(tried):
    trial = random_trial(5)
    with open_device() as device:
        layer = trial.layer(device=device)
        trial.run(layer)
        with device.inject.plan("submit", "lost"), pytest.raises(DeviceLost):
            trial.run(layer)
        with pytest.raises(DeviceError):
            trial.run(layer)
        layer.close()
        assert not device.ledger.live
    tried("device faults at a moment")
