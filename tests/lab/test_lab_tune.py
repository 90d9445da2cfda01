"""`whet tune` on a device elsewhere: what is tried there, and a table that the web package ships."""

from __future__ import annotations

import itertools
import json
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner
from simulated import FACTS, Page, saxpy
from test_lab_devices import SAXPY, lab

from needs import needed
from whet.cli.app import root
from whet.cli.tune import _is_for_gpus
from whet.evidence.registry import load
from whet.gpu.tuned import Tuned
from whet.msm.webgpu.web_table import web_table
from whet.protocol import Case, parse_variant

TUNED_JS = Path(__file__).parents[2] / "web" / "src" / "tuned.js"
ADAPTER = {"vendor": "qualcomm", "architecture": "adreno-7xx"}


def tuned(best, size_class=12, software=False):
    return Tuned(
        engine="msm",
        adapter="x",
        driver="y",
        software=software,
        best=best,
        best_on_adapter=best,
        because="",
        created="",
        run="",
        times_ns={},
        size_class=size_class,
    )


@pytest.mark.parametrize("power", [10, 12, 16, 18])
def test_what_is_tried_spans_accumulator_slots_threads_and_scratch(power):
    """At every size class: each accumulator, each kind of scratch, and several slots and threads where they differ."""
    engine = load("msm").engine
    offered = [text for text in engine.candidates(Case(sizes={"n": 2**power})) if _is_for_gpus(engine, text)]
    chosen = [parse_variant(engine, text) for text in offered]
    assert offered[0] == "walker" and "affine" not in offered
    assert {one.name for one in chosen} == {"walker", "pairs", "coop"}
    walkers = [one.knobs for one in chosen if one.name == "walker"]
    assert {knobs.get("scratch", "private") for knobs in walkers} == {"private", "workgroup", "device"}
    assert {knobs.get("slots", 8) for knobs in walkers} >= {2, 4, 8, 16}
    assert len({knobs.get("threads", 0) for knobs in walkers}) >= (3 if power >= 16 else 2)
    if power >= 16:
        crossed = {(knobs.get("slots", 8), knobs.get("threads", 0)) for knobs in walkers}
        assert crossed >= set(itertools.product((2, 4), (16384, 65536))) | {(8, 16384), (16, 16384), (4, 0)}


def test_the_table_is_one_that_the_web_package_takes(tmp_path):
    """Read by the package's own code under node: the adapter and the size class find their variant."""
    from test_lab_ways_in import executable_of

    node = needed(lambda: executable_of("node", "nodejs"))
    found = [
        tuned("coop:g=1", 12),
        tuned("walker:multiply=portable,slots=4,threads=16384", 16),
        tuned("pairs", 18, True),
    ]
    (tmp_path / "table.mjs").write_text(web_table(found, ADAPTER))
    script = f"""
        const {{ TABLE }} = await import({json.dumps((tmp_path / "table.mjs").as_uri())});
        const {{ bestVariant }} = await import({json.dumps(TUNED_JS.as_uri())});
        const {{ Choice }} = await import({json.dumps((TUNED_JS.parent / "choice.js").as_uri())});
        const adapter = {json.dumps(ADAPTER)};
        const at = async (n) => await bestVariant(adapter, "x", n, null, {{ table: TABLE }});
        for (const {{ variant }} of TABLE) Choice.parse(variant);
        console.log(JSON.stringify([TABLE.length, await at(2 ** 12), await at(2 ** 16)]));
    """
    done = subprocess.run(
        [node, "--input-type=module", "-e", script], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [
        2,
        {"variant": "coop:g=1", "from": "table"},
        {"variant": "walker:slots=4,threads=16384", "from": "table"},
    ]


def test_software_is_left_out_and_what_is_not_for_browsers_is_refused(tmp_path):
    assert web_table([tuned("walker", software=True)], ADAPTER) == "export const TABLE = [\n];\n"
    for words in (["msm"], [str(SAXPY), "--device", "lab:phone"]):
        done = CliRunner().invoke(root, ["tune", *words, "--n", "64", "--export", str(tmp_path / "t.js")])
        assert "web package" in str(done.exception)


def test_a_software_adapter_elsewhere_gets_few_candidates(tmp_path, monkeypatch):
    """Whatever the device is called: it is the adapter that says so."""
    monkeypatch.setenv("WHET_LAB", str(tmp_path / "lab.sock"))
    asked = []
    monkeypatch.setattr(
        "whet.cli.tune._measured", lambda loaded, case, most, *_, **__: asked.append((case, most)) or 1 / 0
    )

    def software(header, parts):
        told, read = saxpy(header, parts)
        return ({"facts": {**FACTS, "fallback": True}} if header["kind"] == "open" else told), read

    with lab(operator_path=tmp_path / "lab.sock") as server:
        page = Page(server.port, "phone", software).start()
        for more in ([], ["--most", "5", "--n", "2^8"]):
            done = CliRunner().invoke(
                root, ["tune", "msm", "--device", "lab:phone", "--store", str(tmp_path / "s"), *more]
            )
            assert isinstance(done.exception, ZeroDivisionError)
        page.stop()
    assert [(case.sizes["n"], most) for case, most in asked] == [(2**12, 3), (2**8, 5)]
