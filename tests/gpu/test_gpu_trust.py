"""A driver that answers wrongly is refused before its first use, or its answer is; and what the checks promise."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from msm_on_gpu import Subject
from whet._native import curve

from whet.decode.webgpu import known_exponential
from whet.errors import Unsupported, WrongAnswer
from whet.gpu import trusted
from whet.gpu.adapter import AdapterInfo
from whet.gpu.faults import Injector
from whet.gpu.lies import LIES
from whet.msm import Engine
from whet.msm import inputs as make
from whet.msm.oracle import known_multiples
from whet.msm.webgpu import sums as sums_module
from whet.msm.webgpu import window_check
from whet.msm.webgpu.knobs import Choice
from whet.msm.webgpu.known_answer import POINTS, question
from whet.msm.webgpu.plan import build
from whet.msm.webgpu.sums import WebGpuSums
from whet.msm.webgpu.window_check import byte_table, scalar_bytes, weighted

VARIANT = "walker:threads=64,multiply=portable"
CHOICE = Choice(threads=64, multiply="portable")
TRIES = 60


def on_a_gpu(test):
    return pytest.mark.gpu(pytest.mark.xdist_group("gpu")(test))


@pytest.fixture(autouse=True)
def nothing_passed(monkeypatch, tmp_path):
    monkeypatch.setenv("WHET_TUNED", str(tmp_path / "tuned.json"))
    monkeypatch.setattr(trusted, "_passed", set())


@pytest.fixture
def gpu(shared_device, monkeypatch):
    """Every engine of a test gets the same device, so that its kernels are compiled once for all tests."""

    def close():
        for buffer in list(shared_device._buffers.values()):
            shared_device.release(buffer)

    monkeypatch.setattr(shared_device, "close", close)
    monkeypatch.setattr(sums_module, "open_device", lambda *given, **more: shared_device)
    monkeypatch.setattr(shared_device, "inject", Injector())
    return shared_device


@contextmanager
def without(device, name):
    """A driver that leaves out the passes of this name."""
    device.inject.bent = lambda steps, sizes: [step for step in steps if getattr(step, "name", "") != name]
    try:
        yield
    finally:
        del device.inject.bent


@pytest.fixture(scope="module")
def subject():
    return Subject.of("random", 300)


@on_a_gpu
@pytest.mark.parametrize("glv", [False, True], ids=["whole", "halves"])
def test_a_lie_is_never_an_answer(gpu, subject, glv, tried):
    """Each try lies once: in the sum, or in the known answer that is asked after a lie was found out."""
    rng = np.random.default_rng(254)
    sums = WebGpuSums(subject.points, Choice(threads=64, multiply="portable", glv=glv))
    refused = 0
    try:
        for number in range(TRIES // 2):
            scalars = make.scalars("random", subject.n, number)
            with sums.device.inject.lie(LIES[number % len(LIES)], rng) as liar:
                try:
                    found = sums.compute(scalars, 0).limbs.tobytes()
                except (WrongAnswer, Unsupported):
                    assert liar.told, "nothing is refused without a lie"
                    refused += 1
                    continue
            assert found == known_multiples(subject.logs, make.to_ints(scalars)).to_bytes(), liar.told
        assert sums.compute(subject.limbs, 0).limbs.tobytes() == subject.expected
    finally:
        sums.close()
    assert refused >= TRIES // 6, "lies that change nothing show nothing"
    tried("lies of a driver", TRIES // 2)


@on_a_gpu
def test_a_driver_that_lies_from_the_start_is_refused_before_its_first_use(gpu, subject):
    points = curve.write_points(subject.points)
    refused = pytest.raises(Unsupported, match="wrong sum of 1,024 points whose sum is known")
    with without(gpu, "store"), refused as caught:
        Engine(points, device="webgpu", variant=VARIANT)
    assert "fallback=True" in caught.value.cure
    with without(gpu, "store"), Engine(points, device="webgpu", variant=VARIANT, fallback=True) as engine:
        assert engine.compute(subject.limbs).to_bytes() == subject.expected
        assert "whose sum is known" in engine.fallback_reason
        rows, held = engine.memory_map(), engine.ledger()
        assert sum(row.size_bytes for row in rows) > 0 and sum(held.values()) > 0, "those of the CPU"


@on_a_gpu
def test_a_wrong_answer_is_typed_and_the_fallback_answers(gpu, subject):
    points = curve.write_points(subject.points)
    with Engine(points, device="webgpu", variant=VARIANT, fallback=True) as engine:
        assert engine.compute(subject.limbs).to_bytes() == subject.expected and engine.fallback_reason is None
        sums = engine._prepared._device
        assert engine.ledger() == sums.ledger() and engine.memory_map() == sums.memory_map()
        other = make.scalars("random", subject.n, 5)
        with without(gpu, "accumulate"):
            found = engine.compute(other).to_bytes()
        assert found == known_multiples(subject.logs, make.to_ints(other)).to_bytes()
        assert engine.fallback_reason.startswith("the device gave a")
        assert not sums.ledger(), "everything on the device is made anew"
        assert engine.compute(subject.limbs).to_bytes() == subject.expected and engine.fallback_reason is None


@on_a_gpu
def test_without_the_check_a_stale_answer_would_pass(gpu, subject):
    """All gathered parts are points of the curve: those of the sum before."""
    other = make.scalars("random", subject.n, 77)
    for verify in (True, False):
        sums = WebGpuSums(subject.points, CHOICE, verify=verify)
        try:
            before = sums.compute(subject.limbs, 0).limbs.tobytes()
            with without(gpu, "gather"):
                if verify:
                    with pytest.raises(WrongAnswer, match="do not agree with the CPU"):
                        sums.compute(other, 0)
                else:
                    assert sums.compute(other, 0).limbs.tobytes() == before
        finally:
            sums.close()


@on_a_gpu
def test_a_known_answer_is_asked_once_and_kept(gpu, subject, monkeypatch):
    asked = []
    submit = gpu.submit
    monkeypatch.setattr(gpu, "submit", lambda *given, **more: asked.append(1) or submit(*given, **more))

    def submissions():
        asked.clear()
        WebGpuSums(subject.points, CHOICE).close()
        return len(asked)

    assert submissions() == 1
    monkeypatch.setattr(trusted, "_passed", set())
    assert submissions() == 0, "read from the file"
    trusted.distrust(gpu.info)
    assert submissions() == 1, "asked again after a wrong answer"
    monkeypatch.setattr(trusted, "__version__", "0")
    monkeypatch.setattr(trusted, "_passed", set())
    assert submissions() == 1, "another version is asked again"


def test_what_was_passed_holds_for_its_adapter_and_driver(tmp_path, monkeypatch):
    one = AdapterInfo("gpu", "GPU", "1", "Vulkan", "DiscreteGPU", False, (), {})
    other = AdapterInfo("gpu", "GPU", "2", "Vulkan", "DiscreteGPU", False, (), {})
    trusted.keep("msm a", one)
    assert trusted.passed("msm a", one) and not trusted.passed("msm b", one) and not trusted.passed("msm a", other)
    trusted.keep("msm a", other)
    trusted.distrust(one)
    monkeypatch.setattr(trusted, "_passed", set())
    assert trusted.passed("msm a", other) and not trusted.passed("msm a", one)
    trusted.trusted_file().write_text("{")
    monkeypatch.setattr(trusted, "_passed", set())
    with pytest.warns(RuntimeWarning, match="known answers are asked again"):
        assert not trusted.passed("msm a", other)


def test_the_question_meets_itself_and_reaches_every_window():
    points, scalars, _ = question()
    assert len(points) == POINTS
    rows = [bytes(row) for row in points]
    opposite = {bytes(row) for row in curve.negate(points)}
    assert len(set(rows)) < POINTS - 50, "equal points"
    assert sum(row in opposite and any(row) for row in rows) > 50, "opposite points"
    assert any(not any(row) for row in rows), "infinity"
    geometry = build(POINTS).geometry
    table = np.stack([_digits(scalars, geometry, w) for w in range(geometry.vector_windows)])
    assert ((table > 0).any(axis=1) & ((table < 0).any(axis=1)))[:-1].all() and (table[-1] > 0).any()


def _digits(scalars, geometry, window, half=0):
    """Of one window: all weight on it."""
    weights = np.eye(geometry.vector_windows, dtype=np.int64)[window]
    size = 16 if geometry.glv else 32
    return weighted(scalar_bytes(scalars, half, glv=geometry.glv), byte_table(weights, geometry.window_bits, size))


@pytest.mark.parametrize("glv", [False, True], ids=["whole", "halves"])
@pytest.mark.parametrize("c", [4, 7, 11, 13, 16])
def test_the_weighted_digits_are_those_of_the_kernels(c, glv):
    """Against the definition in Python's integers: round(s / 2^(cw)) - 2^c round(s / 2^(c(w+1)))."""
    scalars = make.scalars("edges", 60, 3)
    geometry = build(60, Choice(c=c, glv=glv)).geometry
    for half in range(2 if glv else 1):
        rows = scalar_bytes(scalars, half, glv=glv).T
        numbers = [int.from_bytes(row.tobytes(), "little", signed=glv) for row in rows]
        found = [_digits(scalars, geometry, w, half).tolist() for w in range(geometry.vector_windows)]
        for i, number in enumerate(numbers):
            rounded = [((number << 1 >> c * w) + 1) >> 1 for w in range(geometry.vector_windows + 1)]
            wanted = [here - (above << c) for here, above in pairwise(rounded)]
            assert [digits[i] for digits in found] == wanted
            assert sum(digit << c * w for w, digit in enumerate(wanted)) == number


