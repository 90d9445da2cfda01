"""runs, compare, report, decide and doctor as a user meets them, with good and bad input."""

from __future__ import annotations

import csv
import json
import sqlite3
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scripted_runs import blocked_run, scripted_run
from whet.cli import app, failure, probes
from whet.cli.output import write_text
from whet.errors import ExitCode, StoreError, WhetError
from whet.evidence.record import Export
from whet.evidence.store import Store

RUNS = [
    scripted_run(1, variants=3),
    scripted_run(2, variants=3, scale=3.5),
    scripted_run(3, variants=3, refused=(2,)),
    scripted_run(4, engine="graph"),
]


@pytest.fixture
def stored(tmp_path, whet_env) -> Path:
    path = tmp_path / "runs.sqlite"
    with Store.open(path) as store:
        for run in RUNS:
            store.add(run)
    whet_env["WHET_STORE"] = str(path)
    return path


def test_runs_lists_and_filters(whet, stored):
    shown = whet("runs")
    assert shown.code == 0 and all(run.id in shown.out for run in RUNS)
    assert "Ship pippenger:glv=true" in shown.out
    ids = [row["id"] for row in json.loads(whet("runs", "--json").out)]
    assert ids == [run.id for run in reversed(RUNS)]
    only = json.loads(whet("runs", "--json", "--engine", "msm", "--outcome", "refused").out)
    assert [row["id"] for row in only] == [RUNS[2].id]
    assert len(json.loads(whet("runs", "--json", "--limit", "1").out)) == 1


def test_no_store_is_no_runs_and_makes_none(whet, tmp_path):
    shown = whet("runs", "--store", tmp_path / "none.sqlite")
    assert shown.code == 0 and "no such run" in shown.out
    assert not (tmp_path / "none.sqlite").exists()


def test_report_writes_one_file(whet, stored, tmp_path):
    assert whet("report", "last", RUNS[0].id[:8]).out == "wrote report.html\n"
    page = (tmp_path / "report.html").read_text()
    assert RUNS[3].id in page and RUNS[0].id in page
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".report")] == []


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    target = tmp_path / "report.html"
    target.write_text("before")

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", full)
        with pytest.raises(WhetError, match="No space left") as caught:
            write_text(target, "after")
    assert caught.value.cure and target.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    write_text(target, "after")
    assert target.read_text() == "after"


def test_a_terminal_without_unicode_is_no_obstacle(whet, stored):
    for arguments in (["runs"], ["compare", RUNS[0].id, RUNS[1].id], ["report", "last", "-o", "-"], ["report", "→"]):
        ended = whet(*arguments, PYTHONIOENCODING="ascii", LC_ALL="C")
        assert ended.code in (0, 64) and "Traceback" not in ended.err


def test_exports(whet, stored, tmp_path):
    whole = msgspec.json.decode(whet("report", "last-1", "last", "--format", "json").out, type=Export)
    assert whole.runs == [RUNS[2], RUNS[3]]
    assert whet("report", "last-1", "-o", tmp_path / "x.csv").code == 0
    rows = list(csv.DictReader((tmp_path / "x.csv").open()))
    assert [(row["variant"], int(row["wall_ns"])) for row in rows] == [(s.variant, s.wall_ns) for s in RUNS[2].samples]
    table = whet("report", "last-1", "--format", "md").out
    assert "| pippenger:glv=true | REFUSED |  |  | red |" in table
    assert whet("report", "last", "-o", "-").out.startswith("<!doctype html>")


def test_an_exported_file_is_a_run(whet, stored, tmp_path):
    whet("report", RUNS[0].id, "-o", "base.json")
    shown = whet("compare", "base.json", RUNS[1].id, "--json")
    assert shown.code == 0 and json.loads(shown.out)["before"] == RUNS[0].id
    assert whet("report", "base.json", "-o", "again.json").code == 0
    assert (tmp_path / "again.json").read_text() == (tmp_path / "base.json").read_text()


def test_compare_and_its_exit_codes(whet, stored):
    slower = (RUNS[0].id, RUNS[1].id)
    shown = whet("compare", *slower)
    assert shown.code == 0 and "SLOWER" in shown.out
    assert shown.out.index("environment differs") < shown.out.index("not interleaved") < shown.out.index("SLOWER")
    assert whet("compare", *slower, "--fail-if-slower").code == ExitCode.SLOWER
    assert whet("compare", *reversed(slower), "--fail-if-slower").code == ExitCode.OK
    assert whet("compare", RUNS[0].id, RUNS[2].id, "--fail-if-slower").code == ExitCode.REFUSED
    assert whet("compare", *slower, "--fail-if-slower", "--effect", "0.9").code == ExitCode.UNDECIDED


