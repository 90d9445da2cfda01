"""The command, the terminal tree, the timeline page and the trace."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pytest

from regions_launch import Launch, rich_schema_text
from scripted_runs import scripted_run
from whet.cli.app import invoke
from whet.errors import BadInput, ExitCode, OracleMismatch, Unsupported, WhetError
from whet.evidence.report import render_report
from whet.regions import timeline_fragment
from whet.regions.accounting import account
from whet.regions.capture import About, from_legacy, load, save
from whet.regions.reducer import reduce
from whet.regions.schema import builtin
from whet.regions.sources import from_stages
from whet.regions.terminal import bar
from whet.regions.ticks import tick_time
from whet.regions.timeline import axis_marks
from whet.regions.trace import to_trace

READ = ["--slice-ctas", "8", "--num-k-tiles", "8", "--num-seqs", "1", "--tick-source", "globaltimer"]


@pytest.fixture
def whet(capsys):
    def run(*arguments):
        code = invoke(["regions", *map(str, arguments)])
        return code, capsys.readouterr().out

    return run


@pytest.fixture(scope="module")
def launch():
    return Launch(wo_split=2, trips=5)


@pytest.fixture(scope="module")
def capture(launch):
    schema = builtin("coop-20")
    about = About(total_ns=float(launch.span), launch={"layer": 3})
    return from_legacy(
        launch.legacy(20), schema, schema.grid({**launch.grid, "wo_split": 2}), "globaltimer", about=about
    )


@pytest.fixture
def saved(capture, tmp_path):
    return save(capture, tmp_path / "a.npz")


def test_the_acceptance_command_writes_the_published_bytes(whet, shared_data, tmp_path):
    folder = shared_data / "regions"
    out = tmp_path / "out.csv"
    code, text = whet(
        "reduce", "--legacy", folder / "region_timings.npy", *READ, "--total-us", "40635.606", "--csv", out
    )
    assert code == ExitCode.OK
    assert out.read_bytes() == (folder / "region_breakdown.csv").read_bytes()
    assert "CONDITIONAL 36.0 %, dominant: W_O GEMV" in text and "no precondition was checked" in text

    code, text = whet("reduce", folder / "region_timings.npy", *READ, "--total-us", "40635.606")
    assert code == ExitCode.REFUSED
    assert "UNSUPPORTED" in text and "coverage 0.405 (needs 0.95)" in text and "step 32 (detected)" in text
    assert re.search(r"22\.7 ms between region 6 \(\w+\) and region 7 \(\w+\) on 64 of 64 workers", text)

    prediction = tmp_path / "p.json"
    code, text = whet(
        "predict",
        folder / "region_timings.npy",
        *READ,
        "--change",
        "region=wo_gemv factor=8",
        "--prediction",
        prediction,
    )
    assert code == ExitCode.OK and "ceiling:   37.9 %" in text and "not added to it" in text
    assert json.loads(prediction.read_text())["waits"][0]["cause_worker"] == 0


def test_the_legacy_table_without_a_total_has_no_verdict(whet, tmp_path, launch):
    np.save(tmp_path / "b.npy", launch.legacy(11))
    code, text = whet("reduce", "--legacy", tmp_path / "b.npy", *READ, "--csv", tmp_path / "t.csv")
    assert code == ExitCode.REFUSED and "UNSUPPORTED: no verdict without --total-us" in text
    assert (tmp_path / "t.csv").read_text().splitlines()[1].endswith(",,")


def test_a_buffer_that_nobody_wrote_is_refused_everywhere(whet, tmp_path):
    np.save(tmp_path / "z.npy", np.zeros((64, 11, 2), dtype=np.int64))
    read = [tmp_path / "z.npy", *READ, "--total-us", "5"]
    code, text = whet("reduce", *read)
    assert code == ExitCode.REFUSED and "nothing was written" in text and "did not run" in text
    with pytest.raises(BadInput, match="no data for phase1_wo_gemv"):
        whet("reduce", "--legacy", *read)
    code, text = whet("show", *read, "--html", tmp_path / "z.html", "--trace", tmp_path / "z.json")
    assert code == ExitCode.OK and "Nothing was recorded" in (tmp_path / "z.html").read_text()
    assert json.loads((tmp_path / "z.json").read_text())["traceEvents"]
    code, text = whet("show", *read)
    assert code == ExitCode.OK
    with pytest.raises(BadInput, match="no time was recorded"):
        whet("predict", tmp_path / "z.npy", *READ, "--change", "region=2 factor=2")


def test_reduce_judges_a_good_capture_and_keeps_the_record(whet, saved, tmp_path):
    record = tmp_path / "r.json"
    asked = ["--override", "NO-GO", "--override-by", "owner", "--override-reason", "budget"]
    code, text = whet("reduce", saved, "--record", record, "--csv", tmp_path / "t.csv", *asked)
    assert code == ExitCode.OK and re.search(r"STRONG GO \d\d\.\d %", text) and "overridden to NO-GO by owner" in text
    kept = json.loads(record.read_text())["verdict"]
    assert kept["bracket"] == "STRONG GO" and kept["override"]["bracket"] == "NO-GO"
    assert len((tmp_path / "t.csv").read_text().splitlines()) == 21
    code, text = whet("reduce", saved, "--json")
    assert json.loads(text)["table"]["coverage"] > 0.99
    code, text = whet("reduce", saved, "--launch", "layer=7")
    assert code == ExitCode.REFUSED and "another launch was captured: layer is 3, described as 7" in text
    code, text = whet("reduce", saved, "--min-coverage", "1.0")
    assert code == ExitCode.REFUSED


def test_each_of_two_tags_has_its_verdict_below_one_table(whet, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tags = {"load": ["memory"], "add": ["arithmetic"]}
    save(from_stages([{"load": 250, "add": 750}] * 3, totals_ns=[1001] * 3, tags=tags), "two.npz")
    code, text = whet("reduce", "two.npz", "--record", "two.json")
    assert code == ExitCode.OK and text.count("share of worker time") == 1
    assert re.search(r"STRONG GO 7\d\.\d % of the critical path is arithmetic\n  dominant: add", text)
    assert re.search(r"2\d\.\d % of the critical path is memory\n  dominant: load", text)
    kept = json.loads((tmp_path / "two.json").read_text())
    assert [one["tag"] for one in kept["verdicts"]] == ["arithmetic", "memory"] and kept["verdict"] is None
    code, text = whet("reduce", "two.npz", "--tag", "memory")
    assert code == ExitCode.OK and "memory" in text and "path is arithmetic" not in text
    with pytest.raises(BadInput, match="several tags: arithmetic, memory"):
        whet("reduce", "two.npz", "--override", "PROCEED", "--override-by", "me", "--override-reason", "so")


def test_a_schema_file_serves_where_no_builtin_does(whet, tmp_path, launch):
    np.save(tmp_path / "b.npy", launch.legacy(13))
    (tmp_path / "mine.toml").write_text(builtin_text_of("coop-13"))
    code, text = whet("reduce", tmp_path / "b.npy", "--schema", tmp_path / "mine.toml", *READ, "--grid", "wo_split=2")
    assert code == ExitCode.REFUSED and "mine: 64 workers" in text and "8/8" in text


def builtin_text_of(name):
    from whet.regions.schema import builtin_text

    return builtin_text(name).replace(f'name = "{name}"', 'name = "mine"', 1)


MISTAKES = {
    "no file": ["reduce", "absent.npy"],
    "no schema for the count": ["reduce", "odd.npy", *READ],
    "grid is words": ["reduce", "b.npy", "--grid", "slice_ctas=many"],
    "grid is not pairs": ["reduce", "b.npy", "--grid", "8x8"],
    "grid twice": ["reduce", "b.npy", *READ, "--grid", "slice_ctas=4"],
    "unknown axis": ["reduce", "b.npy", *READ, "--grid", "warp=4"],
    "unknown clock": ["reduce", "b.npy", *READ[:-1], "sundial"],
    "unknown tag": ["reduce", "b.npy", *READ, "--tag", "hot"],
    "thresholds": ["reduce", "b.npy", *READ, "--thresholds", "1,2"],
    "override without a reason": ["reduce", "b.npy", *READ, "--override", "PROCEED"],
    "override to nowhere": [
        "reduce",
        "b.npy",
        *READ,
        "--override",
        "YES",
        "--override-by",
        "a",
        "--override-reason",
        "b",
    ],
    "range": ["show", "b.npy", *READ, "--workers", "0-7"],
    "range beyond": ["show", "b.npy", *READ, "--workers", "0..64"],
    "total of nothing": ["reduce", "b.npy", *READ, "--total-us", "nan"],
    "negative total": ["reduce", "b.npy", *READ, "--total-us", "-5"],
    "parameter too large": ["reduce", "b.npy", *READ, "--schema", "coop-13", "--grid", "wo_split=2^80"],
    "predict nothing": ["predict", "b.npy", *READ],
    "predict and check": ["predict", "b.npy", "b.npy", *READ, "--check", "--change", "region=2 factor=2"],
    "check one": ["predict", "--check", "b.npy", *READ],
    "check without a prediction": ["predict", "--check", "b.npy", "b.npy", *READ],
    "script that is not there": ["capture", "absent.py"],
    "script that fails": ["capture", "fails.py", "--out", "x.npz"],
    "script that exits": ["capture", "exits.py", "--out", "x.npz"],
    "script without regions": ["capture", "silent.py", "--out", "x.npz"],
    "engine that is not there": ["capture", "no-engine"],
    "capture to csv": ["capture", "silent.py", "--out", "x.csv"],
    "tax of nothing": ["tax", "silent.py"],
    "tax of an absent function": ["tax", "silent.py:work"],
    "unknown schema": ["schema", "coop-12"],
}


@pytest.mark.parametrize("what", MISTAKES)
def test_a_mistake_gets_a_cause_and_a_cure(what, tmp_path, monkeypatch, launch, tried):
    np.save(tmp_path / "b.npy", launch.legacy(11))
    np.save(tmp_path / "odd.npy", np.zeros((64, 12, 2), dtype=np.int64))
    (tmp_path / "fails.py").write_text("raise RuntimeError('no')\n")
    (tmp_path / "exits.py").write_text("raise SystemExit(3)\n")
    (tmp_path / "silent.py").write_text("x = 1\n")
    (tmp_path / "x.npz").write_text("an older capture")
    monkeypatch.chdir(tmp_path)
    with pytest.raises((BadInput, Unsupported)) as caught:
        invoke(["regions", *MISTAKES[what]])
    assert isinstance(caught.value, WhetError) and caught.value.cure
    if "x.npz" in MISTAKES[what]:
        assert not (tmp_path / "x.npz").exists(), "a failed capture must not leave an older one behind"
    tried("malformed inputs", 1)


SCRIPT = """
from whet.regions import record
import sys
def work():
    total = 0.0
    for trip in range(34):
        with record("scale", tags=("hot",)):
            total += sum(range(400))
        with record("sum"):
            total *= 0.5
    return [total, len(sys.argv)]
