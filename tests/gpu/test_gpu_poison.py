"""Sums do not depend on what the memory held: zeroes, poison, or what another sum left there."""

from __future__ import annotations

import pytest
from msm_on_gpu import Subject, answered, loaded, run

from whet.gpu import Clear, open_device
from whet.gpu.device import POISON
from whet.msm.oracle import known_multiples
from whet.msm.webgpu.finish import upload_scalars
from whet.msm.webgpu.knobs import Choice

pytestmark = [pytest.mark.gpu, pytest.mark.xdist_group("gpu")]
CHOICES = {
    "walker": Choice(threads=128, multiply="portable"),
    "walker in batches": Choice(threads=128, multiply="portable", batches=5),
    "coop": Choice(accumulator="coop", g=8, threads=128, multiply="portable"),
    "pairs": Choice(accumulator="pairs", g=4, slots=2, threads=128, multiply="portable", batches=3),
    "glv": Choice(threads=64, multiply="portable", glv=True, batches=2),
    "plain": Choice(accumulator="gpu_plain", multiply="portable", batches=3),
}


@pytest.mark.parametrize("name", CHOICES)
def test_poison_zeroes_and_leftovers_give_the_same_bytes(device, name, tried):
    subject, other = Subject.of("random", 200), Subject.of("E", 200, seed=9)
    with loaded(device, subject, CHOICES[name]) as (plan, buffers):
        untouched = [one for one in buffers.values() if one.name not in ("params", "points_x", "points_y")]
        assert untouched and all((device.read(one) == POISON).all() for one in untouched), "everything else is poison"
        poisoned = run(device, plan, buffers, subject)
        assert run(device, plan, buffers, other)[0] == known(other)
        leftovers = run(device, plan, buffers, subject)
    with open_device() as clean, loaded(clean, subject, CHOICES[name]) as (plan, buffers):
        assert not any(clean.read(buffers[one.name]).any() for one in untouched), "here it is zero"
        zeroed = run(clean, plan, buffers, subject)
    assert poisoned == leftovers == zeroed
    assert poisoned[0] == subject.expected
    tried("sums on poisoned memory", 3)


def known(subject):
    """`other` has other points than the ones on the device: the answer for its scalars and the first subject's logs."""
    return known_multiples(Subject.of("random", 200).logs, subject.scalars).to_bytes()


def test_a_missing_clear_shows_on_poisoned_memory(device, tried):
    """The check can fail: without its clears the same program gives something else, or nothing at all."""
    subject = Subject.of("random", 200)
    with loaded(device, subject, CHOICES["walker"]) as (plan, buffers):
        assert any(isinstance(step, Clear) for step in plan.program.steps)
        bare = [step for step in plan.program.steps if not isinstance(step, Clear)]
        device.write(buffers["scalars"], upload_scalars(subject.limbs, geometry=plan.geometry))
        device.submit(bare)
        result = device.read(buffers["result"])
        counted = plan.counters(result)
        wrong = answered(plan, result) != subject.expected
        assert wrong or counted["accumulated"] > 10**9, "counters that start at poison are absurd"
    tried("planted faults")
