"""`whet msm`: the right point from made-up input and from files, checked; every mistake explained."""

from __future__ import annotations

import dataclasses
import json
import random

import pytest

import point_files as pf
from whet.cli import app
from whet.errors import BadInput, ExitCode, OracleMismatch, Unsupported, WhetError
from whet.msm import Srs, checked_sums, sum_inputs
from whet.msm.point import Point

POINTS = pf.multiples(7)


@pytest.fixture
def files(tmp_path):
    rng = random.Random(4)
    values = [rng.randrange(pf.R) for _ in range(7)]
    (tmp_path / "pot.ptau").write_bytes(pf.ptau(POINTS))
    (tmp_path / "w.wtns").write_bytes(pf.wtns(values))
    (tmp_path / "s.txt").write_text("\n".join(map(str, values)))
    return tmp_path, values


def multiple(total: int) -> tuple[int, int]:
    result, base = None, (1, 2)
    while total:
        if total & 1:
            result = pf.add(result, base)
        base, total = pf.add(base, base), total >> 1
    return result


def run_json(capsys, *arguments) -> dict:
    assert app.invoke(["msm", *map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def coordinates(document: dict) -> tuple[int, int]:
    return int(document["point"]["x"], 16), int(document["point"]["y"], 16)


def test_the_program_computes_checks_and_prints(whet):
    ended = whet("msm", "--n", "2^7", "--seed", "5")
    assert ended.code == 0 and ended.err == ""
    names = [line.split()[0] for line in ended.out.splitlines()]
    assert names == ["x", "y", "points", "variant", "time", "check"]
    assert "128 (profile random, seed 5)" in ended.out and "points per second" in ended.out
    assert "known logarithms" in ended.out


def test_the_program_explains_a_mistake(whet, tmp_path):
    (tmp_path / "bad.ptau").write_bytes(pf.ptau(POINTS)[:-1])
    (tmp_path / "s.txt").write_text("1\n")
    arguments = ["--points", "bad.ptau", "--scalars", "s.txt", "--scalars-format", "text"]
    whet("msm", *arguments).assert_explained(ExitCode.USAGE, "bad.ptau", "section 15", "fetch it again")


def test_made_up_input_hangs_on_the_seed(capsys):
    first = run_json(capsys, "--n", "100", "--seed", "9")
    again = run_json(capsys, "--n", "100", "--seed", "9", "--variant", "plain")
    other = run_json(capsys, "--n", "100", "--seed", "10")
    assert first["check"]["kind"] == "known-multiples"
    assert first["point"] == again["point"] != other["point"]
    assert again["variant"] == "plain" and first["n"] == 100 and first["source"]["seed"] == 9
    drawn = run_json(capsys, "--n", "50", "--profile", "collide")
    repeated = run_json(capsys, "--n", "50", "--profile", "collide", "--seed", drawn["source"]["seed"])
    assert drawn["point"] == repeated["point"]


def test_a_sum_over_files(files, capsys):
    folder, values = files
    want = multiple(sum(s * (i + 1) for i, s in enumerate(values)) % pf.R)
    document = run_json(capsys, "--points", folder / "pot.ptau", "--scalars", folder / "w.wtns")
    assert coordinates(document) == want
    assert document["check"] == {"kind": "whole", "text": "equal to the whole sum computed by variant plain"}
    assert (document["source"]["points_format"], document["source"]["scalars_format"]) == ("ptau", "wtns")
    for variant in ("plain", "pippenger"):
        arguments = ["--points", folder / "pot.ptau", "--scalars", folder / "s.txt", "--scalars-format", "text"]
        document = run_json(capsys, *arguments, "--variant", variant)
        assert coordinates(document) == want
        assert not document["check"]["text"].endswith(f"variant {variant}")  # never its own check


def test_a_part_of_the_files(files, capsys):
    folder, values = files
    arguments = ["--points", folder / "pot.ptau", "--scalars", folder / "w.wtns"]
    document = run_json(capsys, *arguments, "--offset", 2, "--scalars-offset", 1, "--count", 3)
    assert coordinates(document) == multiple(sum(s * (i + 3) for i, s in enumerate(values[1:4])) % pf.R)
    document = run_json(capsys, *arguments, "--section", "alpha", "--count", 2)
    shifted = [(POINTS * 4)[3 + i] for i in range(2)]
    logs = [POINTS.index(point) + 1 for point in shifted]
    assert coordinates(document) == multiple(sum(s * k for s, k in zip(values, logs, strict=False)) % pf.R)


def test_the_point_is_written(files, capsys):
    folder, values = files
    want = multiple(sum(s * (i + 1) for i, s in enumerate(values)) % pf.R)
    for endian in ("little", "big"):
        arguments = ["--points", folder / "pot.ptau", "--scalars", folder / "w.wtns", "--out", folder / "out"]
        run_json(capsys, *arguments, "--out-endian", endian)
        assert (folder / "out").read_bytes() == pf.affine(want, endian)


def test_infinity_is_said_in_words(capsys):
    assert app.invoke(["msm", "--n", "0"]) == 0
    assert "infinity" in capsys.readouterr().out
    assert run_json(capsys, "--n", "0")["point"]["infinity"] is True


def test_a_small_budget_means_a_sample_and_says_so(files, capsys):
    folder, _ = files
    arguments = ["--points", folder / "pot.ptau", "--scalars", folder / "w.wtns", "--seed", 3]
    document = run_json(capsys, *arguments, "--check-seconds", "1e-9")
    assert "random sample of 1 of 7 points (seed 3)" in document["check"]["text"]
    assert "the whole sum was not computed again" in document["check"]["text"]
    assert document["check"]["kind"] == "part"
    assert run_json(capsys, *arguments, "--check-seconds", "0")["check"]["text"] == "none: --check-seconds 0"


def test_sums_beyond_one_call_go_in_chunks(files, capsys, monkeypatch):
    folder, values = files
    monkeypatch.setattr(sum_inputs, "MAX_N", 4)
    monkeypatch.setattr(sum_inputs, "STRETCH", 3)
    document = run_json(capsys, "--points", folder / "pot.ptau", "--scalars", folder / "w.wtns")
    assert coordinates(document) == multiple(sum(s * (i + 1) for i, s in enumerate(values)) % pf.R)
    assert document["check"]["text"].startswith("summed in chunks; of points ")
    assert document["check"]["kind"] == "part"


def test_a_wrong_sum_is_never_printed(files, capsys, monkeypatch):
    """Every variant but the checker lies; each kind of check must notice, and exit code 3 says so."""
    folder, _ = files
    honest = checked_sums.Summands.compute

    def lying(self, variant=None):
        timed = honest(self, variant)
        return timed if variant else dataclasses.replace(timed, point=Point(1, 2))

    monkeypatch.setattr(checked_sums.Summands, "compute", lying)
    paths = ["--points", str(folder / "pot.ptau"), "--scalars", str(folder / "w.wtns")]
    for arguments in (["--n", "20"], paths, [*paths, "--check-seconds", "1e-9"]):
        with pytest.raises(OracleMismatch) as caught:
            app.invoke(["msm", *arguments, "--out", str(folder / "out")])
        assert caught.value.exit_code == ExitCode.REFUSED
        assert capsys.readouterr().out == "" and not (folder / "out").exists()


def test_prepared_points_are_mapped_and_checked_by_another_kernel(files, capsys):
    folder, values = files
    with Srs.open(folder / "pot.ptau") as srs:
        srs.prepare().save(folder / "pot.prepared")
    paths = ["--points", folder / "pot.prepared", "--scalars", folder / "w.wtns"]
    want = multiple(sum(s * (i + 1) for i, s in enumerate(values)) % pf.R)
    document = run_json(capsys, *paths)
    assert coordinates(document) == want and document["source"]["points_format"] == "prepared"
    assert (
        "equal to the whole sum computed by backend" in document["check"]["text"]
        or "only one kernel" in document["check"]["text"]
    )
    part = run_json(capsys, *paths, "--offset", 2, "--count", 3, "--check-seconds", "1e-9")
    assert coordinates(part) == multiple(sum(s * (i + 3) for i, s in enumerate(values[:3])) % pf.R)
    assert "on the first 1 of 3 points" in part["check"]["text"] or "only one kernel" in part["check"]["text"]
    for wrong in (["--variant", "plain"], ["--section", "tau"], ["--offset", "1"], ["--points-format", "raw-le"]):
        with pytest.raises(BadInput):
            app.invoke(["msm", *map(str, paths), *wrong])
    with pytest.raises(BadInput, match="prepared"):
        Srs.open(folder / "pot.prepared")
    (folder / "pot.prepared").write_bytes((folder / "pot.prepared").read_bytes()[:-1])
    with pytest.raises(WhetError):
        app.invoke(["msm", *map(str, paths)])


def test_the_table_of_formats(capsys):
    assert app.invoke(["msm", "--list-formats"]) == 0
    shown = capsys.readouterr().out
    for word in ("ptau", "gnark-dump", "halo2", "eip196", "wtns", "text", "lagrange"):
        assert word in shown
    rows = json.loads("".join([(app.invoke(["msm", "--list-formats", "--json"]) and "") or capsys.readouterr().out]))
    assert {"name", "kind", "description", "magic", "sections", "usual_name"} == set(rows[0])


def test_every_mistake_is_explained(files, tried):
    folder, _ = files
    paths = ["--points", f"{folder}/pot.ptau", "--scalars", f"{folder}/w.wtns"]
    mistakes = [
        [],
        ["--n", "many"],
        ["--n", "-1"],
        ["--n", "2^23"],
        ["--n", "2^999999999"],
        ["--n", "9", "--profile", "z"],
        ["--n", "9", "--seed", "-1"],
        ["--n", "9", "--variant", "nonsense"],
        ["--n", "9", "--variant", "pippenger:c=99"],
        ["--n", "9", "--variant", "pippenger:d=1"],
        ["--n", "9", "--section", "a"],
        ["--n", "9", "--count", "3"],
        ["--n", "9", "--out", f"{folder}/no/such/folder"],
        ["--n", "9", *paths],
        paths[:2],
        paths[2:],
        [*paths, "--profile", "A"],
        [*paths, "--count", "8"],
        [*paths, "--count", "-1"],
        [*paths, "--offset", "1"],
        [*paths, "--offset", "x"],
        [*paths, "--scalars-offset", "9"],
        [*paths, "--section", "g2"],
        [*paths, "--seed", "-4"],
        [*paths, "--points-format", "zkey"],
        [*paths, "--points-format", "nope"],
        [*paths, "--scalars-format", "ptau"],
        [*paths, "--check-points", "checksum"],
        ["--points", f"{folder}/w.wtns", "--scalars", f"{folder}/pot.ptau"],
        ["--points", str(folder), "--scalars", f"{folder}/w.wtns"],
        ["--points", f"{folder}/none", "--scalars", f"{folder}/none"],
    ]
    for arguments in mistakes:
        with pytest.raises(BadInput) as caught:
            app.invoke(["msm", *arguments])
        assert caught.value.cause and caught.value.cure and caught.value.exit_code == ExitCode.USAGE
    with pytest.raises(Unsupported):
        app.invoke(["msm", "--n", "9", "--device", "abacus"])
    for arguments in (["--n", "9", "--threads", "0"], [*paths, "--check-seconds", "-1"], ["--nonsense"]):
        with pytest.raises(app.click.UsageError):
            app.invoke(["msm", *arguments])
    tried("malformed inputs", len(mistakes) + 4)


def test_a_memory_budget_changes_the_way_and_not_the_sum(files, capsys):
    free = run_json(capsys, "--n", "3000", "--seed", "3")
    for budget in ("1.5MB", "64MiB"):
        assert run_json(capsys, "--n", "3000", "--seed", "3", "--memory-budget", budget)["point"] == free["point"]
    folder, values = files
    want = multiple(sum(s * (i + 1) for i, s in enumerate(values)) % pf.R)
    given = ["--points", folder / "pot.ptau", "--scalars", folder / "w.wtns", "--memory-budget", "2MB"]
    document = run_json(capsys, *given)
    assert coordinates(document) == want and document["check"]["kind"] == "whole"


def test_a_memory_budget_that_is_too_small_names_the_floor(whet):
    ended = whet("msm", "--n", "3000", "--memory-budget", "100kB")
    ended.assert_explained(ExitCode.USAGE, "100,000 bytes is too small", "give at least")
    whet("msm", "--n", "9", "--memory-budget", "much").assert_explained(ExitCode.USAGE, "--memory-budget 'much'")
    whet("msm", "--n", "9", "--memory-budget", "9MB", "--variant", "plain").assert_explained(
        ExitCode.ENVIRONMENT, "takes no memory budget"
    )
