"""The engine on a device as callers see it: batches, views, ledger, budgets, faults and the way back to the CPU."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from msm_on_gpu import Subject
from whet._native import curve

from needs import needed
from whet.errors import BadInput, Cancelled, DeviceLost, DeviceOutOfMemory, DeviceTimeout, ShaderError, Unsupported
from whet.msm import Engine, Point
from whet.msm import inputs as make
from whet.msm.engine import MsmEngine
from whet.msm.oracle import known_multiples
from whet.protocol import Case, parse_variant

pytestmark = [pytest.mark.gpu, pytest.mark.xdist_group("gpu")]

SMALL = "walker:threads=64"
FAULTS = [
    ("submit", "lost", DeviceLost),
    ("wait", "timeout", DeviceTimeout),
    ("read", "lost", DeviceLost),
    ("allocate", "memory", DeviceOutOfMemory),
    ("compile", "shader", ShaderError),
]


@pytest.fixture(scope="module")
def subject():
    return Subject.of("random", 400)


def engine_of(subject, **given):
    return needed(lambda: Engine(curve.write_points(subject.points), **{"variant": SMALL, "device": "webgpu", **given}))


def expected(subject):
    return Point.from_bytes(subject.expected)


def test_calls_views_and_batches(subject, tried):
    with engine_of(subject) as engine:
        assert engine(subject.limbs) == expected(subject)
        assert engine.view(0, 0)([]) == Point.infinity()
        part = subject.part(30, 100)
        assert engine.view(30, 100)(part.limbs) == expected(part)
        vectors = [make.scalars(profile, 400, seed) for seed, profile in enumerate(["random", "zeros", "B", "edges"])]
        answers = engine.batch(vectors)
        assert answers == [known_multiples(subject.logs, make.to_ints(v)) for v in vectors]
        assert engine.batch([]) == []
    tried("sums on a GPU", 7)


def test_no_points_at_all_are_infinity():
    with needed(lambda: Engine([], device="webgpu", variant=SMALL)) as engine:
        assert engine([]) == Point.infinity()


def test_the_map_is_the_ledger_to_the_byte(subject):
    """Live bytes after a call, and the peak with the staging buffer."""
    for variant, budget in ((SMALL, None), ("coop:g=8,batches=3", None), (SMALL, 220_000)):
        with engine_of(subject, variant=variant, memory_budget=budget) as engine:
            engine(subject.limbs)
            rows = {row.name: row.size_bytes for row in engine.memory_map()}
            ledger = engine._prepared.device.ledger
            assert ledger.peak_bytes == sum(rows.values())
            assert ledger.peak == rows
            rows.pop("staging")
            assert dict(engine.ledger()) == rows
            assert budget is None or ledger.peak_bytes <= budget


def test_faults_are_typed_and_the_next_call_is_right(subject, tried):
    with engine_of(subject) as engine:
        for moment, fault, error in FAULTS:
            device = engine._prepared.device
            if moment in ("allocate", "compile"):
                device._pipelines.clear()
                engine._prepared._release()
            with device.inject.plan(moment, fault), pytest.raises(error):
                engine(subject.limbs)
            assert engine(subject.limbs) == expected(subject), (moment, fault)
            tried("device faults survived")


def test_fallback_gives_the_cpus_answer_and_says_why(subject, tried):
    with engine_of(subject, fallback=True) as engine:
        assert engine(subject.limbs) == expected(subject)
        assert engine.fallback_reason is None
        device = engine._prepared._device.device
        with device.inject.plan("submit", "lost"):
            assert engine(subject.limbs) == expected(subject)
        assert "lost" in engine.fallback_reason
        assert engine(subject.limbs) == expected(subject)
        assert engine.fallback_reason is None
    tried("device faults survived")


def test_fallback_where_there_is_no_such_adapter(subject):
    with engine_of(subject, device="webgpu:no-such-adapter", fallback=True) as engine:
        assert engine(subject.limbs) == expected(subject)
        assert "no-such-adapter" in engine.fallback_reason
    with pytest.raises(Unsupported, match="no-such-adapter"):
        Engine(curve.write_points(subject.points), device="webgpu:no-such-adapter")


def test_what_is_refused(subject):
    points = curve.write_points(subject.points)
    with pytest.raises(BadInput, match="runs on the CPU"):
        Engine(points, variant="affine", device="webgpu")
    with pytest.raises(Unsupported, match="device"):
        Engine(points, device="cuda")
    with engine_of(subject) as engine:
        with pytest.raises(BadInput, match="scalars"):
            engine(subject.limbs[:5])
        stop = threading.Event()
        stop.set()
        with pytest.raises(Cancelled):
            engine(subject.limbs, cancel=stop)
    with pytest.raises(DeviceOutOfMemory, match="budget"), engine_of(subject, memory_budget=1000) as engine:
        engine(subject.limbs)


def test_threads_take_turns(subject, tried):
    with engine_of(subject) as engine:
        wrong = []

        def call(offset):
            part = subject.part(offset, 300)
            if engine.view(offset, 300)(part.limbs) != expected(part):
                wrong.append(offset)

        threads = [threading.Thread(target=call, args=(10 * i,)) for i in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong
    tried("sums on a GPU", 6)


def test_the_engine_under_the_gate_times_every_stage(tried):
    msm, case = MsmEngine(), Case(sizes={"n": 300})
    variant = parse_variant(msm, SMALL)
    fixed = msm.fixed(case, 1)
    state = needed(lambda: msm.setup(variant, case, fixed, "webgpu"))
    try:
        inputs = {**fixed, **msm.prepare(case, 2)}
        outputs = {"point": np.zeros(8, np.uint64)}
        msm.run(variant, state, inputs, outputs)
        assert np.array_equal(outputs["point"], msm.oracle(case, 1, 2, inputs)["point"])
        timing = msm.timing(state)
        assert timing is not None
        assert {"count", "scatter", "accumulate", "combine", "reduce", "gather"} <= set(timing.regions_ns)
        assert timing.device_ns > sum(timing.regions_ns.values()) > 0, "the gaps between passes are in the span"
    finally:
        msm.close(state)
    tried("sums on a GPU")