if __name__ == "__main__":
    work()
"""


def test_a_script_is_captured_and_taxed(whet, tmp_path):
    script = tmp_path / "mine.py"
    script.write_text(SCRIPT)
    out = tmp_path / "kept.npz"
    code, text = whet("capture", "--out", out, "--", script, "--flag", "value")
    assert code == ExitCode.OK and "wrote" in text
    kept = load(out)
    assert kept.about.launch == {"script": "mine.py", "arguments": "--flag value"}
    assert kept.cells["count"].tolist() == [[34, 34]]
    code, text = whet("tax", f"{script}:work", "--rounds", "5")
    assert code == ExitCode.OK and "run-to-run spread" in text and "equal to the bit in 15 runs" in text
    code, text = whet("tax", f"{script}:work", "--rounds", "5", "--json")
    assert json.loads(text)["rounds"] == 5


def test_planted_fault_a_function_that_notices_the_recording_is_caught(whet, tmp_path, tried):
    script = tmp_path / "liar.py"
    script.write_text("from whet.regions.recorder import OFF, record\ndef work():\n    return record('a') is OFF\n")
    with pytest.raises(OracleMismatch):
        whet("tax", f"{script}:work", "--rounds", "5")
    tried("planted faults", 1)


ENGINE = """
import numpy as np
from whet.protocol import Case, Engine, Output, Timing, VariantSpec
class Tiny(Engine):
    name = "tiny"
    def cases(self): return [Case(sizes={"n": 4})]
    def variants(self): return [VariantSpec("plain", "the only one")]
    def outputs(self, case): return {"out": Output((case.sizes["n"],), np.int64)}
    def prepare(self, case, seed): return {"x": np.arange(case.sizes["n"])}
    def run(self, variant, state, inputs, outputs): outputs["out"][:] = inputs["x"]
    def oracle(self, case, fixed_seed, seed, inputs): return {"out": inputs["x"].copy()}
    def timing(self, state): return Timing(device_ns=1000, regions_ns={"load": 400, "sum": 580})
