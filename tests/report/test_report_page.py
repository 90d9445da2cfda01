"""The HTML page as text: what it says, what it must not say, and that it is whole and safe."""

from __future__ import annotations

import re

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from page_reader import Page

from scripted_runs import NAMES, scripted_run
from whet import units
from whet.errors import BadInput
from whet.evidence.headline import headline
from whet.evidence.record import Decision, Outcome, Run, Sample
from whet.evidence.report import render_report, scale
from whet.evidence.report.across import across


def with_verdict(run: Run, **fields) -> Run:
    return msgspec.structs.replace(run, verdicts=[msgspec.structs.replace(v, **fields) for v in run.verdicts])


@pytest.mark.parametrize("variants", range(1, 13))
def test_every_variant_gate_warning_and_command_is_there(variants):
    run = scripted_run(variants, variants=variants)
    words = Page(render_report([run])).words
    for name in run.variants:
        assert name in words
    assert headline(run).text in words
    for wanted in (run.id, run.command, "close them", "Scripted CPU", "Operating system", run.warnings[0].seen):
        assert wanted in words
    assert words.index(headline(run).text) < words.index("The gate") < words.index("Environment")


def test_a_refused_variant_has_no_time_even_if_a_record_holds_one():
    run = scripted_run(1, variants=3, refused=(2,))
    planted = Sample(variant=NAMES[2], round=0, order=0, seed=1, calls=1, wall_ns=123_456_789, cpu_ns=123_456_789)
    verdicts = [
        v if v.candidate != NAMES[2] else msgspec.structs.replace(v, ratio=0.777, low=0.77, high=0.78)
        for v in run.verdicts
    ]
    run = msgspec.structs.replace(run, samples=[*run.samples, planted] * 6, verdicts=verdicts)
    source = render_report([run])
    assert "123 ms" not in source and "0.777" not in source
    words = Page(source).words
    assert "✕ REFUSED" in words and "no time to show" in words
    failure = run.gates[2].failure
    for wanted in (failure.reason, failure.detail, failure.command, "[1, 3]", "[1, 2]"):
        assert wanted in words


def test_the_page_asks_nothing_of_a_network():
    page = Page(render_report([scripted_run(1), scripted_run(2, refused=(1,))]))
    for tag, attributes in page.tags:
        assert tag not in {"script", "iframe", "img", "object", "embed"}
        for name, value in attributes.items():
            assert name not in {"src", "srcset"} and not name.startswith("on")
            if name == "href":
                assert value.startswith(("#", "data:"))
    policy = [a["content"] for t, a in page.tags if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy[0].startswith("default-src 'none'")
    assert "url(" not in render_report([scripted_run(1)]) and "@import" not in render_report([scripted_run(1)])


def test_the_page_is_small():
    many = render_report([scripted_run(1, variants=12, repeats=1000)])
    assert len(many) < 60_000 + 12 * 1000 * 14


def test_several_runs_have_an_index_with_working_links():
    runs = [scripted_run(seed) for seed in range(4)]
    page = Page(render_report(runs))
    targets = {a["id"] for _, a in page.tags if "id" in a}
    links = [a["href"] for t, a in page.tags if t == "a"]
    assert {f"#run-{run.id}" for run in runs} <= set(links)
    assert {link.removeprefix("#") for link in links} <= targets


def at_size(run: Run, n: int, **changes) -> Run:
    return msgspec.structs.replace(run, case=msgspec.structs.replace(run.case, sizes={"n": n}), **changes)


def test_runs_of_one_engine_are_lined_up_across_cases():
    runs = [at_size(scripted_run(k, refused=(2,) if k == 9 else ()), 2**k) for k in (8, 9, 10)]
    (picture,) = across([*runs, scripted_run(1, engine="graph")])
    assert (picture.engine, picture.baseline) == ("msm", "plain")
    assert [row.where for row in picture.variants["pippenger"]] == [str(run.case) for run in runs]
    assert [row.verdict for row in picture.variants["pippenger:glv=true"]] == [run.verdicts[1] for run in runs]
    words = Page(render_report(runs)).words
    assert "msm across cases" in words and words.index("across cases") < words.index("Time per call")


def test_nothing_to_line_up_makes_no_section():
    assert across([scripted_run(1)]) == []
    assert across([scripted_run(1), scripted_run(2, engine="graph")]) == []
    other = msgspec.structs.replace(scripted_run(3), baseline="other")
    assert across([scripted_run(1), other]) == []


def test_decisions_stand_apart_from_the_verdict():
    run = scripted_run(1)
    decisions = [
        Decision(run_id=run.id, decided="2026-03-01T00:00:00+00:00", ship="plain", because="first thought"),
        Decision(run_id=run.id, decided="2026-03-02T00:00:00+00:00", ship=run.variants[2], because="second thought"),
    ]
    words = Page(render_report([run], {run.id: decisions})).words
    assert words.index(headline(run).text) < words.index("second thought") < words.index("first thought")
    assert "against the verdict" in words and "replaced by a later one" in words
    assert "What people decided" not in render_report([run])


def test_regions_and_memory_show_only_when_present():
    run = scripted_run(1)
    assert "Where the" not in render_report([run])
    run = msgspec.structs.replace(
        run,
        regions={"plain": {"walk": 1_500_000, "wait": 2_000}, "odd": "text", "empty": {}},
        memory={"plain": [{"name": "points", "size_bytes": 3 << 20}, {"name": "odd"}, 7]},
    )
    words = Page(render_report([run])).words
    for wanted in ("Where the time goes", "walk", "1.50 ms", "2.00 µs", "Where the memory goes", "points", "3.00 MiB"):
        assert wanted in words


def test_hostile_text_stays_text():
    evil = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)> {{ 7*7 }} & ]]>"
    run = scripted_run(1, refused=(1,))
    failure = msgspec.structs.replace(run.gates[1].failure, reason=evil, detail=evil, command=evil, got={evil: evil})
    run = msgspec.structs.replace(
        run,
        engine=evil,
        command=evil,
        stopped=evil,
        created=evil,
        environment={evil: {evil: evil}, "plain": evil},
        gates=[run.gates[0], msgspec.structs.replace(run.gates[1], failure=failure), run.gates[2]],
        warnings=[msgspec.structs.replace(run.warnings[0], kind=evil, seen=evil, why=evil, advice=evil)],
        regions={evil: {evil: 1.0}},
    )
    page = Page(render_report([run], {run.id: [Decision(run_id=run.id, decided=evil, ship=evil, because=evil)]}))
    assert not [tag for tag, _ in page.tags if tag in {"script", "img"}]
    assert "49" not in page.words.split()


