"""`whet tune` and `auto`: what a measurement may decide, what it may not, and how long it holds."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path

import msgspec
import pytest
from msm_on_gpu import Subject
from whet._native import curve

from scripted_runs import scripted_run
from whet.cli import app
from whet.errors import WhetError
from whet.evidence.record import Outcome
from whet.evidence.tune import LEAST_REPEATS, conclude, exported, table
from whet.gpu import tuned as store
from whet.gpu.adapter import AdapterInfo
from whet.gpu.tuned import Tuned, recall, remember, size_class
from whet.msm import Engine, auto
from whet.msm.variants import choose
from whet.msm.webgpu.candidates import candidates
from whet.msm.webgpu.knobs import Choice
from whet.msm.webgpu.plan import build

ADAPTER = {"key": "gpu-vulkan", "driver": "1.2", "software": False}
EXAMPLE = Path(__file__).parents[2] / "examples" / "saxpy_webgpu.py"


def measured(ratios, refused=(), **changed):
    """A stored run of a, b, c, ... against a, with these ratios."""
    run = scripted_run(1, variants=len(ratios) + 1, refused=refused)
    names = dict(zip(run.variants, "abcdef", strict=False))
    verdicts = [
        msgspec.structs.replace(
            verdict,
            candidate=names[verdict.candidate],
            baseline="a",
            ratio=ratio,
            outcome=verdict.outcome
            if verdict.outcome is Outcome.REFUSED
            else Outcome.FASTER
            if ratio is not None and ratio < 0.9
            else Outcome.UNDECIDED,
        )
        for verdict, ratio in zip(run.verdicts, ratios, strict=True)
    ]
    fields = {
        "variants": list(names.values()),
        "baseline": "a",
        "verdicts": verdicts,
        "gates": [msgspec.structs.replace(gate, variant=names[gate.variant]) for gate in run.gates],
        "samples": [msgspec.structs.replace(s, variant=names[s.variant]) for s in run.samples],
        "environment": {"adapter": ADAPTER},
    }
    return msgspec.structs.replace(run, **{**fields, **changed})


def test_only_a_clear_win_takes_the_defaults_place():
    said = conclude(measured([0.5, 0.2, 0.95]), "a", {"a", "b", "d"})
    assert (said.best, said.best_on_adapter) == ("c", "b")
    assert (said.adapter, said.driver, said.engine) == ("gpu-vulkan", "1.2", "msm")
    undecided = conclude(measured([0.95, 1.5]), "a", {"a", "b"})
    assert (undecided.best, undecided.best_on_adapter) == ("a", "a") and "beyond doubt" in undecided.because


def test_what_was_tried_is_a_table():
    run = measured([0.5, 1.5, None], refused=(3,))
    rows = table(run, conclude(run, "a", {"a", "b"}))
    assert [(row.variant, row.outcome, row.ratio) for row in rows] == [
        ("a", "baseline", None),
        ("b", "FASTER", 0.5),
        ("c", "UNDECIDED", 1.5),
        ("d", "REFUSED", None),
    ]
    assert [row.chosen for row in rows] == ["", "best and best on the adapter", "", ""]
    assert json.loads(exported(rows, csv=False))[1]["time_ns"] == rows[1].time_ns > 0
    assert exported(rows, csv=True).splitlines()[4].split(",")[5:9] == ["d", "", "", "REFUSED"]


def test_a_degenerate_measurement_gives_the_safe_default(tried):
    whole = measured([0.5, 0.5])
    few = [s for s in whole.samples if s.round < LEAST_REPEATS - 1]
    zero = [msgspec.structs.replace(s, wall_ns=0) for s in whole.samples]
    degenerate = [
        measured([0.5, 0.5], samples=[]),
        measured([0.5, 0.5], samples=few),
        measured([0.5, 0.5], samples=zero),
        measured([math.nan, math.nan]),
        measured([0.0, -1.0]),
        measured([None, None]),
    ]
    for run in degenerate:
        said = conclude(run, "a", {"a", "b", "c"})
        assert (said.best, said.best_on_adapter) == ("a", "a"), said
        tried("degenerate measurements")


def test_a_refused_variant_is_never_chosen():
    said = conclude(measured([0.5, 0.7], refused=(1,)), "a", {"a", "b", "c"})
    assert said.best == "c" and "b" not in said.times_ns
    without_gpu = conclude(measured([0.5, 0.7], refused=(0,)), "a", {"a", "b"})
    assert without_gpu.best == "c", "a red default gives way to what runs off the adapter"
    nothing = conclude(measured([0.5, 0.7], refused=(0, 1, 2)), "a", {"a", "b"})
    assert nothing.best == "a" and "degenerate" in nothing.because


@pytest.fixture
def tuned_file(tmp_path, monkeypatch):
    monkeypatch.setenv("WHET_TUNED", str(tmp_path / "folder" / "tuned.json"))
    return tmp_path / "folder" / "tuned.json"


def entry(**changed):
    fields = {
        "engine": "msm",
        "adapter": "gpu-vulkan",
        "driver": "1.2",
        "software": False,
        "best": "coop:g=1",
        "best_on_adapter": "coop:g=1",
        "because": "it was faster",
        "created": "2026-01-01T00:00:00+00:00",
        "run": "r",
        "times_ns": {"walker": 2.0, "coop:g=1": 1.0},
    }
    return Tuned(**{**fields, **changed})


def test_an_entry_holds_for_its_adapter_driver_and_version(tuned_file):
    assert recall("msm") is None
    remember(entry())
    remember(entry(adapter="other", best="walker", created="2026-01-02T00:00:00+00:00"))
    remember(entry(engine="decode", best="x"))
    assert recall("msm", "gpu-vulkan", "1.2").best == "coop:g=1"
    assert recall("msm").adapter == "other", "the newest"
    assert recall("msm", "gpu-vulkan", "1.3") is None
    assert recall("graph") is None
    remember(entry(best="affine", created="2026-01-03T00:00:00+00:00"))
    assert recall("msm", "gpu-vulkan", "1.2").best == "affine"
    assert len(json.loads(tuned_file.read_text())) == 3, "replaced, not added"
    remember(entry(version="0.0.0", created="2026-09-09T00:00:00+00:00", adapter="old"))
    assert recall("msm", "old") is None


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[1]", b"\xff\xfe", b"[" * 100_000, b'[{"engine": "msm"}]', b"null", b'{"a": 1}']
)
def test_a_corrupted_file_is_left_out_with_a_warning(tuned_file, content, tried):
    tuned_file.parent.mkdir()
    tuned_file.write_bytes(content)
    with pytest.warns(RuntimeWarning, match="whet tune"):
        assert recall("msm") is None
    with pytest.warns(RuntimeWarning):
        remember(entry())
    assert recall("msm").best == "coop:g=1", "written anew"
    tried("malformed inputs")


def test_a_file_that_cannot_be_written_is_explained(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("WHET_TUNED", str(tmp_path / "file" / "tuned.json"))
    with pytest.raises(WhetError, match="cannot be written") as caught:
        remember(entry())
    assert "WHET_TUNED" in caught.value.cure


def chosen(where, adapter="", n=1 << 12):
    return auto.measured_variant(where, adapter, lambda: n)


def test_size_classes_are_bands_of_two_powers():
    assert [size_class(n) for n in (0, 1, 2, 7, 8, 2**11 - 1, 2**11, 2**12, 2**13 - 1, 2**13, 2**16)] == [
        *(0, 0, 2, 2, 4, 10, 12, 12, 12, 14, 16)
    ]


def test_a_choice_holds_for_its_size_class_alone(tuned_file, monkeypatch):
    here = AdapterInfo("gpu-vulkan", "GPU", "1.2", "Vulkan", "DiscreteGPU", False, (), {})
    monkeypatch.setattr(auto, "choose_adapter", lambda wanted: (here, None))
    many = "walker:slots=4,threads=65536"
    remember(entry(size_class=12))
    remember(entry(size_class=16, best=many, best_on_adapter=many))
    assert [chosen("webgpu", n=1 << power) for power in (10, 11, 12, 13, 14, 15, 16, 18)] == [
        *("walker", "coop:g=1", "coop:g=1", "walker", "walker", many, many, "walker")
    ]
    assert chosen("auto", n=1 << 16) == many and chosen("auto", n=1 << 18) == "auto"
    remember(entry(size_class=16, created="2026-01-05T00:00:00+00:00"))
    assert chosen("webgpu", n=1 << 16) == "coop:g=1", "replaced"
    assert len(json.loads(tuned_file.read_text())) == 2


def test_a_file_from_before_the_classes_is_read_as_what_it_was(tuned_file):
    """Trials were at 2^12 then."""
    remember(entry(size_class=16))
    older = json.loads(tuned_file.read_text())
    del older[0]["size_class"]
    tuned_file.write_text(json.dumps(older))
    assert recall("msm", size_class=12).best == "coop:g=1" and recall("msm", size_class=16) is None


def test_candidates_reach_many_threads_and_differ_in_their_programs(tried):
    for power in (0, 10, 16, 18):
        offered = [choose(text) for text in candidates(1 << power)]
        plans = [build(1 << power, Choice.of(one.name, one.knobs), wide=True).program for one in offered]
        programs = {(plan.steps, plan.constants["params"].tobytes()) for plan in plans}
        assert str(offered[0]) == "walker" and len(programs) == len(offered)
        tried("plans", len(programs))
    threads = {choose(text).knobs.get("threads", 0) for text in candidates(1 << 18)}
    assert {16384, 65536} <= threads
    knobs = {knob for text in candidates(1 << 18) for knob in choose(text).knobs if choose(text).knobs[knob]}
    assert {"slots", "threads", "tpb", "scratch", "g", "multiply"} <= knobs


def test_auto_means_the_measured_choice(tuned_file, monkeypatch, tried):
    here = AdapterInfo("gpu-vulkan", "GPU", "1.2", "Vulkan", "DiscreteGPU", False, (), {})
    asked = []
    monkeypatch.setattr(auto, "choose_adapter", lambda wanted: asked.append(wanted) or (here, None))
    assert chosen("webgpu") == "walker" and chosen("auto") == "auto"
    assert not asked, "without an entry no driver is loaded"
    remember(entry())
    assert chosen("webgpu", "gpu") == "coop:g=1" == chosen("auto")
    assert chosen("cpu") == "auto"
    for wrong in (
        {"driver": "9"},
        {"best": "nonsense", "best_on_adapter": "walker:tpb=7"},
        {"version": "0"},
        {"best": "", "best_on_adapter": ""},
    ):
        store.tuned_file().unlink()
        remember(entry(**wrong))
        assert chosen("webgpu") == "walker" and chosen("auto") == "auto", wrong
        tried("entries that do not hold")
    remember(entry(best="affine"))
    assert chosen("auto") == "auto", "the CPU's own preference"


@pytest.mark.gpu
@pytest.mark.xdist_group("gpu")
def test_an_engine_takes_the_measured_variant(device, tuned_file):
    subject = Subject.of("random", 20)
    points = curve.write_points(subject.points)
    with Engine(points, device="webgpu") as engine:
        assert str(engine.variant) == "walker"
    chosen = "walker:threads=64,multiply=portable"
    about = {"adapter": device.info.key, "driver": device.info.driver, "size_class": size_class(20)}
    remember(entry(**about, best="affine", best_on_adapter=chosen))
    with Engine(points, device="webgpu") as engine:
        assert str(engine.variant) == chosen
        assert engine.compute(subject.limbs).to_bytes() == subject.expected
    with Engine(points) as engine:
        assert engine.variant.name == "affine"


@pytest.mark.gpu
@pytest.mark.xdist_group("gpu")
def test_the_command_measures_keeps_and_says_so(device, tuned_file, tmp_path, capsys):
    words = ["tune", str(EXAMPLE), "--n", "256", "--store", str(tmp_path / "runs.sqlite"), "--json"]
    app.invoke(words)
    (said,) = json.loads(capsys.readouterr().out)["tuned"]
    assert said["adapter"] == device.info.key and said["driver"] == device.info.driver
    assert said["best"] in ("small", "large") and set(said["times_ns"]) == {"small", "large"}
    assert recall("saxpy", device.info.key, device.info.driver).best == said["best"]


@pytest.mark.gpu
@pytest.mark.xdist_group("gpu")
def test_the_sum_is_measured_on_both_sides(device, tuned_file, tmp_path, capsys):
    words = ["tune", "msm", "--n", "64", "--most", "2", "--store", str(tmp_path / "runs.sqlite"), "--json"]
    app.invoke([*words, "--export", str(tmp_path / "tried.csv")])
    printed = json.loads(capsys.readouterr().out)
    (said,) = printed["tuned"]
    with (tmp_path / "tried.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["variant"] for row in rows] == ["walker", "affine"] == [row["variant"] for row in printed["tried"]]
    assert all(row["size_class"] == "6" and row["adapter"] == device.info.key for row in rows)
    assert [row["time_ns"] for row in rows] == [str(said["times_ns"].get(row["variant"], "")) for row in rows]
    assert "best on the adapter" in rows[0]["chosen"] and rows[0]["outcome"] == "baseline"
    assert set(said["times_ns"]) in ({"walker", "affine"}, set()), (
        "none where the machine was too busy for three repeats"
    )
    assert said["best_on_adapter"] == "walker", "the only one of them that runs there"
    assert said["best"] in (min(said["times_ns"], key=said["times_ns"].get, default="walker"), "walker")
    assert recall("msm", device.info.key, device.info.driver, 6).best == said["best"]


def test_an_engine_without_candidates_says_so(capsys):
    with pytest.raises(WhetError, match="nothing to choose"):
        app.invoke(["tune", "graph"])