"""


def test_an_engine_file_is_captured_by_its_stage_times(whet, tmp_path):
    (tmp_path / "tiny.py").write_text(ENGINE)
    out = tmp_path / "e.npz"
    code, text = whet("capture", f"{tmp_path / 'tiny.py'}:Tiny", "plain", "--n", "2^3", "--repeats", "3", "--out", out)
    assert code == ExitCode.OK and "3 repeats" in text and "coverage 0.980" in text and "assumed" in text
    assert load(out).about.launch["case"] == "n=8 profile=random"
    code, text = whet("reduce", out)
    assert code == ExitCode.OK and "no verdict: no region carries a tag" in text


def test_the_msm_engine_is_captured_by_its_own_stages(whet, tmp_path):
    out = tmp_path / "msm.npz"
    code, text = whet("capture", "msm", "affine", "--n", "2^8", "--repeats", "3", "--out", out)
    assert code == ExitCode.OK and "3 repeats" in text
    counted = account(load(out))
    assert len(counted.rows) == 3 and all(row.roots and row.doubled == 0 for row in counted.rows)


def test_the_decode_engine_is_captured_worker_by_worker(whet, tmp_path):
    """The kernel's own sheet of one call, recorded without being told to: real places in time, no stage lengths."""
    out = tmp_path / "decode.npz"
    code, text = whet("capture", "decode", "fused:workers=2", "--repeats", "2", "--out", out)
    assert code == ExitCode.OK and "2 workers" in text and "assumed" not in text
    captured = load(out)
    counted = account(captured)
    assert counted.coverage >= 0.95 and len(counted.rows) == 2
    assert "timing=true" in captured.about.launch["variant"] and captured.about.launch["engine"] == "decode"
    used = {region.region: region.active_workers for region in reduce(captured).rows}
    assert used["norm"] == used["wait_project"] == used["wait_fc1"] == 2 and used["gather"] == 1


