"""A clean capture gets its verdict; every planted fault is refused by the precondition that is there for it."""

from __future__ import annotations

import json
import tomllib

import msgspec
import numpy as np
import pytest

from regions_launch import BASE, Launch, rich_schema_text
from whet.errors import BadInput
from whet.regions.accounting import account
from whet.regions.capture import CELL, About, make_capture
from whet.regions.checks import Limits
from whet.regions.critical import critical_path
from whet.regions.reducer import reduce
from whet.regions.schema import parse
from whet.regions.verdict import Bracket, Override, Thresholds, judge, parse_thresholds

LAUNCH = Launch()


class Planted:
    """A clean capture, open to one fault before it is judged."""

    def __init__(self):
        self.cells = LAUNCH.cells(CELL)
        self.schema = rich_schema_text()
        self.total_ns = LAUNCH.span * 1.02
        self.about = {"tick_source": "globaltimer", "launch": {"layer": 3, "seq_len": 512}, "grid": LAUNCH.grid}
        self.described = {"layer": "3"}

    def judge(self, **options):
        schema = parse(tomllib.loads(self.schema), where="test")
        capture = make_capture(self.cells, schema, About(**self.about, total_ns=self.total_ns))
        return judge(capture, launch=self.described, **options)


def test_a_clean_capture_is_judged_on_its_critical_path():
    verdict = Planted().judge()
    assert verdict.reasons == []
    assert verdict.bracket is Bracket.STRONG_GO and verdict.dominant == "FC1"
    assert verdict.share == pytest.approx(sum(verdict.shares.values()))
    assert 0.9 < verdict.share < 1


def overwrite_loop(p):
    for worker in range(64):
        for region in (7, 8, 9):
            start, end = LAUNCH.events[worker, region][-1]
            p.cells[worker, region] = (start, end, end - start, 1, 1)


def keep_last_ticks_but_count_all(p):
    for worker in range(64):
        start, end = LAUNCH.events[worker, 7][-1]
        p.cells["ticks"][worker, 7] = end - start


def lose_one_trip_of_one_worker(p):
    p.cells["count"][40, 7] -= 1


def blind_row(p):
    for region in (7, 8, 9):
        p.cells["ticks"][50, region] //= 3


def stale_elected(p):
    p.cells[20, 12] = (BASE - 10**9, BASE - 10**9 + 70_016, 70_016, 1, 1)


def stale_buffer(p):
    p.about["window"] = (BASE + 10 * LAUNCH.span, BASE + 12 * LAUNCH.span)


def another_launch(p):
    p.described = {"layer": "7"}


def launch_detail_not_recorded(p):
    p.described = {"batch": "1"}


def no_launch(p):
    p.about["launch"], p.described = {}, {}


def inactive_worker_counted(p):
    p.cells[5, 2] = p.cells[8, 2]
    p.cells["entry"][5, 4] = p.cells["exit"][8, 2]
    p.cells["ticks"][5, 4] = p.cells["exit"][5, 4] - p.cells["entry"][5, 4]


def active_worker_missing(p):
    p.cells[9, 6] = 0


def split_without_effect(p):
    p.about["grid"] = {**LAUNCH.grid, "wo_split": 8}


def mixed_clocks(p):
    p.about["region_tick_source"] = {"fc1": "thread_cpu"}


def cycles(p):
    p.about["tick_source"] = "clock64"


def private_clocks(p):
    p.about["tick_source"] = "thread_cpu"


def wrong_anchor(p):
    p.total_ns = LAUNCH.span * 1.25


def no_anchor(p):
    p.total_ns = None


def offset_clock(p):
    for name in ("entry", "exit"):
        p.cells[name][3] = np.where(p.cells["written"][3] == 1, p.cells[name][3] + 3600 * 10**9, 0)


def nested_region_as_sibling(p):
    p.schema = rich_schema_text({15: ("elected_gather", "work", "elected = true")})


def child_outlasts_its_parent(p):
    p.cells["exit"][0, 15] += 608
    p.cells["ticks"][0, 15] += 608


def parts_exceed_the_whole(p):
    p.cells["ticks"][0, 10] = 640


def tagged_region_never_ran(p):
    p.schema = rich_schema_text({16: ("unused_16", "work", 'elected = true\ntags = ["k_reducible"]')})


def barrier_in_a_loop(p):
    p.cells["count"][:, 4] = 3


def lost_region(p):
    p.cells[:, 9] = 0


