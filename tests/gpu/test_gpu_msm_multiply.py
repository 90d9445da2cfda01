"""Which multiply `auto` means: by a trial, right before fast, kept for its adapter and driver."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from msm_on_gpu import Subject

from needs import needed
from whet.errors import ShaderError, Unsupported
from whet.gpu import Pass, open_device
from whet.gpu.tuned import recall, remember
from whet.msm.point import P
from whet.msm.webgpu import multiply
from whet.msm.webgpu.knobs import Choice
from whet.msm.webgpu.layout import R_BITS
from whet.msm.webgpu.multiply import LENGTH, TRIAL, chain, fastest_multiply, measure
from whet.msm.webgpu.sums import FEATURES, WebGpuSums


class Scripted:
    """A device whose multiplies take these nanoseconds, and whose wide one may be wrong or not compile."""

    def __init__(self, portable_ns, wide_ns, *, wrong=False, compiles=True, wide=True):
        self.info = SimpleNamespace(key="scripted", driver="1", software=False)
        self.handle = SimpleNamespace(features={"shader-int64"} if wide else set())
        self.now, self.submitted = 0, 0
        self._ns = {False: portable_ns, True: wide_ns}
        self._wrong, self._compiles = wrong, compiles

    def clock(self):
        return self.now

    def buffer(self, name, size_bytes):
        return None

    def release(self, buffer):
        pass

    def write(self, buffer, values):
        self._values = values

    def submit(self, steps):
        wide = "u64" in steps[0].kernel.source
        if wide and not self._compiles:
            raise ShaderError("no u64", cure="none")
        self.now += self._ns[wide]
        self.submitted += 1
        self._last_wide = wide

    def read(self, buffer):
        rows = [int.from_bytes(row.tobytes(), "little") for row in self._values[: multiply.CHECKED]]
        scale = pow(2, -R_BITS * LENGTH, P)
        wrong = self._wrong and self._last_wide
        left = [pow(b, LENGTH + 1, P) * scale % P + (wrong and i == 5) for i, b in enumerate(rows)]
        return np.frombuffer(b"".join(value.to_bytes(32, "little") for value in left), np.uint32)


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch, tmp_path):
    monkeypatch.setenv("WHET_TUNED", str(tmp_path / "tuned.json"))
    monkeypatch.setattr(multiply, "_known", {})


@pytest.mark.parametrize(
    ("device", "best", "because"),
    [
        (Scripted(1000, 500), "wide", "2.00 times"),
        (Scripted(500, 1000), "portable", "0.50 times"),
        (Scripted(1000, 990), "portable", "1.01 times"),
        (Scripted(0, 0), "portable", "0.00 times"),
        (Scripted(1000, 500, wrong=True), "portable", "wide products are wrong"),
        (Scripted(1000, 500, compiles=False), "portable", "does not compile"),
    ],
    ids=["faster", "slower", "no difference", "no clock", "wrong", "does not compile"],
)
def test_the_wide_multiply_has_to_be_right_and_faster(device, best, because, tried):
    found = measure(device, device.clock)
    assert found.best == best
    assert because in found.because
    tried("degenerate measurements", best == "portable")


def test_a_device_without_wide_integers_is_not_measured():
    device = Scripted(1000, 500, wide=False)
    assert fastest_multiply(device) == "portable"
    assert device.submitted == 0


def test_the_answer_is_kept_for_its_adapter_and_driver(monkeypatch):
    first, later = Scripted(1000, 500), Scripted(1000, 500)
    assert fastest_multiply(first, first.clock) == "wide"
    assert first.submitted > 0
    kept = recall(TRIAL, "scripted", "1")
    assert kept is not None and kept.best == "wide"
    assert recall("msm") is None, "what auto means for the engine is another question"
    monkeypatch.setattr(multiply, "_known", {})
    assert fastest_multiply(later, later.clock) == "wide"
    assert later.submitted == 0, "read from the file"
    other = Scripted(500, 1000)
    other.info.driver = "2"
    assert fastest_multiply(other, other.clock) == "portable"
    assert other.submitted > 0, "another driver is asked again"


def test_a_file_that_cannot_be_written_costs_nothing_but_time(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("WHET_TUNED", str(tmp_path / "file" / "tuned.json"))
    device = Scripted(1000, 500)
    assert fastest_multiply(device, device.clock) == "wide"
    asked = device.submitted
    assert fastest_multiply(device, device.clock) == "wide"
    assert device.submitted == asked


def test_an_entry_that_names_no_multiply_is_measured_again():
    device = Scripted(1000, 500)
    kept = measure(device, device.clock)
    remember(type(kept)(**{name: getattr(kept, name) for name in kept.__struct_fields__} | {"best": "vast"}))
    assert fastest_multiply(device, device.clock) == "wide"


@pytest.mark.gpu
@pytest.mark.xdist_group("gpu")
def test_the_trial_on_a_device_decides_what_a_sum_is_made_of(monkeypatch, tried):
    with needed(lambda: open_device(features=FEATURES)) as device:
        if "shader-int64" not in device.info.features:
            pytest.skip("this adapter has no 64-bit integers")
        found = measure(device)
        assert "wrong" not in found.because
        assert all(spent > 0 for spent in found.times_ns.values())
        about = (device.info.key, device.info.driver)
    subject = Subject.of("random", 100)
    for known in ("portable", "wide"):
        monkeypatch.setattr(multiply, "_known", {about: known})
        sums = WebGpuSums(subject.points, Choice(threads=64))
        try:
            assert sums.compute(subject.limbs, 0).limbs.tobytes() == subject.expected
            steps = sums._plan.program.steps
            assert any("u64" in s.kernel.source for s in steps if isinstance(s, Pass)) == (known == "wide")
            assert sums.device.ledger.peak == {row.name: row.size_bytes for row in sums.memory_map()}
        finally:
            sums.close()
        tried("sums on a GPU")


def test_chains_name_their_operation():
    assert "fe_inv(a)" in chain("invert", 8, wide=False, threads=64).kernel.source
    with pytest.raises(Unsupported, match="64-bit"):
        from whet.msm.webgpu.sums import uses_wide

        uses_wide(SimpleNamespace(info=SimpleNamespace(features=(), key="old")), Choice(multiply="wide"))
