"""The MSM on a WebGPU device: points against the known-multiples oracle, buckets against one thread per bucket."""

from __future__ import annotations

import numpy as np
import pytest
from msm_on_gpu import Subject, bucket_sums, compute

from whet.msm.webgpu.knobs import Choice

pytestmark = [pytest.mark.gpu, pytest.mark.xdist_group("gpu")]

PLAIN = Choice("gpu_plain")
WALKER = Choice("walker")


@pytest.mark.parametrize("choice", [PLAIN, WALKER], ids=lambda c: c.accumulator)
def test_a_thousand_points(device, choice):
    subject = Subject.of("random", 1000)
    answer, work = compute(device, subject, choice)
    assert answer == subject.expected
    assert work["accumulated"] + work["combined"] > 20_000


def test_walker_buckets_equal_plain_buckets(device):
    subject = Subject.of("collide", 300)
    assert np.array_equal(bucket_sums(device, subject, WALKER), bucket_sums(device, subject, PLAIN))