def test_the_effect_may_come_from_the_settings(whet, stored, tmp_path):
    (tmp_path / "whet.toml").write_text("effect = 0.9\n")
    assert whet("compare", RUNS[0].id, RUNS[1].id, "--fail-if-slower").code == ExitCode.UNDECIDED


def test_repeated_runs_tell_how_far_runs_lie_apart(whet, whet_env, tmp_path):
    """The same code again and again, at last slower by a fifth: the store's history makes the interval narrower."""
    path = tmp_path / "history.sqlite"
    runs = [
        msgspec.structs.replace(blocked_run(seed, blocks=8), engine_sha256="a" * 64, control=None) for seed in range(12)
    ]
    slow = [msgspec.structs.replace(s, wall_ns=int(s.wall_ns * 1.2)) for s in runs[-1].samples]
    runs[-1] = msgspec.structs.replace(runs[-1], samples=slow)
    with Store.open(path) as store:
        for run in runs:
            store.add(run)
    files = []
    for run in runs[-2:]:
        files.append(tmp_path / f"{run.id}.json")
        files[-1].write_text(whet("report", run.id, "--format", "json", "--store", path).out)
    known = json.loads(whet("compare", *files, "--store", path, "--json").out)["changes"]
    alone = json.loads(whet("compare", *files, "--store", tmp_path / "none.sqlite", "--json").out)["changes"]
    assert {change["repeats"] for change in known} == {9} and {change["repeats"] for change in alone} == {0}
    for told, assumed in zip(known, alone, strict=True):
        assert told["outcome"] == "SLOWER" and told["high"] - told["low"] < assumed["high"] - assumed["low"]


def test_two_files_are_compared_without_a_store(whet, stored, tmp_path):
    for run in RUNS[:2]:
        (tmp_path / f"{run.id}.json").write_text(whet("report", run.id, "--format", "json").out)
    stored.write_text("not a store any more, and longer than sixteen bytes")
    done = whet("compare", *(f"{run.id}.json" for run in RUNS[:2]))
    assert done.code == 0 and "SLOWER" in done.out and not done.err


def test_decide_is_kept_and_shown(whet, stored, tmp_path):
    said = whet("decide", RUNS[0].id, "--ship", "plain", "--because", "we trust it")
    assert said.code == 0 and "which this goes against: FASTER" in said.out
    assert "decided: ship plain" in whet("runs").out
    whet("report", RUNS[0].id)
    assert "we trust it" in (tmp_path / "report.html").read_text()
    export = msgspec.json.decode(whet("report", RUNS[0].id, "--format", "json").out, type=Export)
    assert [decision.because for decision in export.decisions] == ["we trust it"]
    assert "because we trust it" in whet("report", RUNS[0].id, "--format", "md").out


BAD_COMMANDS = [
    (["report", "nope"], 64, "nope"),
    (["report"], 64, "Missing argument"),
    (["report", "last", "-o", "x.pdf"], 64, "--format"),
    (["report", "last", "--format", "pdf"], 64, "pdf"),
    (["report", "last", "-o", "no/such/folder/x.html"], 4, "x.html"),
    (["report", "last", "-o", "/dev/full", "--format", "html"], 4, "/dev/full"),
    (["report", "missing.json"], 64, "missing.json"),
    (["report", "bad.json"], 64, "bad.json"),
    (["report", "newer.json"], 64, "newer whet"),
    (["report", "empty.json"], 64, "no run"),
    (["compare", "last"], 64, "Missing argument"),
    (["compare", "last", "last-1"], 64, "different engines"),
    (["compare", "last", "last", "--effect", "2"], 64, "--effect"),
    (["compare", "empty.json", "last"], 64, "0 runs"),
    (["decide", "last"], 64, "--ship"),
    (["decide", "last", "--ship", "warp", "--because", "x"], 64, "warp"),
    (["decide", "last", "--ship", "plain", "--because", " "], 64, "reason"),
    (["decide", "zzz", "--ship", "plain", "--because", "x"], 64, "zzz"),
    (["runs", "--limit", "0"], 64, "--limit"),
    (["runs", "--outcome", "GREAT"], 64, "--outcome"),
    (["runs", "--store", "."], 64, "directory"),
    (["runs", "--store", "bad.json"], 4, "not a run store"),
    (["runs", "--store", "other.sqlite"], 4, "another program"),
    (["runs", "--store", "newer.sqlite"], 4, "newer whet"),
    (["decide", "last", "--ship", "plain", "--because", "x", "--store", "no/runs.sqlite"], 4, "mkdir -p"),
    (["doctor", "--store", "newer.sqlite", "--sideways"], 64, "--sideways"),
]


