"""How steps are cut into submissions, and what a schedule that is carried out wrongly does to a sum."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, pairwise
from threading import Event

import pytest
from msm_on_gpu import Subject, compute
from whet._native import curve

from whet.errors import BadInput, Cancelled
from whet.gpu import Clear, Copy, Device, Kernel, Pass, Write
from whet.gpu.schedule import LIMIT_NS, MOST_PASSES, UNKNOWN_SLOWNESS, Pace, Submission
from whet.msm import Engine, msm
from whet.msm.webgpu.knobs import Choice
from whet.msm.webgpu.memory import memory_map, ways
from whet.msm.webgpu.plan import build
from whet.msm.webgpu.request import Request
from whet.msm.webgpu.sums import WebGpuSums

on_a_gpu = [pytest.mark.gpu, pytest.mark.xdist_group("gpu")]
KERNEL = Kernel("", "main")


def steps_of(*costs):
    """A pass per number, a write per None."""
    return [
        Write("words", "source", 4, number) if cost is None else Pass(str(number), KERNEL, (), (1, 1, 1), cost_ns=cost)
        for number, cost in enumerate(costs)
    ]


def sizes(submissions):
    return [(len(one.writes), len(one.commands)) for one in submissions]


def test_a_write_begins_a_submission_and_a_full_one_ends():
    pace = Pace(80)
    assert UNKNOWN_SLOWNESS == 8
    assert sizes(pace.submissions(steps_of(1, 2, 3, None, None, 4, None))) == [(0, 3), (2, 1), (1, 0)]
    assert sizes(pace.submissions(steps_of(5, 5, 5, 4))) == [(0, 2), (0, 2)]
    assert sizes(pace.submissions(steps_of(1, 100, 1))) == [(0, 1), (0, 1), (0, 1)]
    assert sizes(pace.submissions(steps_of(*[0] * (MOST_PASSES + 1)))) == [(0, MOST_PASSES), (0, 1)]
    assert sizes(pace.submissions([])) == []
    assert sizes(pace.submissions([Clear("x"), *steps_of(9), Copy("x", "y", 4), *steps_of(9)])) == [(0, 3), (0, 1)]


def test_nothing_is_lost_or_moved(tried):
    plan = sliced_plan()
    for limit_ns in (1, 1e6, 1e7, 1e12):
        made = list(Pace(limit_ns).submissions(plan.program.steps))
        assert tuple(chain.from_iterable((*one.writes, *one.commands) for one in made)) == plan.program.steps
        assert all(one.cost_ns * UNKNOWN_SLOWNESS <= limit_ns or passes_of(one) == 1 for one in made)
        for before, after in pairwise(made):
            assert after.writes or (before.cost_ns + after.commands[0].cost_ns) * UNKNOWN_SLOWNESS > limit_ns
        tried("schedules cut")


def passes_of(submission):
    return sum(isinstance(one, Pass) for one in submission.commands)


def test_the_measured_speed_decides_how_much_goes_in():
    """A device that is found to be slow gets less in the next submission of the same run, a fast one more."""
    for times_the_model, expected in ((16, [10, 5, 5, 5, 5]), (4, [10, 20])):
        pace, found = Pace(80), []
        for submission in pace.submissions(steps_of(*[1] * 30)):
            found.append(len(submission.commands))
            pace.observe(submission, times_the_model * submission.cost_ns)
        assert found == expected
        assert pace.slowness == times_the_model


def test_one_strange_measurement_does_not_rule():
    pace = Pace()
    pace.observe(Submission((), tuple(steps_of(1))), 1e9)
    assert pace.slowness == 4 * UNKNOWN_SLOWNESS
    pace.observe(Submission((), (Clear("x"),)), 1e9)
    assert pace.slowness == 4 * UNKNOWN_SLOWNESS, "what has no cost says nothing"
    pace.observe(Submission((), tuple(steps_of(1))), 0)
    assert pace.slowness == UNKNOWN_SLOWNESS


@pytest.mark.parametrize("choice", [Choice(), Choice("gpu_plain"), Choice(glv=True), Choice(batches=5)], ids=str)
def test_the_costs_of_the_passes_are_those_of_the_model(choice):
    for n in (300, 1 << 14):
        plan = build(n, choice)
        (way,) = (way for way in ways(Request(n, choice, n)) if way.geometry == plan.geometry)
        costs = sum(step.cost_ns for step in plan.program.steps if isinstance(step, Pass))
        assert way.estimated_ns - costs == pytest.approx(0, abs=0.02 * way.estimated_ns)


SLICED = Choice(batches=4, threads=64)


def sliced_plan(n=300, **given):
    whole = sum(row.size_bytes for row in memory_map(n, SLICED))
    plan = build(n, SLICED, memory_budget=whole - 1, **given)
    assert plan.sliced and len(plan.batches) == 4
    return plan


def test_a_sliced_plan_writes_before_each_batch():
    plan = sliced_plan()
    assert set(plan.program.uploads) == {"planes"}
    made = list(Pace(1e12).submissions(plan.program.steps))
    assert [one.commands for one in made] == [batch.steps for batch in plan.batches]
    for one, batch in zip(made, plan.batches, strict=True):
        (write,) = one.writes
        row = 4 * plan.geometry.rows
        assert (write.upload_offset, write.size_bytes) == (row * batch.batch.first_word, row * batch.batch.words)
        assert write.size_bytes <= plan.program.buffers["scalars"] < plan.program.uploads["planes"]


def edited(number, **changes):
    return lambda made: [replace(one, **{k: f(one) for k, f in changes.items()}) if i == number else one
                         for i, one in enumerate(made)]  # fmt: skip


def write(**changes):
    def change(one):
        return tuple(replace(w, **{name: f(w) for name, f in changes.items()}) for w in one.writes)

    return change


def clear_last(one):
    return (*(c for c in one.commands if not isinstance(c, Clear)), *(c for c in one.commands if isinstance(c, Clear)))


def copy_first(one):
    return (*(c for c in one.commands if isinstance(c, Copy)), *(c for c in one.commands if not isinstance(c, Copy)))


def writes_shifted(made):
    return [replace(one, writes=other.writes) for one, other in zip(made, [*made[1:], made[-1]], strict=True)]


def all_writes_first(made):
    writes = tuple(chain.from_iterable(one.writes for one in made))
    return [replace(one, writes=() if i else writes) for i, one in enumerate(made)]


# What is done to the submissions of a sliced sum, one for each of its four batches.
FAULTS = {
    "a submission dropped": lambda made: [made[0], *made[2:]],
    "the last submission dropped": lambda made: made[:-1],
    "a submission run twice": lambda made: [*made[:2], made[1], *made[2:]],
    "the first submission run late": lambda made: [made[1], made[0], *made[2:]],
    "a write dropped": edited(1, writes=lambda one: ()),
    "the planes of another batch": edited(1, writes=write(upload_offset=lambda w: w.upload_offset - 1200)),
    "planes at the wrong place": edited(
        1, writes=write(buffer_offset=lambda w: 1200, size_bytes=lambda w: w.size_bytes - 1200)
    ),
    "a plane too few": edited(2, writes=write(size_bytes=lambda w: w.size_bytes - 1200)),
    "every write before the first submission": all_writes_first,
    "writes one submission early": writes_shifted,
    "a clear moved behind the merged passes": edited(0, commands=clear_last),
    "a copy moved before the merged passes": edited(3, commands=copy_first),
    "merged passes without the first": edited(1, commands=lambda one: one.commands[1:]),
    "a cut that loses the pass at it": edited(2, commands=lambda one: one.commands[:-1]),
}


@pytest.fixture(scope="module")
def sliced_sum(shared_device):
    """Runs the sliced sum, its schedule as `change` makes it, and gives its answer with the counters."""
    subject = Subject.of("random", 300)
    budget = sliced_plan().request.memory_budget

    def run(monkeypatch, change):
        sound = Pace.submissions
        with monkeypatch.context() as patch:
            patch.setattr(Pace, "submissions", lambda self, steps: change(list(sound(Pace(1e12), steps))))
            return compute(shared_device, subject, SLICED, memory_budget=budget)

    return run, subject


@pytest.mark.gpu
@pytest.mark.xdist_group("gpu")
def test_a_sliced_sum_is_right(sliced_sum, monkeypatch):
    run, subject = sliced_sum
    answer, work = run(monkeypatch, lambda made: made)
    assert answer == subject.expected
    assert work == run(monkeypatch, lambda made: made)[1]


@pytest.mark.gpu
@pytest.mark.xdist_group("gpu")
@pytest.mark.parametrize("name", FAULTS)
def test_a_schedule_carried_out_wrongly_shows(sliced_sum, monkeypatch, name, tried):
    """In the point, or in the counters of the work that was done."""
    run, subject = sliced_sum
    sound = run(monkeypatch, lambda made: made)
    assert sound[0] == subject.expected
    assert run(monkeypatch, FAULTS[name]) != sound
    tried("planted faults")


@pytest.mark.gpu
@pytest.mark.xdist_group("gpu")
def test_where_a_sum_is_cut_changes_nothing(device, tried):
    """From one submission to one per pass; the ledger has the same peak."""
    subject = Subject.of("random", 200)
    found = set()
    for limit_s in (1e-9, 1e-3, 1.0):
        for timed in (True, False):
            sums = WebGpuSums(subject.points, Choice(threads=64, batches=2), submission_limit_s=limit_s, timed=timed)
            try:
                answer = sums.compute(subject.limbs, 0)
                assert answer.limbs.tobytes() == subject.expected
                peak = sums.device.ledger.peak_bytes - sums.device.ledger.peak.get("timestamps", 0)
                found.add((peak, *answer.work.items()))
                rows = {row.name: row.size_bytes for row in sums.memory_map()}
                assert peak == sum(rows.values())
            finally:
                sums.close()
            tried("schedules cut")
    assert len(found) == 1


@pytest.mark.gpu
@pytest.mark.xdist_group("gpu")
def test_a_callers_limit_decides_how_many_submissions_there_are(device, monkeypatch):
    """One submission for all, or one per pass; the same through `msm`."""
    subject = Subject.of("random", 200)
    points = curve.write_points(subject.points)
    counted = []
    submit = Device.submit

    def counting(self, steps, **more):
        counted.append(sum(isinstance(step, Pass) for step in steps))
        return submit(self, steps, **more)

    given = {"device": "webgpu", "variant": "walker:threads=64"}
    for limit_s, one_each in ((60, False), (1e-9, True)):
        with Engine(points, **given, submission_limit_s=limit_s) as engine:
            engine(subject.limbs)  # the known answer was asked before
            with monkeypatch.context() as patch:
                patch.setattr(Device, "submit", counting)
                assert engine(subject.limbs).to_bytes() == subject.expected
            assert (max(counted) == 1) == one_each and (len(counted) == 1) != one_each
            counted.clear()
    monkeypatch.setattr(Device, "submit", counting)
    assert msm(points, subject.limbs, **given, submission_limit_s=1e-9).to_bytes() == subject.expected
    assert max(counted[-10:]) == 1
    with Engine(points, **given) as engine:
        assert engine._prepared._pace.limit_ns == LIMIT_NS


@pytest.mark.parametrize("limit_s", [0, -1, float("nan"), float("inf"), True, "0.5"])
def test_a_limit_that_is_no_time_is_refused(limit_s, tried):
    with pytest.raises(BadInput, match="submission_limit_s") as caught:
        Engine([], submission_limit_s=limit_s)
    assert caught.value.cure
    tried("malformed inputs")


class After:
    """An event that is set when it has been asked a number of times."""

    def __init__(self, times):
        self.left = times

    def is_set(self):
        self.left -= 1
        return self.left < 0


@pytest.mark.gpu
@pytest.mark.xdist_group("gpu")
def test_a_sum_can_be_cancelled_between_submissions(device):
    subject = Subject.of("random", 200)
    sums = WebGpuSums(subject.points, Choice(threads=64), submission_limit_s=1e-9)
    try:
        with pytest.raises(Cancelled):
            sums.compute(subject.limbs, 0, cancel=After(5))
        assert sums.compute(subject.limbs, 0, cancel=Event()).limbs.tobytes() == subject.expected
    finally:
        sums.close()


@pytest.mark.gpu
@pytest.mark.xdist_group("gpu")
def test_a_write_inside_a_submission_is_refused(device):
    device.buffer("source", 16)
    with pytest.raises(BadInput, match="inside a submission"):
        device.submit([Write("words", "source", 4)])