def test_the_check_finds_any_single_window_and_swapped_vectors():
    subject = Subject.of("collide", 50)
    geometry = build(subject.n, Choice(c=9), vectors=2).geometry
    vectors = [subject.limbs, make.scalars("random", subject.n, 8)]
    sums = np.concatenate([_window_points(subject, scalars, geometry) for scalars in vectors])
    check = window_check.WindowCheck(subject.points)
    try:
        check.begin(vectors, 0, geometry)(sums)
        for window in range(len(sums)):
            wrong = sums.copy()
            wrong[window] = curve.add_mixed(sums[window : window + 1], subject.points[1:2])[0]
            with pytest.raises(WrongAnswer):
                check.begin(vectors, 0, geometry)(wrong)
        with pytest.raises(WrongAnswer):
            check.begin(vectors, 0, geometry)(np.roll(sums, geometry.vector_windows, axis=0))
        with pytest.raises(WrongAnswer):
            check.begin(vectors, 0, geometry)(np.zeros_like(sums))
    finally:
        check.close()


def _window_points(subject, scalars, geometry):
    """The window sums from the logarithms, without any device."""
    made = [_digits(scalars, geometry, w).tolist() for w in range(geometry.vector_windows)]
    logs = [sum(d * k for d, k in zip(digits, subject.logs, strict=True)) % make.R for digits in made]
    return make.points_from_logs(make.to_limbs(logs))


@on_a_gpu
def test_an_exponential_that_is_off_is_refused(gpu, monkeypatch, tried):
    """As a driver would make it that contracts the reduction, drops a term or calls its own exp."""
    kernel = known_exponential.exponentials_kernel()
    source = kernel.source
    assert known_exponential.error_ulp(gpu, kernel) <= 1.5
    known_exponential.require_good_exponential(gpu)
    for wrong in (
        source.replace("n * 0.693359375) + n * 2.12194440e-4", "n * 0.69314718)"),
        source.replace("p = p * r + 8.3334519073e-3;", ""),
        source.replace("x < -87.0", "x < -86.0"),
        source.replace("= exponential(", "= exp("),
    ):
        assert wrong != source
        other = replace(kernel, source=wrong)
        monkeypatch.setattr(known_exponential, "exponentials_kernel", lambda other=other: other)
        with pytest.raises(Unsupported, match="exponentials that are off by") as caught:
            known_exponential.require_good_exponential(gpu)
        assert caught.value.cure and not gpu.ledger.live
        tried("planted faults")