def test_a_prediction_is_stated_and_checked_from_the_command_line(whet, tmp_path):
    schema = tmp_path / "rich.toml"
    schema.write_text(rich_schema_text())
    from whet.regions.capture import CELL, make_capture
    from whet.regions.schema import load_schema

    for name, factor in (("before", 1), ("after", 8)):
        made = Launch(trips=3, wo_ns=1_400_000 // factor)
        about = About(tick_source="globaltimer", grid={**made.grid, "trips": 3}, launch={"layer": 3})
        save(make_capture(made.cells(CELL), load_schema(schema), about), tmp_path / f"{name}.npz")
    before, after = tmp_path / "before.npz", tmp_path / "after.npz"
    code, text = whet("predict", before, "--change", "region=wo_gemv factor=8")
    assert code == ExitCode.OK and "predicted:" in text
    code, text = whet("predict", "--check", before, after)
    assert code == ExitCode.OK and text.startswith("HELD: measured")
    code, text = whet("predict", before, "--change", "region=wo_gemv factor=8", "--change", "region=fc1 factor=100")
    code, text = whet("predict", "--check", before, after, "--tolerance", "0.02")
    assert code == ExitCode.SLOWER and text.startswith("SHORT")


def test_the_trace_holds_every_piece_and_an_arrow_per_released_wait(capture, launch):
    trace = json.loads(to_trace(account(capture)))
    events = trace["traceEvents"]
    complete = [e for e in events if e["ph"] == "X"]
    named = {}
    for event in complete:
        named.setdefault(event["name"], []).append(event)
    assert len(named["grid_barrier_wait"]) == 64 and len(named["phase1_wo_gemv"]) == 8
    assert all(e["dur"] >= 0 and e["ts"] >= 0 for e in complete)
    waited = sorted(e["dur"] * 1000 for e in named["grid_barrier_wait"])
    assert waited == pytest.approx(sorted(launch.total(w, 4) for w in range(64)))
    starts, ends = ([e for e in events if e["ph"] == kind] for kind in "sf")
    assert len(starts) == len(ends) and {e["tid"] // 3 for e in starts if e["name"] == "grid_barrier_wait"} == {
        launch.last_arriver[0]
    }
    tracks = {}
    for event in complete:
        tracks.setdefault(event["tid"], []).append((event["ts"], event["ts"] + event["dur"]))
    for tid, spans in tracks.items():
        if tid % 3 == 0:
            ordered = sorted(spans, key=lambda s: (s[0], -s[1]))
            for (_, b), (c, d) in pairwise(ordered):
                assert c >= b - 1e-6 or d <= b + 1e-6, "pieces of one track nest or follow each other"


class Boxes(HTMLParser):
    def __init__(self):
        super().__init__()
        self.boxes, self.open = [], []

    def handle_starttag(self, tag, attributes):
        self.open.append(tag) if tag not in ("meta",) else None
        if tag == "i":
            self.boxes.append(dict(attributes))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_timeline_shows_waits_holes_and_the_path_and_needs_nothing_else(whet, shared_data, tmp_path):
    page = tmp_path / "t.html"
    whet("show", shared_data / "regions" / "region_timings.npy", *READ, "--html", page)
    text = page.read_text()
    parser = Boxes()
    parser.feed(text)
    assert parser.open == []
    kinds = [box.get("class") for box in parser.boxes]
    assert kinds.count("wr-wait") >= 60 and kinds.count("wr-hole") >= 64 and kinds.count("wr-path") >= 2
    assert "22.7 ms between region 6" in text and "0.405" in text
    assert not re.search(r"https?://|<script|@import|url\(", text)
    for box in parser.boxes:
        places = dict(re.findall(r"(left|width|bottom|height):([\d.]+)%", box.get("style", "")))
        if "left" in places:
            assert float(places["left"]) + float(places["width"]) <= 100.01
            assert float(places.get("bottom", 0)) + float(places.get("height", 0)) <= 100.2


def test_names_from_a_capture_cannot_break_out_of_the_page():
    capture = from_stages([{"<script>alert(1)</script>": 10, '"><b>': 20}], totals_ns=[40])
    text = timeline_fragment(capture)
    assert "<script" not in text and "<b>1</b>" in text and "&lt;script&gt;" in text


def test_many_workers_are_thinned_out_and_the_page_says_so(tmp_path, whet):
    made = Launch(slices=16, tiles=16, trips=1)
    np.save(tmp_path / "big.npy", made.legacy(11))
    page = tmp_path / "big.html"
    grid = ["--slice-ctas", "16", "--num-k-tiles", "16", "--num-seqs", "1", "--tick-source", "globaltimer"]
    whet("show", tmp_path / "big.npy", *grid, "--html", page)
    assert re.search(r"9\d of 256 rows shown", page.read_text())
    whet("show", tmp_path / "big.npy", *grid, "--html", page, "--workers", "0..7,255")
    assert "9 of 256 rows shown" in page.read_text()


@pytest.mark.browser
def test_the_page_fits_a_phone(whet, saved, tmp_path):
    playwright = pytest.importorskip("playwright.sync_api")
    page_file = tmp_path / "t.html"
    whet("show", saved, "--html", page_file)
    with playwright.sync_playwright() as play:
        import shutil

        program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
        if program is None:
            pytest.skip("no Chromium on this machine")
        browser = play.chromium.launch(executable_path=program, args=["--no-sandbox"])
        try:
            for width in (360, 1280):
                page = browser.new_page(viewport={"width": width, "height": 800})
                page.goto(page_file.as_uri())
                assert page.evaluate("document.documentElement.scrollWidth") <= width
                assert page.locator(".wr-strip").count() == 64
                strip = page.locator(".wr-strip").first.bounding_box()
                assert strip["width"] > 0.7 * width
        finally:
            browser.close()


def test_ticks_read_as_time_where_they_are_time():
    assert [tick_time(t, "globaltimer") for t in (0, 64, 1920, 14_958_560)] == ["0 ns", "64 ns", "1.92 µs", "15.0 ms"]
    assert tick_time(5e6, "clock64") == "5,000,000 ticks"
    assert tick_time(None, "clock64") == tick_time(None, "globaltimer") == "-"
    for length in (1, 7, 38_583_072, 10**12):
        marks = axis_marks(length, "globaltimer")
        assert marks[0] == (0, "0") and all(0 <= share <= 1 for share, _ in marks) and len(marks) <= 12


def test_bars_never_show_something_as_nothing():
    for role in ("work", "wait", "boundary", "hole"):
        assert bar(1e-9, role).plain and not bar(0, role).plain
        assert len(bar(1.0, role).plain) == len(bar(7.0, role).plain) == 24


def test_a_report_takes_timelines_in():
    first, second = from_stages([{"sort": 300}], totals_ns=[400]), from_stages([{"sum": 30}], totals_ns=[40])
    timelines = {"msm <plain>": timeline_fragment(first), "other": timeline_fragment(second)}
    text = render_report([scripted_run(1)], timelines=timelines)
    assert text.count('<div class="whet-regions">') == 2 and "msm &lt;plain&gt;" in text
    assert "whet-regions" not in render_report([scripted_run(1)])


def test_the_report_command_takes_captures(tmp_path, saved, capsys):
    from whet.cli.report import write_report
    from whet.evidence.record import Export
    from whet.evidence.report.export import as_json
    from whet.graph.observe import Span, write_trace

    (tmp_path / "run.json").write_text(as_json(Export(runs=[scripted_run(1)], decisions=[])))
    asked = ["report", str(tmp_path / "run.json"), "--regions", str(saved), "--store", str(tmp_path / "store.db")]
    assert invoke([*asked, "-o", str(tmp_path / "r.html")]) == ExitCode.OK
    assert "Regions of a.npz" in (tmp_path / "r.html").read_text()
    write_report([scripted_run(1)], tmp_path / "without.html")
    assert "Regions of" not in (tmp_path / "without.html").read_text()
    with pytest.raises(BadInput, match="no place in csv"):
        invoke([*asked, "-o", str(tmp_path / "r.csv")])
    trace = tmp_path / "trace.json"
    write_trace(trace, [Span(0, "first", 0, 10, 20), Span(1, "second", 1, 20, 50)])
    assert invoke([*asked, "--tasks", str(trace), "-o", str(tmp_path / "r.html")]) == ExitCode.OK
    text = (tmp_path / "r.html").read_text()
    assert "Regions of a.npz" in text and "Tasks of trace.json" in text and "<title>first 0:" in text


def test_the_builtin_schemas_can_be_printed_as_a_start(whet):
    code, text = whet("schema")
    assert code == ExitCode.OK and "coop-20: 20 regions" in text
    code, text = whet("schema", "coop-11")
    assert code == ExitCode.OK and 'name = "phase1_wo_gemv"' in text
