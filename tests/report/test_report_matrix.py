"""Several devices in one picture: what stands in each cell, and what never does."""

from __future__ import annotations

import msgspec
import pytest

from scripted_runs import scripted_matrix, scripted_run, scripted_sweep
from whet.evidence.environment import differences
from whet.evidence.growth import growths
from whet.evidence.history import histories
from whet.evidence.record import Outcome
from whet.evidence.report import render_report
from whet.evidence.report.matrix import matrices


def changed(run, candidate, **more):
    verdicts = [msgspec.structs.replace(v, **more) if v.candidate == candidate else v for v in run.verdicts]
    return msgspec.structs.replace(run, verdicts=verdicts)


def test_every_device_variant_and_size_has_its_cell():
    (matrix,) = matrices(scripted_matrix())
    assert matrix.sizes == ["n=2^10", "n=2^12", "n=2^14"]
    assert [place.device for place in matrix.places] == ["lab:laptop", "lab:phone", "lab:tablet"]
    assert matrix.places[1].about == "qualcomm adreno-7xx"
    for place in matrix.places:
        assert [line.variant for line in place.lines] == list(scripted_run(1).variants)
        assert all(len(line.cells) == 3 for line in place.lines)
    for line in matrix.places[2].lines:
        assert line.cells[2] is None, "the tablet was not measured at that size"
    runs = {(run.device, run.case.sizes["n"]): run for run in scripted_matrix()}
    for place in matrix.places:
        for column, size in enumerate((1024, 4096, 16384)):
            run = runs.get((place.device, size))
            for verdict in run.verdicts if run else ():
                (line,) = [one for one in place.lines if one.variant == verdict.candidate]
                cell = line.cells[column]
                assert cell.outcome == verdict.outcome.lower()
                if verdict.ratio is not None:
                    assert float(cell.text.rstrip("×")) == pytest.approx(verdict.ratio, rel=0.01)


def test_a_refused_variant_has_no_time_and_no_bar():
    (matrix,) = matrices(scripted_matrix())
    cell = matrix.places[2].lines[2].cells[1]
    assert (cell.outcome, cell.text, cell.time, cell.width, cell.best) == ("refused", "refused", "", 0.0, False)


def test_bars_go_left_for_faster_and_share_a_scale():
    first, second, *rest = scripted_matrix()
    name = first.variants[1]
    one = changed(first, name, ratio=0.5, outcome=Outcome.FASTER)
    other = changed(second, name, ratio=2.0, outcome=Outcome.SLOWER)
    (matrix,) = matrices([one, other, *rest])
    (phone,) = [place for place in matrix.places if place.device == "lab:phone"]
    faster, slower, _ = phone.lines[1].cells
    assert (faster.left, faster.width) == (0.0, 50.0) and (slower.left, slower.width) == (50.0, 50.0)


def test_what_to_take_is_what_is_faster_beyond_doubt_else_the_baseline():
    def taken(run):
        (matrix,) = matrices([run, *scripted_matrix()[3:]])
        (phone,) = [place for place in matrix.places if place.device == "lab:phone"]
        return [line.variant for line in phone.lines if line.cells[0].best]

    run = scripted_matrix()[0]
    assert taken(run) == [run.variants[2]]
    assert taken(changed(run, run.variants[2], outcome=Outcome.UNDECIDED)) == [run.variants[1]]
    doubtful = [msgspec.structs.replace(v, outcome=Outcome.SAME) for v in run.verdicts]
    assert taken(msgspec.structs.replace(run, verdicts=doubtful)) == [run.variants[0]]


def test_the_latest_run_of_a_point_counts():
    runs = scripted_matrix()
    again = changed(runs[0], runs[0].variants[1], ratio=0.25)
    again = msgspec.structs.replace(again, created="2099-01-01T00:00:00+00:00", id="later")
    for order in ([again, *runs], [*runs, again]):
        (matrix,) = matrices(order)
        assert next(p for p in matrix.places if p.device == "lab:phone").lines[1].cells[0].text.startswith("0.25")


def test_one_device_is_no_matrix_and_several_are_one_picture():
    assert matrices(scripted_sweep()) == [] and 'class="matrix"' not in render_report(scripted_sweep())
    source = render_report(scripted_matrix())
    assert source.count('class="matrix"') == 1 and source.count('<td class="cell') == 27
    hostile = msgspec.structs.replace(scripted_matrix()[0], device="lab:<script>")
    assert "<script" not in render_report([hostile, *scripted_matrix()[1:]])


def test_kinds_of_machines_are_places_of_their_own():
    """Runs that came home from a cluster have the same device; neither growth nor history may mix them."""
    runs = [
        msgspec.structs.replace(
            run,
            id=f"{run.id}-{kind}-{again}",
            device="cpu",
            environment={"cluster": {"kind": kind, "machine": f"h{again}", "address": f"h:{again}"}},
        )
        for kind in ("epyc", "graviton")
        for again, run in enumerate(scripted_sweep())
    ]
    (matrix,) = matrices(runs)
    assert [place.device for place in matrix.places] == ["cpu on epyc", "cpu on graviton"]
    assert sorted("epyc" in picture.title for picture in growths(runs)) == [False, True]
    assert histories(runs) == [], "no kind has two runs of one case"
    assert differences(runs[0].environment, runs[1].environment) == []
    assert [one.field for one in differences(runs[0].environment, runs[-1].environment)] == ["cluster.kind"]
