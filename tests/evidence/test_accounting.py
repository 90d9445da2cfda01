"""Whether a clock may be believed, on scripted turns: liars are found, a busy machine is none."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass

import msgspec
import numpy as np
import pytest

from whet.evidence import system
from whet.evidence.accounting import (
    BUSY_HALF,
    DEVICE_SHARE,
    FALSE_ALARMS,
    FALSE_DOUBTS,
    LEAST_TURNS,
    UNEVEN_SHARE,
    Accounts,
)
from whet.evidence.readings import Reading
from whet.evidence.record import CONTROL, EMPTY, Sample
from whet.evidence.rig import busy_half
from whet.evidence.statistics import interval, times

US, MS = 1_000, 1_000_000


@dataclass(frozen=True)
class Machine:
    """What a turn costs besides the call, and how the machine disturbs it.

    Every process has an offset of its own, and a real kernel costs up to `beyond_ns` more than an empty one. `spikes`
    of the turns are hit by something long, `nudges` by something short, inside the claimed time and outside of it.
    """

    spikes: float = 0.0
    nudges: float = 0.0
    beyond_ns: float = 40 * US

    def cost(self, random, typical_ns, shape):
        offset = typical_ns * random.lognormal(0, 0.15, (shape[0], 1))
        return offset * random.lognormal(0, 0.25, shape) + self.disturbed(random, shape)

    def disturbed(self, random, shape):
        long = (random.random(shape) < self.spikes) * random.exponential(2 * MS, shape)
        return long + (random.random(shape) < self.nudges) * random.exponential(0.3 * MS, shape)

    def trial(self, random, *, blocks=8, rounds=8, wall_ns=10 * MS, threads_busy=1.0):
        """An honest variant beside the empty one."""
        shape = (blocks, rounds)
        wall = wall_ns * random.lognormal(0, 0.05, shape) + self.disturbed(random, shape)
        typical_ns = random.uniform(60 * US, 150 * US)
        cost, nothing = (self.cost(random, typical_ns, shape) for _ in range(2))
        cost += random.uniform(0, self.beyond_ns)
        tiny = np.full(shape, 300.0)
        return {
            EMPTY: turns(EMPTY, tiny, tiny + nothing, 0.7 * nothing),
            "a": turns("a", wall, wall + cost, 0.98 * threads_busy * wall + 0.7 * cost),
        }


IDLE, SPIKY, BUSY = Machine(), Machine(spikes=0.1), Machine(spikes=0.1, nudges=0.3)
MACHINES = {"idle": IDLE, "spiky": SPIKY, "busy": BUSY}


def turns(name, wall, outside, cpu, **more):
    columns = (np.asarray(column).round().astype(int).ravel().tolist() for column in (wall, outside, cpu))
    return [
        Sample(
            variant=name,
            round=number,
            order=0,
            seed=0,
            calls=1,
            wall_ns=wall_ns,
            outside_ns=outside_ns,
            cpu_ns=cpu_ns,
            block=number // np.shape(wall)[1],
            **more,
        )
        for number, (wall_ns, outside_ns, cpu_ns) in enumerate(zip(*columns, strict=True))
    ]


def lying(trial, share, random, often=1.0):
    """The same turns by a clock that leaves out `share` of the time in `often` of them."""
    own = [
        msgspec.structs.replace(one, wall_ns=round(one.wall_ns * (1 - share))) if random.random() < often else one
        for one in trial["a"]
    ]
    return {**trial, "a": own}


def complaints(trial, *, cores=1, threads=1, **more):
    accounts = Accounts(effect=0.02, near=True, baseline="a", **more)
    accounts.cores.update({sample.block: cores for sample in trial["a"]})
    accounts.threads["a"] = threads
    return accounts.complaints(trial)


def caught(machine, share, often=1.0, *, tries=40, judge="median", **more):
    """In which share of trials the liar is named, for that reason."""
    random = np.random.default_rng(7)
    found = [complaints(lying(machine.trial(random, **more), share, random, often), judge=judge) for _ in range(tries)]
    reasons = {red.reason for one in found for red in one.values()}
    assert reasons <= {"its clock and ours disagree", "worked outside its clock"}, reasons
    return sum(bool(one) for one in found) / tries


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("share, least", [(0.05, 0.8), (0.1, 0.95), (0.3, 1.0)])
def test_a_clock_that_lies_a_little_all_the_time_is_caught(machine, share, least, tried):
    assert caught(MACHINES[machine], share) >= least
    tried("exploits")


@pytest.mark.parametrize("share", [0.3, 0.8])
def test_a_clock_that_lies_is_caught_in_a_quick_trial(share, tried):
    assert caught(BUSY, share, blocks=5, rounds=6) >= 0.9
    tried("exploits")


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("share", [0.1, 0.3, 0.8])
def test_lies_in_most_turns_are_caught_by_the_median(machine, share, tried):
    """The median of a variant that lies in 70 % of its turns is a lie."""
    assert caught(MACHINES[machine], share, often=0.7) >= (0.7 if share < 0.3 else 0.95)
    tried("exploits")


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("share", [0.3, 0.8])
def test_lies_in_some_turns_are_caught_where_the_mean_is_judged(machine, share, tried):
    assert caught(MACHINES[machine], share, often=0.3, judge="mean", blocks=16) >= 0.9
    tried("exploits")


@pytest.mark.parametrize("judge", ["p90", "p99"])
def test_lies_in_some_turns_are_caught_where_a_tail_is_judged(judge, tried):
    assert caught(IDLE, 0.3, often=0.3, judge=judge, blocks=16) >= 0.9
    tried("exploits")


def test_what_a_liar_hides_is_told():
    trial = lying(IDLE.trial(np.random.default_rng(1), wall_ns=30 * MS), 0.8, np.random.default_rng(2))
    red = complaints(trial)["a"]
    assert red.reason == "its clock and ours disagree" and "lie outside of it" in red.detail


@pytest.mark.slow
@pytest.mark.parametrize("judge, tries", [("median", 4000), ("mean", 4000), ("p90", 1000), ("p99", 1000)])
def test_honest_variants_are_not_called_liars(judge, tries, tried):
    """10,000 trials on idle and busy machines, quick and default, short turns and long ones."""
    random = np.random.default_rng(11)
    machines = list(MACHINES.values())
    alarms = 0
    for number in range(tries):
        blocks, rounds = ((5, 6), (5, 6), (8, 8))[number % 3]
        wall_ns = (0.3 * MS, 3 * MS, 30 * MS)[number // 3 % 3]
        trial = machines[number // 9 % 3].trial(random, blocks=blocks, rounds=rounds, wall_ns=wall_ns)
        alarms += bool(complaints(trial, judge=judge))
    assert alarms <= 2 * FALSE_ALARMS * tries
    tried("honest trials", tries)


def test_one_long_interrupt_in_every_block_is_no_lie():
    """Preempted between its last stamp and its answer, once per block, and the empty variant never."""
    trial = IDLE.trial(np.random.default_rng(3), blocks=10)
    own = [
        msgspec.structs.replace(one, outside_ns=one.outside_ns + 25 * MS) if one.round % 8 == 0 else one
        for one in trial["a"]
    ]
    assert complaints({**trial, "a": own}) == {}


def test_too_few_blocks_tell_nothing():
    random = np.random.default_rng(4)
    assert complaints(lying(IDLE.trial(random, blocks=2, rounds=4), 0.8, random)) == {}
    assert complaints(lying(IDLE.trial(random, blocks=3, rounds=4), 0.8, random)) != {}


def test_threads_that_spin_down_are_no_liars(tried):
    """A pool that is awake for a while after a call: each thread up to 0.1 ms, and both cores busy in the call."""
    random = np.random.default_rng(5)
    for _ in range(200):
        trial = BUSY.trial(random, threads_busy=2.0)
        own = [
            msgspec.structs.replace(
                one, cpu_ns=one.cpu_ns + round(random.uniform(0, 100 * US)), outside_ns=one.outside_ns + 10 * US
            )
            for one in trial["a"]
        ]
        assert complaints({**trial, "a": own}, cores=2, threads=2) == {}
    tried("honest trials", 200)


@pytest.mark.parametrize("cores, threads", [(1, 1), (1, 4), (2, 2)])
def test_work_outside_the_clock_is_caught(cores, threads, tried):
    """A millisecond and a half of processor time that no claimed window has room for."""
    random = np.random.default_rng(6)
    for often in (1.0, 0.7):
        trial = IDLE.trial(random, threads_busy=float(cores))
        own = [
            msgspec.structs.replace(one, cpu_ns=one.cpu_ns + 3 * MS) if random.random() < often else one
            for one in trial["a"]
        ]
        found = complaints({**trial, "a": own}, cores=cores, threads=threads)
        assert found["a"].reason == "worked outside its clock"
    tried("exploits", 2)


def test_a_second_thread_on_one_core_has_no_room():
    trial = IDLE.trial(np.random.default_rng(8), threads_busy=1.5)
    assert complaints(trial, cores=1, threads=2)["a"].reason == "worked outside its clock"
    assert complaints(trial, cores=2, threads=2) == {}


@pytest.mark.parametrize("judge", ["median", "mean", "p90", "p99"])
@pytest.mark.parametrize("wall_ms", [1, 3, 7, 9, 25])
def test_processor_time_in_ticks_is_no_lie(judge, wall_ms):
    """Systems without an exact count tell 0 or 10 ms for a turn of 7 ms."""
    random = np.random.default_rng(9)
    for _ in range(20):
        trial = IDLE.trial(random, wall_ns=wall_ms * MS)
        counted = {}
        for name, own in trial.items():
            at = random.uniform(0, 10 * MS) + np.cumsum([0, *(one.cpu_ns for one in own)])
            ticks = np.diff(at // (10 * MS)) * 10 * MS
            counted[name] = [msgspec.structs.replace(one, cpu_ns=int(t)) for one, t in zip(own, ticks, strict=True)]
        assert complaints(counted, judge=judge) == {}


def test_faster_than_nothing_is_below_the_floor(tried):
    random = np.random.default_rng(10)
    trial = IDLE.trial(random)
    shape = (8, 8)
    cost = np.full(shape, 100 * US)
    short = turns("a", np.full(shape, 100.0), 100 + cost, cost)
    slow_empty = turns(EMPTY, np.full(shape, 300.0), 300 + cost, cost)
    assert complaints({EMPTY: slow_empty, "a": short})["a"].reason == "below the floor"
    assert complaints({EMPTY: slow_empty, "a": turns("a", np.full(shape, 200.0), 200 + cost, cost)}) == {}
    assert complaints(trial) == {}
    few = LEAST_TURNS - 1
    assert complaints({EMPTY: slow_empty[:few], "a": short[:few]}) == {}
    tried("exploits")


def test_one_call_that_works_for_the_whole_batch_is_uneven(tried):
    trial = IDLE.trial(np.random.default_rng(12))
    for share, reason in ((UNEVEN_SHARE + 0.05, "uneven calls"), (UNEVEN_SHARE - 0.05, None)):
        accounts = Accounts(effect=0.02, near=True)
        accounts.firsts["a"] = [share] * LEAST_TURNS
        found = accounts.complaints(trial)
        assert (found["a"].reason if found else None) == reason
    accounts.firsts["a"] = [0.95] * (LEAST_TURNS - 1)
    assert accounts.complaints(trial) == {}, "too early to tell"
    tried("exploits")


def on_device(share, *, name="a", wall_ms=10.0, blocks=4, rounds=6):
    random = np.random.default_rng(13)
    wall = wall_ms * MS * random.lognormal(0, 0.02, (blocks, rounds))
    own = turns(name, wall, wall + 100 * US, wall)
    return [
        msgspec.structs.replace(one, device_ns=None if share is None else round(share * one.wall_ns)) for one in own
    ]


@pytest.mark.parametrize(
    "share, reason",
    [
        (0.95, None),
        (DEVICE_SHARE + 0.02, None),
        (DEVICE_SHARE - 0.02, "host work"),
        (0.05, "host work"),
        (1.5, "its clock and ours disagree"),
        (None, "no device clock"),
    ],
)
def test_the_device_clock_must_explain_the_wall(share, reason, tried):
    """Of a baseline: half of its time at least, and never more than passed."""
    accounts = Accounts(effect=0.02, near=True, clock="device", baseline="a")
    found = accounts.complaints({"a": on_device(share)})
    assert (found["a"].reason if found else None) == reason
    unasked = Accounts(effect=0.02, near=True, baseline="a")
    assert unasked.complaints({"a": on_device(share)}) == {}, "nobody asked for that clock"
    tried("exploits", reason is not None)


def test_a_candidate_leaves_no_more_out_of_its_device_clock_than_the_baseline(tried):
    accounts = Accounts(effect=0.02, near=True, clock="device", baseline="base")
    base = on_device(0.95, name="base")
    same = {"base": base, CONTROL: on_device(0.95, name=CONTROL), "a": on_device(0.94)}
    assert accounts.complaints(same) == {}
    assert accounts.complaints({**same, "a": on_device(0.6)})["a"].reason == "host work"
    tried("exploits")


def test_arms_without_turns_and_the_empty_one_are_not_judged():
    trial = IDLE.trial(np.random.default_rng(14))
    assert complaints({**trial, CONTROL: []}) == {}
    assert Accounts(effect=0.02, near=True).complaints({EMPTY: trial[EMPTY]}) == {}


@pytest.mark.skipif(sys.platform != "linux", reason="the count is the Linux kernel's")
def test_the_kernel_counts_the_wait_for_a_core():
    """Two spinning processes on one core: each waits about half of the time."""
    spin = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\nwhile True: pass"
    processes = [subprocess.Popen([sys.executable, "-c", text]) for text in (spin, spin)]
    host = system.host()
    try:
        deadline = time.monotonic() + 60
        while host.usage(processes[1].pid).waited_ns < 50 * MS and time.monotonic() < deadline:
            time.sleep(0.05)
        usage = host.usage(processes[1].pid)
        assert usage.waited_ns >= 50 * MS and usage.cpu_ns > 0
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert host.usage(processes[1].pid) == system.Usage(0, 0, 0)


def beside(random, *, base_ns, own_ns, base_untimed_ns, own_untimed_ns, scatter=0.05):
    """Books and samples of two variants whose untimed calls are known; `scatter` is that of every figure."""
    shape = (8, 8)
    accounts = Accounts(effect=0.02, near=True, baseline="base")
    samples = {}
    for name, wall_ns, untimed_ns in (("base", base_ns, base_untimed_ns), ("own", own_ns, own_untimed_ns)):
        wall, untimed = (mean * random.lognormal(0, scatter, shape) for mean in (wall_ns, untimed_ns))
        samples[name] = turns(name, wall, wall + 100 * US, wall)
        kept = zip(samples[name], untimed.ravel().tolist(), strict=True)
        accounts.warm_ups[name] = {sample.round: excess_ns for sample, excess_ns in kept}
    return accounts, samples


@pytest.mark.parametrize("scatter", [0.02, 0.3])
def test_work_moved_to_where_no_clock_runs_is_held_against_what_it_saves(scatter):
    """A third of each call, done in the untimed one instead: doubt always, and red where it is most of the turn."""
    for seed in range(40):
        random = np.random.default_rng(seed)
        accounts, samples = beside(
            random,
            base_ns=9 * MS,
            own_ns=6 * MS,
            base_untimed_ns=0.5 * MS,
            own_untimed_ns=4 * MS,
            scatter=scatter,
        )
        assert "may have moved work" in accounts.doubt("own", "base", samples), "the saving is made up for"
        assert "own" not in accounts.complaints(samples), "cold caches could explain it"
        accounts, samples = beside(
            random, base_ns=9 * MS, own_ns=2 * MS, base_untimed_ns=0.5 * MS, own_untimed_ns=9 * MS, scatter=scatter
        )
        assert accounts.complaints(samples)["own"].reason == "worked outside its clock"


@pytest.mark.parametrize("scatter", [0.02, 0.3])
def test_a_first_call_on_cold_caches_is_no_moved_work(scatter, tried):
    """Faster variants whose first calls cost more than the rival's, but less than they save; and slower ones.

    A doubt is asked for only where the saving itself is beyond chance. It costs a verdict, not the variant.
    """
    found = doubts = faster = 0
    for seed in range(300):
        random = np.random.default_rng(seed)
        share = random.uniform(0.3, 1.5)
        accounts, samples = beside(
            random,
            base_ns=9 * MS,
            own_ns=share * 9 * MS,
            base_untimed_ns=0.5 * MS,
            own_untimed_ns=0.5 * MS + max(0.0, random.uniform(0, 0.3) * (1 - share) * 9 * MS),
            scatter=scatter,
        )
        found += "own" in accounts.complaints(samples)
        ratio = interval(times(samples["own"]), times(samples["base"]), judge="median", confidence=0.99)
        if ratio is not None and ratio.high < 0.98:
            faster += 1
            doubts += accounts.doubt("own", "base", samples) is not None
    assert found == 0
    assert faster > 100
    assert doubts <= 2 * FALSE_DOUBTS * faster
    tried("honest trials", 300)


CROWDED = {
    "honest": [(42.1, 42.1, 22.6), (45.4, 45.4, 22.6), (41.4, 41.4, 23.9), (42.8, 42.8, 25.2), (82.6, 82.6, 26.8)],
    "cheat": [(4.2, 4.2, 23.9), (1.2, 11.3, 25.0), (5.4, 5.4, 28.0), (1.8, 12.2, 37.2), (1.8, 32.0, 35.8)],
    EMPTY: [(0.02, 0.04, 0.2), (0.02, 0.02, 0.1), (0.02, 0.05, 0.2), (0.02, 0.26, 0.3), (0.02, 0.36, 0.4)],
}


def test_work_at_the_thaw_on_a_crowded_machine_is_no_saving():
    """Turns as they were: wall, outside and processor time of a cheat that computes before its clock starts.

    Whoever thawed it had to wait for a core while it worked, and that waiting is not counted; five turns are too few to
    call it a liar.
    """
    samples = {name: turns(name, *(MS * np.array(rows).T[:, :, None])) for name, rows in CROWDED.items()}
    accounts = Accounts(effect=0.02, near=True, baseline="honest")
    accounts.cores.update(dict.fromkeys(range(5), 2))
    assert accounts.complaints(samples) == {}
    assert "may have worked outside its clock" in accounts.doubt("cheat", "honest", samples)


def test_what_lies_outside_of_a_clock_has_to_be_ruled_out():
    """Four of five turns beside others are as they should be. Whether the fifth is chance is not known."""
    outside = np.array([5.1, 5.1, 5.1, 5.1, 30.0])[:, None] * MS
    wall, slow, tiny = np.full((5, 1), 5 * MS), np.full((5, 1), 10 * MS), np.full((5, 1), 300)
    samples = {
        EMPTY: turns(EMPTY, tiny, tiny + 100 * US, tiny),
        "quick": turns("quick", wall, outside, wall),
        "slow": turns("slow", slow, slow + 100 * US, slow),
    }
    accounts = Accounts(effect=0.02, near=True, baseline="slow")
    assert accounts.complaints(samples) == {}
    assert "may have worked outside its clock" in accounts.doubt("quick", "slow", samples)
    samples["quick"] = turns("quick", wall, wall + 100 * US, wall)
    assert accounts.doubt("quick", "slow", samples) is None


@pytest.mark.parametrize("machine", MACHINES)
def test_a_real_saving_is_not_doubted(machine, tried):
    doubts = 0
    for seed in range(100):
        random = np.random.default_rng(seed)
        one, other = (MACHINES[machine].trial(random, wall_ns=wall_ns) for wall_ns in (8 * MS, 10 * MS))
        samples = {EMPTY: one[EMPTY], "quick": one["a"], "slow": other["a"]}
        doubts += Accounts(effect=0.02, near=True, baseline="slow").doubt("quick", "slow", samples) is not None
    assert doubts <= 2
    tried("honest trials", 100)


def test_calls_that_are_answered_along_with_others_are_doubted():
    """One of four calls computes for all four. Waiting for a core and inputs that differ in work look otherwise."""
    wall, slow, tiny = np.full((5, 4), 5 * MS), np.full((5, 4), 10 * MS), np.full((5, 4), 300)
    samples = {
        EMPTY: turns(EMPTY, tiny, tiny + 100 * US, tiny),
        "quick": turns("quick", wall, wall + 100 * US, wall),
        "slow": turns("slow", slow, slow + 100 * US, slow),
    }
    accounts = Accounts(effect=0.02, near=True, baseline="slow")
    accounts.halves["slow"] = [0.55] * LEAST_TURNS
    for share, doubted in ((0.95, True), (BUSY_HALF, True), (BUSY_HALF - 0.01, False), (0.55, False)):
        accounts.halves["quick"] = [share] * LEAST_TURNS
        assert ("may answer several calls at once" in (accounts.doubt("quick", "slow", samples) or "")) == doubted
    # A rival whose calls differ as much has the same inputs, and nothing is to be had with too few turns.
    accounts.halves["quick"] = [0.95] * LEAST_TURNS
    accounts.halves["slow"] = [0.8] * LEAST_TURNS
    assert accounts.doubt("quick", "slow", samples) is None
    accounts.halves["slow"] = [0.55] * (LEAST_TURNS - 1)
    assert accounts.doubt("quick", "slow", samples) is None


def test_the_busy_half_of_a_turn():
    def stamps(*spans):
        return list(np.cumsum([1000, *spans]))

    assert busy_half(stamps(10, 10, 10, 10), 0) == 0.5
    assert busy_half(stamps(1, 1, 1, 37), 0) == 38 / 40
    assert busy_half(stamps(37, 1, 37, 1), 0) == 74 / 76
    # One call that had to wait for its core is as long as the others.
    assert busy_half(stamps(10, 10, 4010, 10), 4000) == 0.5
    assert busy_half(stamps(10, 10, 10), 0) == 0.0
    assert busy_half(stamps(5, 5, 5, 5), 1000) == 0.0


def note(accounts, sample, **warm_up):
    reading = Reading(
        calls=1,
        wall_ns=sample.wall_ns,
        outside_ns=sample.outside_ns,
        cpu_ns=sample.cpu_ns,
        waited_ns=0,
        device_ns=None,
        seed=0,
        digest="",
        check="",
        **warm_up,
    )
    accounts.note(sample.variant, ("round", sample.round), reading)


@pytest.mark.parametrize("share, doubted", [(1.0, True), (0.0, False)])
def test_work_moved_on_a_crowded_machine_shows_in_processor_time(share, doubted):
    """The clock has waiting in it, more than what is saved; `share` of the saving is done in the warm-up instead."""
    random = np.random.default_rng(3)
    accounts = Accounts(effect=0.02, near=True, baseline="slow")
    samples = {}
    for name, work_ns, warm_up_ns in (("slow", 10 * MS, 10 * MS), ("quick", 6 * MS, 6 * MS + share * 4 * MS)):
        work = work_ns * random.lognormal(0, 0.05, (8, 8))
        wall = work + random.exponential(3 * work_ns, (8, 8))
        samples[name] = turns(name, wall, wall, work)
        for sample in samples[name]:
            spent_ns = round(warm_up_ns * random.lognormal(0, 0.05))
            note(accounts, sample, warm_up_ns=sample.wall_ns, warm_up_cpu_ns=spent_ns, warm_up_calls=1)
    doubt = accounts.doubt("quick", "slow", samples)
    assert (doubt is not None) == doubted
    assert not doubted or "may have moved work" in doubt


def test_a_rival_that_only_waits_is_beaten_by_work():
    """The winner uses more processor time than its rival, and saves none: what it saves is waiting."""
    random = np.random.default_rng(4)
    accounts = Accounts(effect=0.02, near=True, baseline="waits")
    samples = {}
    for name, wall_ns, work_ns in (("waits", 20 * MS, 0.1 * MS), ("works", 5 * MS, 5 * MS)):
        wall, work = (mean_ns * random.lognormal(0, 0.05, (8, 8)) for mean_ns in (wall_ns, work_ns))
        samples[name] = turns(name, wall, wall + 100 * US, work)
        for sample in samples[name]:
            note(accounts, sample, warm_up_ns=sample.wall_ns, warm_up_cpu_ns=sample.cpu_ns, warm_up_calls=1)
    assert accounts.doubt("works", "waits", samples) is None


def test_a_call_too_long_to_warm_up_with_has_no_excess_for_it():
    """Where calls are long none comes before the turn: then a quick variant saves without having moved anything."""
    random = np.random.default_rng(5)
    accounts = Accounts(effect=0.02, near=True, baseline="slow")
    samples = {}
    for name, call_ns in (("slow", 200 * MS), ("quick", 4 * MS)):
        wall = call_ns * random.lognormal(0, 0.05, (8, 8))
        samples[name] = turns(name, wall, wall + 100 * US, wall)
        for sample in samples[name]:
            note(accounts, sample, warm_up_ns=150_000)
    assert accounts.complaints(samples) == {}
    assert accounts.doubt("quick", "slow", samples) is None
