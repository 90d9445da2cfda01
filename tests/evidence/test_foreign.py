"""Times to and from pyperf and hyperfine, by the tools themselves."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess

import pyperf
import pytest

from scripted_runs import blocked_run
from whet.errors import BadInput
from whet.evidence.foreign import as_hyperfine, as_pyperf, read_foreign
from whet.evidence.headline import headline
from whet.evidence.record import Export, Outcome
from whet.evidence.remarks import tails_of, times_of
from whet.evidence.report import render_report


def test_pyperf_reads_what_is_written(tmp_path):
    run = blocked_run(5)
    path = tmp_path / "out.json"
    path.write_text(as_pyperf(Export(runs=[run])))
    suite = pyperf.BenchmarkSuite.load(str(path))
    assert len(suite.get_benchmarks()) == len(run.variants)
    for name, benchmark in zip(run.variants, suite.get_benchmarks(), strict=True):
        assert benchmark.get_name().endswith(name)
        assert benchmark.median() == pytest.approx(statistics.median(times_of(run, name)) / 1e9, rel=1e-9)
        assert benchmark.get_nrun() == 6 and benchmark.get_nvalue() == len(times_of(run, name))


def test_what_pyperf_writes_is_read(tmp_path):
    path = tmp_path / "suite.json"
    runs = [pyperf.Run([0.001 * (1 + k), 0.0012], metadata={"name": "sum"}, collect_metadata=False) for k in range(3)]
    pyperf.BenchmarkSuite([pyperf.Benchmark(runs)]).dump(str(path))
    run = read_foreign(path)
    assert run.variants == ["sum"] and len(run.samples) == 6 and len(run.design.blocks) == 3
    assert tails_of(run, "sum").median == pytest.approx(1e6 * statistics.median([1, 1.2, 2, 1.2, 3, 1.2]))
    assert headline(run).label == "IMPORTED" and "oracle" not in headline(run).text


def test_hyperfine_and_back(tmp_path):
    if shutil.which("hyperfine") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("hyperfine is missing: tools/install-system brings it")
        pytest.skip("hyperfine is missing")
    path = tmp_path / "results.json"
    words = ["hyperfine", "-N", "-r", "4", "--export-json", str(path), "sleep 0.01", "sleep 0.02"]
    subprocess.run(words, check=True, capture_output=True)
    run = read_foreign(path)
    told = json.loads(path.read_text())["results"]
    assert run.variants == ["sleep 0.01", "sleep 0.02"]
    for one in told:
        assert tails_of(run, one["command"]).median == pytest.approx(one["median"] * 1e9, rel=1e-6)
    written = json.loads(as_hyperfine(Export(runs=[run])))["results"]
    for ours, theirs in zip(written, told, strict=True):
        for key in ("mean", "stddev", "median", "min", "max", "user", "system"):
            assert ours[key] == pytest.approx(theirs[key], rel=1e-6, abs=1e-9), key


def test_what_was_imported_has_no_verdict_and_no_gate(tmp_path):
    path = tmp_path / "results.json"
    results = [{"command": name, "times": [value] * 9} for name, value in (("slow", 2.0), ("fast", 1.0))]
    path.write_text(json.dumps({"results": results}))
    run = read_foreign(path)
    assert [one.outcome for one in run.verdicts] == [Outcome.UNDECIDED] and run.verdicts[0].ratio is None
    assert [warning.kind for warning in run.warnings] == ["never gated"]
    page = render_report([run])
    assert "✓ green" not in page and "Every output was judged" not in page and "no verdict" in page


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"results": []}',
        '{"results": [{"command": "a", "times": [-1]}]}',
        '{"results": [{"command": "a", "times": ["x"]}]}',
        '{"results": [{"command": "a", "times": [1e400]}]}',
        '{"benchmarks": [{"runs": [{"values": [1]}], "metadata": {"name": "m", "unit": "byte"}}], "version": "1.0"}',
        '{"benchmarks": 5, "version": "1.0"}',
    ],
)
def test_files_that_are_neither(tmp_path, text, tried):
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(BadInput):
        read_foreign(path)
    with pytest.raises(BadInput, match="cannot be read"):
        read_foreign(tmp_path / "none.json")
    tried("malformed inputs")
