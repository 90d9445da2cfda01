"""A machine made of files: what is told about it, what is set, what is put back."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from whet.evidence.system import tuning
from whet.evidence.system.tuning import ASLR, BOOST, IRQ_DEFAULT, NO_TURBO, Tuner

GOVERNOR = "sys/devices/system/cpu/cpu{}/cpufreq/scaling_governor"
FILES = {
    GOVERNOR.format(0): "powersave\n",
    GOVERNOR.format(1): "performance\n",
    NO_TURBO: "0\n",
    ASLR: "0\n",
    IRQ_DEFAULT: "00000000,00000003\n",
    "proc/irq/7/smp_affinity": "1\n",
    "proc/irq/9/smp_affinity": "3\n",
}


def machine(root: Path, files: dict[str, str] = FILES) -> Tuner:
    for name, value in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(value)
    return Tuner(root=root, kept=root / "kept.json", cores=[0, 1])


def held(root: Path) -> dict[str, str]:
    return {name: (root / name).read_text().strip() for name in FILES}


def test_looking_changes_nothing(tmp_path):
    found = {one.name: one for one in machine(tmp_path).look()}
    assert {name: one.status for name, one in found.items()} == {
        "affinity": "ok",
        "governor": "left",
        "turbo": "left",
        "address randomisation": "left",
        "interrupts": "left",
    }
    assert "powersave instead of performance (1 file of 2)" in found["governor"].said
    assert "(2 files of 3)" in found["interrupts"].said
    assert all(one.why and one.command for one in found.values())
    assert held(tmp_path) == {name: value.strip() for name, value in FILES.items()}


def test_what_is_set_is_put_back(tmp_path):
    tuner = machine(tmp_path)
    assert {one.status for one in tuner.apply()} == {"ok", "set"}
    assert held(tmp_path) == {
        GOVERNOR.format(0): "performance",
        GOVERNOR.format(1): "performance",
        NO_TURBO: "1",
        ASLR: "2",
        IRQ_DEFAULT: "1",
        "proc/irq/7/smp_affinity": "1",
        "proc/irq/9/smp_affinity": "1",
    }
    assert {one.status for one in tuner.apply()} == {"ok"}, "a second time there is nothing to do"
    assert [one.status for one in tuner.undo()] == ["set"]
    assert held(tmp_path) == {name: value.strip() for name, value in FILES.items()}
    assert [one.said for one in tuner.undo()] == ["nothing was set here"]


def test_what_is_not_permitted_is_told(tmp_path, monkeypatch):
    tuner = machine(tmp_path)
    monkeypatch.setattr(tuning, "_write", lambda path, value: "Permission denied" if "cpufreq" in str(path) else "")
    found = {one.name: one for one in tuner.apply()}
    assert found["governor"].status == "left" and found["governor"].why == "Permission denied"
    assert GOVERNOR.format(0) not in tuner._before()


def test_nothing_is_set_that_cannot_be_noted_down(tmp_path):
    tuner = machine(tmp_path)
    tuner.kept = tmp_path / NO_TURBO / "kept.json"
    assert {one.status for one in tuner.apply()} == {"ok", "left"}
    assert held(tmp_path) == {name: value.strip() for name, value in FILES.items()}


def test_a_machine_that_offers_little(tmp_path):
    found = {one.name: one for one in Tuner(root=tmp_path, cores=[0]).look()}
    assert {one.status for name, one in found.items() if name != "affinity"} == {"absent"}
    amd = machine(tmp_path, {BOOST: "1\n"})
    assert next(one for one in amd.look() if one.name == "turbo").said.startswith("1 instead of 0")


@pytest.mark.parametrize(
    ("words", "code"), [(["--tune", "--json"], 0), (["--apply"], 64), (["--tune", "--apply", "--undo"], 64)]
)
def test_the_command(words, code):
    whet = str(Path(sys.executable).with_name("whet"))
    done = subprocess.run([whet, "doctor", *words], capture_output=True, text=True, check=False)
    assert done.returncode == code and "Traceback" not in done.stderr
    if code == 0:
        assert {one["name"] for one in json.loads(done.stdout)} >= {"affinity", "governor", "turbo", "interrupts"}
