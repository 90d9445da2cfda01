"""Faults around whole sums: each is typed, frees what it held, never gives a wrong point, and the next call works."""

from __future__ import annotations

import gc

import pytest
from msm_on_gpu import Subject
from whet._native import curve

from whet.errors import DeviceError, DeviceLost, DeviceTimeout, ShaderError, Unsupported
from whet.gpu import opening
from whet.gpu.faults import FAULTS, MOMENTS
from whet.msm import Engine
from whet.msm.webgpu import sums as module
from whet.msm.webgpu.layout import WGSL

pytestmark = [pytest.mark.gpu, pytest.mark.xdist_group("gpu")]
VARIANT = "walker:threads=64,multiply=portable"


@pytest.fixture(scope="module")
def subject():
    return Subject.of("random", 40)


@pytest.fixture(scope="module")
def trusted(subject):
    """The known answer was asked before, so that an engine begins without a compiled kernel."""
    Engine(curve.write_points(subject.points), device="webgpu", variant=VARIANT).close()


@pytest.fixture
def engine(device, subject, trusted):
    with Engine(curve.write_points(subject.points), device="webgpu", variant=VARIANT) as made:
        yield made


def answer(engine, subject):
    return engine.compute(subject.limbs).to_bytes()


def gpu(engine):
    """The device that the engine has open now."""
    return engine._prepared.device


@pytest.mark.parametrize("moment", MOMENTS)
def test_every_fault_at_every_moment_of_a_sum(engine, subject, moment, tried):
    """Fresh before the first call (everything is allocated and compiled), and again with everything in place."""
    for fault, kind in FAULTS.items():
        first = gpu(engine)
        with first.inject.plan(moment, fault), pytest.raises(kind) as caught:
            answer(engine, subject)
        assert caught.value.cure
        assert first.ledger.live_bytes == 0, "what it held is free"
        assert gpu(engine) is not first, "the next call opens a new device"
        tried("faults around a sum")
    assert answer(engine, subject) == subject.expected
    assert answer(engine, subject) == subject.expected


def test_a_device_lost_between_calls_is_found_out(engine, subject):
    assert answer(engine, subject) == subject.expected
    gpu(engine).handle.destroy()
    with pytest.raises(DeviceLost):
        answer(engine, subject)
    assert answer(engine, subject) == subject.expected


def test_a_sum_that_takes_too_long_is_given_up(device):
    """Large enough not to be over before anybody looks at the clock."""
    subject = Subject.of("random", 1 << 13)
    with Engine(curve.write_points(subject.points), device="webgpu", variant=VARIANT) as engine:
        assert answer(engine, subject) == subject.expected
        gpu(engine).time_limit_s = 0.0
        with pytest.raises(DeviceTimeout):
            answer(engine, subject)
        assert answer(engine, subject) == subject.expected


def test_a_kernel_that_does_not_compile_names_its_line(engine, subject, monkeypatch):
    sound = module.build

    def broken(*given, **more):
        def plant(entry, source):
            return source.replace("@compute", "@compute nonsense") if entry == "gather" else source

        return sound(*given, **{**more, "plant": plant})

    monkeypatch.setattr(module, "build", broken)
    with pytest.raises(ShaderError) as caught:
        answer(engine, subject)
    assert caught.value.line and caught.value.log
    written = next(line for line in WGSL.lines("gather") if "@compute" in line.text)
    assert caught.value.origin == str(written) and str(written) in caught.value.cause
    monkeypatch.undo()
    assert answer(engine, subject) == subject.expected


def test_an_adapter_with_too_small_limits_is_refused_before_opening(device, subject, monkeypatch):
    def smaller(wanted):
        info, handle = choose(wanted)
        info.limits["max-storage-buffers-per-shader-stage"] = 4
        return info, handle

    choose = opening.choose_adapter
    monkeypatch.setattr(opening, "choose_adapter", smaller)
    points = curve.write_points(subject.points)
    with pytest.raises(Unsupported, match="max-storage-buffers"):
        Engine(points, device="webgpu", variant=VARIANT)
    with Engine(points, device="webgpu", variant=VARIANT, fallback=True) as engine:
        assert answer(engine, subject) == subject.expected
        assert "max-storage-buffers" in engine.fallback_reason


def test_a_wrong_driver_never_gives_a_point(device, subject):
    from whet.gpu import adapters

    for info, _ in adapters():
        if "Mesa 22" in info.driver:
            with pytest.raises(Unsupported, match="leaves loops early"):
                Engine(curve.write_points(subject.points), device=f"webgpu:{info.key}", variant=VARIANT)


def test_a_driver_whose_probe_fails_never_gives_a_point(device, subject, monkeypatch):
    """The same on a machine without a wrong driver: the probe says that this one leaves loops early."""
    from whet.gpu import trust

    complaint = trust.Complaint("it leaves loops early: 65,535 of 90,000 trips", "use a newer driver")
    monkeypatch.setattr(trust, "examine", lambda device: [complaint])
    monkeypatch.setattr(trust, "_believed", set())
    points = curve.write_points(subject.points)
    with pytest.raises(Unsupported, match="refused: it leaves loops early") as caught:
        Engine(points, device="webgpu", variant=VARIANT)
    assert caught.value.cure == "use a newer driver"
    with Engine(points, device="webgpu", variant=VARIANT, fallback=True) as engine:
        assert answer(engine, subject) == subject.expected
        assert "leaves loops early" in engine.fallback_reason


def test_the_fallback_says_why_and_goes_back_to_the_device(device, subject, tried):
    with Engine(curve.write_points(subject.points), device="webgpu", variant=VARIANT, fallback=True) as engine:
        assert answer(engine, subject) == subject.expected and engine.fallback_reason is None
        for fault in FAULTS:
            with engine._prepared._device.device.inject.plan("submit", fault):
                assert answer(engine, subject) == subject.expected
                assert fault in engine.fallback_reason
            assert answer(engine, subject) == subject.expected and engine.fallback_reason is None
            tried("faults around a sum")


def test_two_hundred_cycles_of_faults_leave_no_objects(device, subject, tried):
    """Engines made, broken and closed: wgpu's own counters come back to where they were."""
    import wgpu

    kinds = ("Buffer", "BindGroup", "ComputePipeline", "ShaderModule", "Device", "QuerySet", "CommandBuffer")

    def live():
        gc.collect()
        counts = wgpu.diagnostics.object_counts.get_dict()
        return {kind: counts[kind]["count"] for kind in kinds}

    points = curve.write_points(subject.points)
    before = live()
    for cycle in range(200):
        engine = Engine(points, device="webgpu", variant=VARIANT)
        moment, fault = ("allocate", "compile", "submit")[cycle % 3], list(FAULTS)[cycle % len(FAULTS)]
        with gpu(engine).inject.plan(moment, fault), pytest.raises(DeviceError):
            answer(engine, subject)
        engine.close()
    del engine
    assert live() == before
    tried("faults around a sum", 200)