FAULTS = {
    overwrite_loop: {"coverage", "loops accumulated"},
    keep_last_ticks_but_count_all: {"coverage"},
    lose_one_trip_of_one_worker: {"loops accumulated"},
    blind_row: {"coverage"},
    stale_elected: {"nothing stale", "coverage", "span"},
    stale_buffer: {"nothing stale"},
    another_launch: {"launch"},
    launch_detail_not_recorded: {"launch"},
    no_launch: {"launch"},
    inactive_worker_counted: {"workers as declared"},
    active_worker_missing: {"workers as declared"},
    split_without_effect: {"workers as declared"},
    mixed_clocks: {"one denominator"},
    cycles: {"one denominator", "span"},
    private_clocks: {"one denominator"},
    wrong_anchor: {"span"},
    no_anchor: {"span"},
    offset_clock: {"span"},
    nested_region_as_sibling: {"coverage"},
    child_outlasts_its_parent: {"nesting"},
    parts_exceed_the_whole: {"nesting"},
    tagged_region_never_ran: {"tag measured"},
    barrier_in_a_loop: {"critical path"},
    lost_region: {"coverage", "workers as declared", "tag measured"},
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_planted_fault_is_refused_by_the_check_that_is_there_for_it(fault, tried):
    planted = Planted()
    fault(planted)
    verdict = planted.judge()
    assert verdict.bracket is Bracket.UNSUPPORTED and verdict.share is None and verdict.dominant is None
    failed = {check.name for check in verdict.checks if not check.held}
    assert FAULTS[fault] <= failed
    assert failed - FAULTS[fault] <= {"nesting", "critical path"}, "another check than the fault's own fails"
    assert all(verdict.reasons)
    tried("planted faults", 1)


def test_an_empty_capture_is_refused():
    planted = Planted()
    planted.cells[:] = 0
    assert planted.judge().reasons == ["nothing was written: no worker recorded any region"]
    assert reduce_of(planted).coverage == 0


def reduce_of(planted):
    schema = parse(tomllib.loads(planted.schema), where="test")
    return reduce(make_capture(planted.cells, schema, About(**planted.about)))


@pytest.mark.parametrize(
    ("share", "bracket"),
    [
        (0.5, "STRONG GO"),
        (0.49999, "PROCEED"),
        (0.4, "PROCEED"),
        (0.39999, "CONDITIONAL"),
        (0.25, "CONDITIONAL"),
        (0.24999, "NO-GO"),
        (0, "NO-GO"),
    ],
)
def test_lower_bounds_belong_to_their_bracket(share, bracket):
    assert Thresholds().bracket(share) == bracket


def test_thresholds_can_be_set_but_not_mixed_up():
    assert parse_thresholds("0.96,0.9,0.1").bracket(0.95) is Bracket.PROCEED
    assert Planted().judge(thresholds=parse_thresholds("0.99,0.98,0.97")).bracket is Bracket.NO_GO
    for text in (
        "",
        "0.5",
        "0.5,0.4",
        "0.4,0.5,0.25",
        "0.5,0.4,nan",
        "2,1,0",
        "a,b,c",
        "0.5,0.4,0.25,0.1",
        "0.5,0.5,0.2",
    ):
        with pytest.raises(BadInput):
            parse_thresholds(text)
    for numbers in ((0, 0.1), (1.5, 0.1), (0.9, 0), (float("nan"), 0.1)):
        with pytest.raises(BadInput):
            Limits(*numbers)


def test_a_missing_tag_raises_and_does_not_read_as_no_go():
    with pytest.raises(BadInput, match="no region carries the tag"):
        Planted().judge(tag="n_reducible")


def test_an_override_stands_beside_the_tool_verdict():
    planted = Planted()
    overwrite_loop(planted)
    override = Override(bracket=Bracket.PROCEED, by="the owner of the kernel", reason="coupled to the barrier")
    kept = json.loads(msgspec.json.encode(planted.judge(override=override)))
    assert kept["bracket"] == "UNSUPPORTED" and kept["share"] is None
    assert kept["override"] == {
        "bracket": "PROCEED",
        "by": "the owner of the kernel",
        "reason": "coupled to the barrier",
    }


def test_no_share_of_the_path_is_counted_twice():
    planted = Planted()
    schema = parse(tomllib.loads(planted.schema), where="test")
    counted = account(make_capture(planted.cells, schema, About(**planted.about)))
    path = critical_path(counted)
    assert sum(path.ticks.values()) + path.unexplained == pytest.approx(LAUNCH.span)
    elected = next(leg.worker for leg in path.legs)
    inside = path.ticks[10] + path.ticks.get(15, 0)
    assert inside == pytest.approx(LAUNCH.total(elected, 10))
