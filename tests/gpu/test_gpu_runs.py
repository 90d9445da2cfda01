"""Runs on a GPU as they are stored: which adapter, which driver, the warning, the refusal of a driver that is wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from needs import needed
from whet.cli.check import runnable
from whet.errors import DeviceLost, Unsupported
from whet.evidence import adapter as identification
from whet.evidence.adapter import adapter_of, identify
from whet.evidence.record import Run
from whet.evidence.report import render_report
from whet.evidence.store import Store
from whet.gpu import adapters
from whet.msm.engine import MsmEngine
from whet.protocol import parse_variant

pytestmark = [pytest.mark.gpu, pytest.mark.xdist_group("gpu")]
ENGINE = Path(__file__).parents[2] / "examples" / "saxpy_webgpu.py"


def whet(folder, *words):
    """The command as a user runs it, with a store of its own. The driver's folder stays the user's."""
    env = {**os.environ, "WHET_STORE": str(folder / "runs.sqlite"), "XDG_CONFIG_HOME": str(folder)}
    return subprocess.run(
        [sys.executable, "-m", "whet", *words], cwd=folder, env=env, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def stored(tmp_path_factory) -> Run:
    folder = tmp_path_factory.mktemp("gpu-runs")
    key = needed(lambda: identify("webgpu"))["key"]
    words = ["ab", str(ENGINE), "small", "large", "--n", "1000", "--quick", "--seconds", "3"]
    done = whet(folder, *words, "--device", f"webgpu:{key}")
    assert done.returncode in (0, 2), done.stderr
    with Store.open(folder / "runs.sqlite") as store:
        return store.get("last")


def test_a_stored_run_names_its_adapter(device, stored):
    kept = stored.environment["adapter"]
    assert stored.device == f"webgpu:{kept['key']}"
    assert (kept["key"], kept["driver"], kept["backend"]) == (device.info.key, device.info.driver, device.info.backend)
    assert kept["software"] == device.info.software
    assert kept["limits"]["max-storage-buffers-per-shader-stage"] >= 8
    assert all(gate.green for gate in stored.gates)
    assert all(sample.device_ns is None for sample in stored.samples), "the wall's run asks no device clock"


def test_a_software_adapter_is_warned_about_and_shown(stored):
    kinds = {warning.kind for warning in stored.warnings}
    assert ("software adapter" in kinds) == stored.environment["adapter"]["software"]
    page = render_report([stored])
    assert "GPU adapter" in page and stored.environment["adapter"]["driver"] in page
    assert "max-buffer-size" in page and "{&#39;" not in page
    assert stored.where == stored.device
    beside = msgspec.structs.replace(stored, device="cpu")
    assert beside.where == f"cpu + {stored.device}" and beside.where in render_report([beside])


def test_a_wrong_driver_and_an_unknown_adapter_are_refused_before_anything_runs(tmp_path, device, tried):
    wrong = [info.key for info, _ in adapters() if "Mesa 22" in info.driver]
    for key, words in [("no-such-adapter", "no adapter matches"), *((key, "leaves loops early") for key in wrong)]:
        with pytest.raises(Unsupported, match=words) as caught:
            identify(f"webgpu:{key}")
        assert caught.value.cure
        done = whet(tmp_path, "check", str(ENGINE), "--device", f"webgpu:{key}", "--json")
        assert done.returncode == 4 and words in done.stderr and "Traceback" not in done.stderr
        assert done.stdout == ""
        tried("refused devices")
    done = whet(tmp_path, "check", str(ENGINE), "--device", "cpu")
    assert done.returncode == 64 and "does not run on 'cpu'" in done.stderr


def test_a_driver_that_crashes_is_a_typed_error(monkeypatch):
    monkeypatch.setattr(identification.sys, "executable", "/bin/false")
    monkeypatch.setenv("WHET_CACHE", "elsewhere")
    with pytest.raises(DeviceLost, match="took its process down"):
        identify("webgpu:any")


def test_a_run_that_compares_devices_names_the_adapter_too(device, monkeypatch):
    """A GPU variant beside a CPU variant runs on the best adapter, whatever the run's own device is."""
    engine = MsmEngine()
    on_both = [parse_variant(engine, name) for name in ("affine", "walker")]
    assert adapter_of(engine, on_both, "cpu")["key"] == device.info.key
    monkeypatch.setattr(identification, "_ask", lambda *_: pytest.fail("no driver may be loaded for the CPU"))
    assert adapter_of(engine, on_both[:1], "cpu") == {}


def test_a_check_of_everything_leaves_out_what_has_no_device(monkeypatch, capsys):
    def nothing(*_):
        raise Unsupported("no adapter at all", cure="install one")

    monkeypatch.setattr(identification, "_ask", nothing)
    names = runnable(MsmEngine(), None)
    assert "affine" in names and "walker" not in names
    said = capsys.readouterr().err
    assert "walker" in said and "no adapter at all" in said and "install one" in said
    with pytest.raises(Unsupported, match="no adapter at all"):
        runnable(MsmEngine(), "webgpu")


def test_other_devices_have_no_adapter():
    assert identify("cpu") == {} == identify("browser:phone")
