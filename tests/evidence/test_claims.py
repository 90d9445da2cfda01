"""Whether a clock may be believed, without any process: the claims of a variant beside the stamps of the parent."""

from __future__ import annotations

import subprocess
import sys
import time

import msgspec
import pytest
from whet.evidence.claims import CLOCK_REPEATS, Claim, ClockTrack
from whet.evidence.gate import Plan, Rig, Stand
from whet.evidence.processes import waited_for_a_core_ns

from whet.protocol import Variant

MS = 1_000_000


def claim(start_ns=0, wall_ns=1000, **more):
    fixed = {"start_ns": start_ns, "stop_ns": start_ns + wall_ns, "cpu_ns": 0, "regions_ns": {}, "patched": []}
    return Claim(**fixed, **{"device_ns": None, **more})


def track(unexplained_ms):
    """A 30 ms repeat each, of which so much lies outside the claimed time."""
    made, found = ClockTrack(ping_ns=100_000, copy_bytes=1000), None
    for hidden in unexplained_ms:
        said = claim(0, int((30 - hidden) * MS))
        made.heard(said, 0, 30 * MS)
        found = made.complaint(said, "wall")
    return found


def test_a_clock_that_lies_within_its_span_is_caught(tried):
    """Stamps that lie outside the span give themselves away; these lie inside and claim less."""
    found = track([24] * CLOCK_REPEATS)
    assert found is not None and found.reason == "timer patched" and "24.00 ms of 30.00 ms" in found.detail
    tried("exploits")


def test_a_busy_machine_is_no_liar():
    assert track([0.4, 25, 0.4, 25, 0.4, 0.4]) is None
    assert track([24] * (CLOCK_REPEATS - 1)) is None, "too early to tell"


def test_waiting_for_a_core_is_no_lie():
    made = ClockTrack()
    for _ in range(CLOCK_REPEATS):
        said = claim(0, 6 * MS)
        made.heard(said, 0, 30 * MS, waited_ns=20 * MS)
    assert made.complaint(said, "wall") is None


def test_the_kernel_counts_the_wait_for_a_core():
    """Two spinning processes on one core: each waits about half of the time."""
    spin = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\nwhile True: pass"
    processes = [subprocess.Popen([sys.executable, "-c", text]) for text in (spin, spin)]
    try:
        deadline = time.monotonic() + 20
        while waited_for_a_core_ns(processes[1].pid) < 50 * MS and time.monotonic() < deadline:
            time.sleep(0.05)
        assert waited_for_a_core_ns(processes[1].pid) >= 50 * MS
        assert waited_for_a_core_ns(0) == 0
    finally:
        for process in processes:
            process.kill()
            process.wait()


@pytest.mark.parametrize("start, wall", [(-1, 10), (95, 10), (50, -5), (0, 101)])
def test_stamps_outside_the_span_are_caught_at_once(start, wall, tried):
    made, said = ClockTrack(), claim(start, wall)
    made.heard(said, 0, 100)
    found = made.complaint(said, "wall")
    assert found is not None and "outside" in found.detail
    tried("planted faults")


def test_replaced_clock_functions_are_named():
    found = ClockTrack().complaint(msgspec.structs.replace(claim(), patched=["monotonic_ns"]), "wall")
    assert found is not None and "time.monotonic_ns" in found.detail


@pytest.mark.parametrize(
    "shares, reason",
    [
        ([0.9, 0.8, 0.95], None),
        ([0.9, 0.05, 0.9], None),
        ([0.3, 0.2], None),
        ([0.3, 0.2, 0.4], "host work"),
        ([1.5], "host work"),
        ([None], "no device clock"),
    ],
)
def test_the_device_clock_must_explain_half_of_the_wall_time(shares, reason):
    made = ClockTrack()
    found = [made.complaint(claim(device_ns=None if s is None else int(s * 1000)), "device") for s in shares]
    assert (found[-1].reason if found[-1] else None) == reason


def test_a_garbled_answer_is_red(monkeypatch):
    """The variant's process may say anything; nothing it says may upset the parent."""
    plan = Plan(engine=None, ref="", variants=(), device="cpu", seed=0)  # type: ignore[arg-type]
    rig = Rig(plan)
    try:
        for answer in ({}, {"start_ns": "x"}, {**msgspec.to_builtins(claim()), "patched": 3}):
            monkeypatch.setattr(rig, "_bench_ask", lambda *_, answer=answer, **__: answer)
            assert rig._timed(Stand(Variant("v"), 0, -1), 1).reason == "garbled answer"
    finally:
        rig.close()