@settings(max_examples=60, deadline=None)
@given(text=st.text(max_size=80), ratio=st.floats(1e-6, 1e6), spread=st.floats(1.0, 5.0), wall_ns=st.integers(0, 2**62))
def test_any_run_can_be_shown(text, ratio, spread, wall_ns):
    run = with_verdict(scripted_run(1, repeats=3), ratio=ratio, low=ratio / spread, high=ratio * spread, reasons=[text])
    first = msgspec.structs.replace(run.samples[0], wall_ns=wall_ns)
    run = msgspec.structs.replace(run, samples=[first, *run.samples[1:]], command=text, environment={"x": text})
    page = Page(render_report([run]))
    for tag, attributes in page.tags:
        if tag == "line":
            assert all(-0.01 <= float(attributes[x].rstrip("%")) <= 100.01 for x in ("x1", "x2"))


def test_runs_without_anything_timed():
    run = scripted_run(1, variants=2, refused=(0, 1))
    words = Page(render_report([run])).words
    assert "Time per call" not in words and "plain was refused" in words
    assert 'class="row axis"' not in render_report([run])
    bare = msgspec.structs.replace(scripted_run(2), samples=[], verdicts=[], warnings=[], environment={}, gates=[])
    Page(render_report([bare]))
    with pytest.raises(BadInput):
        render_report([])


def test_the_same_runs_give_the_same_bytes():
    assert render_report([scripted_run(1)]) == render_report([scripted_run(1)])


@pytest.mark.parametrize(
    ("outcomes", "expected", "ship"),
    [
        ((Outcome.SAME, Outcome.SLOWER), Outcome.SAME, "plain"),
        ((Outcome.SLOWER, Outcome.SLOWER), Outcome.SLOWER, "plain"),
        ((Outcome.UNDECIDED, Outcome.SLOWER), Outcome.UNDECIDED, None),
        ((Outcome.FASTER, Outcome.UNDECIDED), Outcome.FASTER, "pippenger"),
        ((Outcome.REFUSED, Outcome.REFUSED), Outcome.REFUSED, "plain"),
    ],
)
def test_headline(outcomes, expected, ship):
    run = scripted_run(1)
    verdicts = [msgspec.structs.replace(v, outcome=o) for v, o in zip(run.verdicts, outcomes, strict=True)]
    said = headline(msgspec.structs.replace(run, verdicts=verdicts))
    assert (said.outcome, said.ship) == (expected, ship)


def test_headline_names_rivals_that_cannot_be_told_apart():
    run = scripted_run(1)
    close = [
        msgspec.structs.replace(v, outcome=Outcome.FASTER, ratio=r, low=r - 0.05, high=r + 0.05)
        for v, r in zip(run.verdicts, (0.52, 0.5), strict=True)
    ]
    said = headline(msgspec.structs.replace(run, verdicts=close))
    assert said.ship == "pippenger:glv=true" and "Not told apart from it: pippenger." in said.detail
    assert "2.00 times as fast" in said.text and "1.82 to 2.22 times" in said.detail


@settings(max_examples=300, deadline=None)
@given(st.lists(st.floats(1e-9, 1e9), max_size=8))
def test_ratio_axis(values):
    axis = scale.ratio_scale(values)
    assert 1 <= len(axis.ticks) <= scale.MOST_TICKS + 1
    assert any(abs(tick - 1) < 1e-9 for tick in axis.ticks)
    assert list(axis.ticks) == sorted(set(axis.ticks))
    places = [axis.percent(value) for value in sorted(values)]
    assert places == sorted(places) and all(0 <= place <= 100 for place in places)
    labels = [units.tick(tick) for tick in axis.ticks]
    assert len(set(labels)) == len(labels)


def test_the_style_has_paper_dark_and_phone():
    source = render_report([scripted_run(1)])
    for media in (r"@media print", r"prefers-color-scheme: dark", r"max-width: 46rem"):
        assert re.search(media, source)
