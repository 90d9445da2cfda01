"""What the page says about noise, blocks, isolation, floors, tails and errors; and that older runs still show."""

from __future__ import annotations

import re

import msgspec
import pytest
from page_reader import Page

from scripted_runs import blocked_run, scripted_run
from whet import units
from whet.evidence import remarks, statistics
from whet.evidence.headline import headline
from whet.evidence.record import CONTROL, EMPTY, Export, Gate, Outcome, Run, Warning
from whet.evidence.report import render_report
from whet.evidence.report.blocks import block_ratios
from whet.evidence.report.export import as_csv, as_markdown
from whet.protocol import Tolerance


def words(run: Run) -> str:
    return Page(render_report([run])).words


def with_outcomes(run: Run, outcome: Outcome, *ratios: float) -> Run:
    verdicts = [
        msgspec.structs.replace(v, outcome=outcome, ratio=ratio, low=ratio * 0.98, high=ratio * 1.02)
        for v, ratio in zip(run.verdicts, ratios, strict=True)
    ]
    return msgspec.structs.replace(run, verdicts=verdicts)


def test_the_arms_that_are_no_variants_have_no_row_among_them():
    run = blocked_run(1)
    assert {CONTROL, EMPTY} <= {sample.variant for sample in run.samples}
    shown = words(run)
    assert CONTROL not in shown and EMPTY not in shown
    assert "plain, once more" in shown


def test_the_control_arm_is_the_noise_floor():
    run = blocked_run(1)
    source = render_report([run])
    assert source.count('class="noise-band"') == len(run.verdicts) + 1
    assert "NOISE FLOOR1.00× (0.981 to 1.03)" in words(run)
    assert "plain against itself: 1.00 (0.981 to 1.03); a ratio inside that interval may be noise" in words(run)
    bare = msgspec.structs.replace(run, control=None)
    assert "noise-band" not in render_report([bare]).partition("</style>")[2]


def test_every_block_is_a_dot_with_its_cores():
    run = blocked_run(1, blocks=7)
    source = render_report([run])
    for number in range(7):
        assert f"block {number + 1}, core {number % 2}, 8 rounds" in source
    dots = block_ratios(run, "pippenger")
    assert [dot.kind for dot in dots] == [0, 1, 0, 1, 0, 1, 0]
    assert all(0.7 < dot.ratio < 0.9 for dot in dots)
    assert "48 rounds in 6 blocks" in words(blocked_run(1)) and "block on core 1" in words(run)


def test_a_block_ratio_pairs_rounds():
    """A block in which everything takes twice as long says the same as the others."""
    run = blocked_run(1)
    slow = [msgspec.structs.replace(s, wall_ns=s.wall_ns * 2) if s.block == 2 else s for s in run.samples]
    before, after = (block_ratios(one, "pippenger") for one in (run, msgspec.structs.replace(run, samples=slow)))
    assert [dot.ratio for dot in after] == pytest.approx([dot.ratio for dot in before])


def test_a_weaker_isolation_is_said_where_it_is_seen():
    assert "Isolation weaker than usual" not in words(blocked_run(1))
    shown = words(blocked_run(1, weaker=True))
    line = "Isolation weaker than usual. system call filter: the kernel refused it (EINVAL)."
    assert shown.index(line) < shown.index("Time against")
    assert "own process ids" in shown


def test_tails_that_say_the_opposite_are_in_the_headline():
    calm, wild = blocked_run(2), blocked_run(2, tails=True)
    assert "slower" not in headline(calm).detail and remarks.opposite(calm.verdicts[1]) == []
    assert "But its mean says slower: 1.69 times the baseline's." in headline(wild).detail
    source = render_report([wild])
    assert source.count('<strong class="opposite">') == 1 and "opposite" not in words(wild)
    tails = wild.tails["pippenger:glv=true"]
    assert all(f">{units.duration(shown)}<" in source for shown in (tails.mean, tails.p90))
    # 48 turns have no slowest hundredth.
    assert f">{units.duration(tails.p99)}<" not in source and 'data-label="p99">-<' in source