@pytest.fixture
def odd_files(stored, tmp_path):
    (tmp_path / "bad.json").write_text('{"runs": [{"id": 3}]}' * 40)
    (tmp_path / "empty.json").write_text('{"runs": []}')
    (tmp_path / "newer.json").write_text('{"schema_version": 99, "runs": []}')
    with sqlite3.connect(tmp_path / "other.sqlite") as plain:
        plain.execute("CREATE TABLE x (y)")
    with Store.open(tmp_path / "newer.sqlite") as newer:
        newer._db.execute("PRAGMA user_version = 99")


@pytest.mark.usefixtures("odd_files")
@pytest.mark.parametrize(("arguments", "code", "word"), BAD_COMMANDS)
def test_bad_input_is_explained(whet, tried, arguments, code, word):
    whet(*arguments).assert_explained(code, word)
    tried("malformed inputs")


@pytest.mark.parametrize(
    "command", [["runs"], ["report", "last"], ["compare", "last", "last"], ["ab", "msm", "plain", "pippenger"]]
)
def test_malformed_settings_and_stores_reach_every_command(whet, stored, tmp_path, command, tried):
    whet(*command, WHET_STORE=str(tmp_path)).assert_explained(4, "folder")
    (tmp_path / "whet.toml").write_text("speed = 1\n")
    whet(*command, WHET_STORE="").assert_explained(64, "whet.toml", "speed")
    tried("malformed inputs", 2)


def test_hundreds_of_odd_command_lines(stored, monkeypatch, tmp_path, capsys, tried):
    """In process, for speed: every end is a result or an error that is explained with a documented code."""
    monkeypatch.setenv("WHET_STORE", str(stored))
    monkeypatch.chdir(tmp_path)
    words = st.one_of(
        st.text(max_size=10),
        st.sampled_from([RUNS[0].id, "last", "last-1", "last-99", "--json", "--ship", "plain", "--because", "-o", "-"]),
    )

    @settings(max_examples=300, deadline=None)
    @given(st.sampled_from(["runs", "compare", "report", "decide"]), st.lists(words, max_size=6))
    def attempt(command, arguments):
        try:
            code = app.invoke([command, *arguments])
        except (WhetError, app.click.ClickException, OSError) as error:
            code = failure.explain(error)
            assert code in (ExitCode.USAGE, ExitCode.ENVIRONMENT)
        printed = capsys.readouterr()
        assert code in (0, 4, 64) and "Traceback" not in printed.err
        tried("malformed inputs")

    attempt()


def test_run_ids_complete(whet, stored):
    answer = whet(_WHET_COMPLETE="fish_complete", COMP_WORDS="whet report", COMP_CWORD=RUNS[0].id[:3])
    assert RUNS[0].id in answer.out and RUNS[1].id not in answer.out


def test_doctor_finds_this_machine_fit(whet, stored):
    shown = whet("doctor", "--quick", "--json")
    findings = {row["probe"]: row for row in json.loads(shown.out)}
    assert shown.code == 0
    assert findings["native"]["status"] == "ok" and "runs: 4" in findings["store"]["said"]
    assert all(row["cure"] for row in findings.values() if row["status"] in ("missing", "broken"))
    assert "gpu" not in " ".join(findings)


def test_doctor_exits_4_for_what_is_broken(whet, stored, tmp_path):
    shown = whet("doctor", "--quick", WHET_STORE=str(tmp_path))
    assert shown.code == 4 and "BROKEN" in shown.out and "Traceback" not in shown.out + shown.err
    (tmp_path / "whet.toml").write_text("x = 1")
    broken = [row for row in json.loads(whet("doctor", "--quick", "--json").out) if row["status"] == "broken"]
    assert [row["probe"] for row in broken] == ["settings"] and all(row["cure"] for row in broken)


def test_a_probe_that_fails_is_a_finding():
    def known(_):
        raise StoreError("cause", cure="cure")

    def unknown(_):
        raise RuntimeError("sensor on fire")

    for look, said in ((known, "cause"), (unknown, "RuntimeError: sensor on fire")):
        for required, status in ((True, "broken"), (False, "missing")):
            (found,) = probes.Probe("x", look, required=required).findings(None)
            assert (found.said, found.status) == (said, status) and found.cure


def test_a_crashing_driver_is_missing_not_fatal(monkeypatch):
    monkeypatch.setattr(probes.sys, "executable", "/bin/false")
    (found,) = probes._gpu(None)
    assert found.status == "missing" and found.cure
