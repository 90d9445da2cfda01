"""The engines' own programs under Dawn and in Chromium: sums equal to the bit, layers within their bound."""

from __future__ import annotations

import numpy as np
import pytest
from gpu_decode import close_to
from msm_on_gpu import Subject, answered
from replay import recorded

from whet.decode import Schedule
from whet.decode.cases import random_trial
from whet.gpu.device import POISON
from whet.gpu.portable import run_here
from whet.gpu.schedule import Pace
from whet.msm.webgpu.finish import upload_points, upload_scalars
from whet.msm.webgpu.knobs import Choice
from whet.msm.webgpu.memory import memory_map
from whet.msm.webgpu.plan import build

pytestmark = [pytest.mark.gpu, pytest.mark.browser, pytest.mark.slow, pytest.mark.xdist_group("elsewhere")]


def msm_request(profile, n, memory_budget=None, **knobs):
    subject = Subject.of(profile, n)
    plan = build(n, Choice(**knobs), memory_budget=memory_budget)
    x, y = upload_points(subject.points)
    scalars = plan.scalars(upload_scalars(subject.limbs, geometry=plan.geometry))
    return subject, plan, {"points_x": x, "points_y": y, **scalars}


def same_sum(device, run, subject, plan, inputs, **more):
    """Equal to the bit to what this process computes, right by the oracle, and real work was done."""
    there = run(plan.program, inputs, ["result", "buckets"], time_limit_s=500, **more)
    result = there.outputs["result"]
    assert answered(plan, result) == subject.expected
    assert plan.counters(result)["accumulated"] > 0
    here = run_here(device, plan.program, inputs, ["result", "buckets"])
    assert np.array_equal(result, here.outputs["result"])
    assert np.array_equal(there.outputs["buckets"], here.outputs["buckets"])
    assert [name for name, _ in there.passes] == [name for name, _ in here.passes]
    return there


def test_sums_under_dawn_are_equal_to_the_bit(device, dawn, tried):
    """The second has two batches, a tiny thread count and equal scalars: every stage with collisions and splits."""
    same_sum(device, dawn, *msm_request("random", 1024))
    same_sum(device, dawn, *msm_request("E", 300, batches=2, threads=64))
    tried("sums elsewhere equal to the bit", 2)


@pytest.mark.parametrize(
    "knobs",
    [{"g": 8}, {"accumulator": "gpu_plain"}, {"accumulator": "pairs", "g": 2, "slots": 4}],
    ids=str,
)
def test_the_other_accumulators_under_dawn(device, dawn, knobs, tried):
    """Points that meet: doublings, opposites and infinities in one bucket."""
    same_sum(device, dawn, *msm_request("collide", 60, **{"accumulator": "coop", **knobs}))
    tried("sums elsewhere equal to the bit")


def test_a_sum_in_chromium_is_equal_to_the_bit(device, browser, tried):
    same_sum(device, browser.run, *msm_request("random", 100, threads=64))
    tried("sums elsewhere equal to the bit")


def sliced_request(n):
    """Three batches that bring their own words of the scalars: whole ones would be over the budget."""
    least = sum(row.size_bytes for row in memory_map(n, Choice(batches=3, threads=64)))
    request = msm_request("random", n, memory_budget=least - 1, batches=3, threads=64)
    assert request[1].sliced
    return request


def test_a_sliced_sum_under_dawn_is_equal_to_the_bit(device, dawn, tried):
    there = same_sum(device, dawn, *sliced_request(300), timed=False)
    assert len(there.walls_ns) >= 3
    tried("sums elsewhere equal to the bit")


def test_a_sliced_sum_in_chromium_is_equal_to_the_bit(device, browser, tried):
    """Untimed, so that its passes are merged; cut into more submissions than there are batches."""
    there = same_sum(device, browser.run, *sliced_request(100), timed=False, pace=Pace(1e7))
    assert len(there.walls_ns) > 3
    tried("sums elsewhere equal to the bit")


def test_points_that_meet_in_chromium(device, browser, tried):
    same_sum(device, browser.run, *msm_request("collide", 40, accumulator="coop", g=8, threads=64))
    tried("sums elsewhere equal to the bit")


@pytest.mark.parametrize("seed", [3, 6])
def test_decode_steps_under_dawn(device, dawn, seed, tried):
    """To the bit on the same driver; on another one floats may round otherwise, within the layer's own bound."""
    trial = random_trial(seed)
    layer = trial.layer(device=device)
    with recorded(device) as submissions:
        trial.run(layer, Schedule(wo_split=2))
    step = submissions[-1]
    results = next(name for name in step.contents if name.endswith("results"))
    want = device.read(device._buffers[results])
    outcome = dawn(step.program, step.contents, [results], time_limit_s=500)
    layer.close()
    got = outcome.outputs[results]
    assert np.array_equal(got == POISON, want == POISON)
    written = want != POISON
    assert written.sum() >= trial.shape.hidden
    if "llvmpipe" in outcome.adapter["device"] and "llvmpipe" in device.info.name:
        assert np.array_equal(got, want)
    assert close_to(got[written].view(np.float32), want[written].view(np.float32))
    tried("decode steps elsewhere")