def test_the_page_asks_the_same_statistics_as_the_verdict():
    run = blocked_run(1)
    ours = msgspec.structs.replace(run, tails={})
    for name in run.variants:
        found = statistics.tails(remarks.times_of(run, name))
        assert remarks.tails_of(ours, name) == found
        assert f">{units.percent(found.spread)}<" in render_report([ours])


def test_a_variant_at_the_floor_is_told_and_no_other():
    run = blocked_run(1)
    told = "at the floor: nothing left to gain (reading the inputs once takes 2.40 ms)"
    assert [remarks.at_floor(run, name) for name in run.variants] == ["", "", told]
    assert words(run).count("at the floor") == 1


def test_error_and_tolerance_stand_beside_the_time():
    run = blocked_run(1)
    table = words(run).partition("Time per call")[2].partition("Every repeat")[0]
    assert "34.0 %" in table and "67.0 %" in table and "1e-09 plus 1e-06 of the expected value" in table
    exact = msgspec.structs.replace(run, tolerance=Tolerance(), errors=dict.fromkeys(run.variants, 0.0))
    assert "equal to the bit" in words(exact)
    assert "Largest error" not in words(msgspec.structs.replace(run, errors={}))


def test_variants_are_explained():
    assert "how pippenger goes about it, in one line" in words(blocked_run(1))


def test_warnings_are_counted_as_they_are_shown():
    two = [Warning(kind="noisy", seen=f"{name} spreads", why="w", advice="a") for name in ("x", "y")]
    other = Warning(kind="background load", seen="load 3", why="w", advice="a")
    run = msgspec.structs.replace(scripted_run(1), warnings=[*two, other])
    source = render_report([run])
    boxes = source.partition('<ul class="warnings">')[2].partition("</ul>")[0].count("<li>")
    assert boxes == 2 and "2 warnings" in words(run)


def test_checks_are_said_in_words():
    run = scripted_run(1)
    gates = [Gate(variant=name, green=True, full_checks=29, digest_checks=163) for name in run.variants]
    shown = words(msgspec.structs.replace(run, gates=gates))
    assert shown.count("29 of 163 outputs") == 3 and "87 of 489 outputs checked by the oracle" in shown
    assert "igest" not in shown


def test_a_round_is_counted_the_same_everywhere():
    run = scripted_run(1, variants=3, repeats=17)
    shown = words(run)
    assert "17 rounds" in shown and "17, in each of which every variant ran once" in shown
    assert set(re.findall(r"(\d+) rounds", shown)) == {"17"}


def test_a_baseline_that_wins_is_no_alarm():
    run = with_outcomes(blocked_run(1), Outcome.SLOWER, 1.31, 1.24)
    said = headline(run)
    assert said.text == "Ship plain: the next best, pippenger:glv=true, takes 1.24 times as long"
    assert (said.outcome, said.colour) == (Outcome.SLOWER, "faster")
    source = render_report([run])
    assert '<section class="hero faster">' in source and "BASELINE WINS" in source
    alone = msgspec.structs.replace(run, verdicts=run.verdicts[:1])
    assert headline(alone).text == "Ship plain: pippenger takes 1.31 times as long"


def test_the_word_is_ship_everywhere():
    for outcome in (Outcome.SAME, Outcome.SLOWER, Outcome.REFUSED, Outcome.FASTER):
        said = headline(with_outcomes(blocked_run(1), outcome, 1.0, 1.0))
        assert said.text.startswith("Ship ") and "Keep" not in said.text


def test_an_older_run_shows_what_it_has():
    run = scripted_run(1, variants=5, refused=(4,))
    shown = words(msgspec.structs.replace(run, schema_version=1))
    for absent in ("NOISE FLOOR", "Isolation", "Blocks", "Largest error", "once more", "never examined"):
        assert absent not in shown
    assert "p99" in shown and "How it was measured" in shown


def test_exports_have_the_new_fields():
    run = blocked_run(1, weaker=True)
    header, first = as_csv(Export(runs=[run])).splitlines()[:2]
    assert header.endswith("digest,block,outside_ns") and first.endswith(str(run.samples[0].outside_ns))
    text = as_markdown(Export(runs=[run]))
    assert "Noise floor: plain against itself" in text and "Isolation weaker than usual" in text
    assert "4 of 48 outputs" in text
