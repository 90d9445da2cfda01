"""The growth of a sweep: lines, exponents and crossings."""

from __future__ import annotations

import msgspec
import pytest
from page_reader import Page

from scripted_runs import scripted_run, scripted_sweep
from whet.evidence.growth import Line, Point, crossings_of, fitted_exponent, growths
from whet.evidence.report import render_report
from whet.evidence.report.scale import duration_marks, size_label
from whet.protocol import Case


def line(name: str, *times: float) -> Line:
    return Line(name, tuple(Point(10**k, ns, ns, ns) for k, ns in enumerate(times)), None)


def test_a_sweep_has_a_line_per_variant_and_names_its_crossings():
    (picture,) = growths(scripted_sweep())
    assert picture.axis == "n" and [one.variant for one in picture.lines] == list(scripted_run(1).variants)
    assert [one.exponent for one in picture.lines] == pytest.approx([1.0, 0.75, 1.12], abs=0.02)
    assert [text.partition(" at ")[0] for text in picture.crossings] == [
        "pippenger overtakes plain",
        "pippenger overtakes pippenger:glv=true",
    ]
    source = render_report(scripted_sweep())
    assert source.count('class="curve ') == source.count('class="band ') == 3
    assert "How the variants grow with n" in Page(source).words
    assert "pippenger overtakes plain at about n = 2,700" in Page(source).words


def test_a_crossing_is_where_the_lines_meet():
    assert crossings_of(line("a", 100, 100, 100), line("b", 10, 100, 1000)) == [(pytest.approx(10), "a", "b")]
    assert crossings_of(line("a", 100, 1000), line("b", 10, 100)) == []


def test_what_cannot_be_told_apart_does_not_cross():
    touching = crossings_of(line("a", 100, 100, 100, 100), line("b", 10, 99.5, 100.5, 10))
    assert touching == []
    (found,) = crossings_of(line("a", 100, 100, 100, 100), line("b", 10, 99.5, 100.5, 1000))
    assert found[1:] == ("a", "b") and 10 < found[0] < 100


def test_one_size_is_no_growth():
    assert growths([scripted_run(1), scripted_run(2)]) == []
    assert "How the variants grow" not in render_report([scripted_run(1), scripted_run(2)])


def test_runs_that_differ_otherwise_are_kept_apart():
    small, large = scripted_sweep((256, 1024))
    other = msgspec.structs.replace(large, device="webgpu")
    assert growths([small, other]) == []
    two = [
        msgspec.structs.replace(run, case=Case(sizes={"n": n, "m": m}))
        for run, n, m in ((small, 4, 8), (large, 8, 8), (small, 4, 16))
    ]
    assert sorted((picture.axis, picture.title) for picture in growths(two)) == [
        ("m", "msm, n=4, profile random, cpu"),
        ("n", "msm, m=8, profile random, cpu"),
    ]


def test_a_red_variant_has_no_line():
    runs = [
        msgspec.structs.replace(scripted_run(k, refused=(2,)), case=Case(sizes={"n": 2**k}, profile="random"))
        for k in (4, 8)
    ]
    (picture,) = growths(runs)
    assert [one.variant for one in picture.lines] == ["plain", "pippenger"]


def test_fitted_exponent():
    assert fitted_exponent([(n, 5.0 * n**1.5) for n in (10, 100, 1000)]) == pytest.approx(1.5)
    assert fitted_exponent([(10, 5.0)]) is None and fitted_exponent([]) is None


def test_labels():
    assert [size_label(n) for n in (1, 64, 128, 1000, 4096)] == ["1", "64", "2^7", "1,000", "2^12"]
    assert [label for _, label in duration_marks(3e3, 3e6)] == ["10.0 µs", "100 µs", "1.00 ms"]
    for low, high in ((1, 1.05), (1e3, 1.3e3), (1, 1e12)):
        assert len(duration_marks(low, high)) <= 6
