"""Devices that are sound but busy, simulated: whatever that makes them do, no honest variant is refused for it."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace

import pytest
from simulated import saxpy
from test_lab_devices import HASTE, compared, device_of, lab

from whet.errors import DeviceGone
from whet.evidence.accounting import Accounts
from whet.evidence.elsewhere import RemoteTurn
from whet.evidence.record import EMPTY, Outcome, Sample
from whet.evidence.remote_rig import RemoteRig
from whet.lab import hub as hubs
from whet.lab.hub import Hub, Patience
from whet.lab.strikes import ALONE, OF_ALL, Strikes
from whet.lab.wire import Beat, Facts, Hello

LOST = ({"fault": {"kind": "lost", "message": "the driver was reset"}}, {})


def why(run):
    return [gate.failure and gate.failure.detail for gate in run.gates]


def test_losses_that_fall_on_anybody_are_blamed_on_nobody():
    """The device is lost now and then, whoever has the turn: rounds are played again and nothing is refused."""
    seen = Counter()

    def busy(header, parts):
        if header["kind"] == "turn":
            seen[header["arm"]] += 1
            if seen.total() in (7, 16, 30, 45):
                seen["losses"] += 1
                return LOST
        return saxpy(header, parts)

    with lab() as server, device_of(server, busy) as (place, _):
        run = compared(place)
        assert seen["losses"] == 4 and all(gate.green for gate in run.gates), why(run)
        assert run.verdicts[0].outcome is Outcome.SAME
        assert run.environment["elsewhere"]["disturbances"] == 4


def test_a_variant_is_not_blamed_while_the_device_fails_without_it_too():
    """The same arm loses the device three times in a row, and so does the reference kernel: the machine is to blame."""
    storm = {"left": 0, "begun": False}

    def stormy(header, parts):
        if header["kind"] == "turn" and header["arm"] == "large" and not storm["begun"]:
            storm.update(left=5, begun=True)
        if storm["left"] and (header.get("arm") == "large" or header["kind"] == "reference"):
            storm["left"] -= 1
            return LOST
        return saxpy(header, parts)

    with lab() as server, device_of(server, stormy) as (place, _):
        run = compared(place)
        assert storm == {"left": 0, "begun": True} and all(gate.green for gate in run.gates), why(run)


def test_a_variant_that_loses_the_device_now_and_then_is_refused_in_the_end():
    turns = Counter()

    def flaky(header, parts):
        if header["kind"] == "turn":
            turns[header["arm"]] += 1
            if header["arm"] == "large" and turns["large"] % 3 == 0:
                return LOST
        return saxpy(header, parts)

    with lab() as server, device_of(server, flaky) as (place, _):
        run = compared(place)
        gates = {gate.variant: gate for gate in run.gates}
        assert gates["small"].green and "DeviceLost" in gates["large"].failure.detail
        assert not [sample for sample in run.samples if sample.variant == "large"]


def test_a_device_that_fails_all_the_time_ends_the_run_and_refuses_nobody():
    turns = Counter()

    def sick(header, parts):
        turns[header["kind"]] += 1
        failing = turns["turn"] > 25 and header["kind"] in ("turn", "reference", "prepare")
        return LOST if failing else saxpy(header, parts)

    with lab() as server, device_of(server, sick) as (place, _):
        run = compared(place)
        assert f"failed {OF_ALL} times in one run" in run.stopped
        assert all(gate.green for gate in run.gates) and run.verdicts[0].outcome is Outcome.UNDECIDED


@pytest.mark.parametrize("kind", ["memory", "adapter", "forgotten"])
def test_what_a_busy_device_says_once_is_asked_again(kind):
    said = Counter()

    def short(header, parts):
        if header["kind"] == "turn":
            said["turns"] += 1
            if said["turns"] == 20:
                return {"fault": {"kind": kind, "message": "not now"}}, {}
        return saxpy(header, parts)

    with lab() as server, device_of(server, short) as (place, _):
        run = compared(place)
        assert said["turns"] > 20 and all(gate.green for gate in run.gates), why(run)


def test_a_page_that_dies_once_is_not_held_against_what_ran():
    died = []

    def crash(header, parts):
        if header["kind"] == "turn" and header["arm"] == "large" and not died:
            died.append(page.hello(crashed="large"))
            return {}, {}
        return saxpy(header, parts)

    with lab() as server, device_of(server, crash) as (place, page):
        run = compared(place)
        assert died == [200] and all(gate.green for gate in run.gates), why(run)


def test_a_reference_kernel_that_fails_costs_no_round():
    def mute(header, parts):
        fault = {"fault": {"kind": "device", "message": "no"}}, {}
        return fault if header["kind"] == "reference" else saxpy(header, parts)

    with lab() as server, device_of(server, mute) as (place, _):
        run = compared(place)
        assert all(gate.green for gate in run.gates) and run.environment["elsewhere"]["reference_ns"] == []


def test_strikes():
    one = Strikes(frozenset({"", EMPTY}))
    for _ in range(ALONE - 1):
        one.note("a")
        assert not one.suspects("a")
        one.finished("a")
    one.note("a")
    assert one.suspects("a") and not one.suspects("b")
    one.note("b")
    assert one.suspects("a") is False, "another had one too, and none of them lie in a row"
    one.note("b")
    assert one.suspects("b")
    for _ in range(OF_ALL):
        one.note(EMPTY)
    assert one.hopeless and not one.suspects(EMPTY) and not one.suspects("")


def test_coarse_clocks_and_clocks_that_run_apart():
    """A page with steps of 1 ms may tell every call a step too long; and a clock may be fast by 500 ppm."""
    rig = object.__new__(RemoteRig)
    rig.place = type("Place", (), {"tick_ns": 1_000_000})()

    def told(walls_ns, outside_ns):
        return rig._implausible(RemoteTurn(walls_ns, [{}] * len(walls_ns), outside_ns), len(walls_ns))

    assert told([2_000_000] * 100, 150_000_000) is None
    assert told([60_030_000_000], 60_000_100_000) is None
    assert told([2_000_000] * 100, 90_000_000) is not None
    assert told([61_000_000_000], 60_000_000_000) is not None


def test_times_below_a_step_of_the_clock_are_not_below_the_floor():
    def some(name, wall_ns):
        more = {"calls": 1, "wall_ns": wall_ns, "outside_ns": 10**7, "cpu_ns": 0, "seed": 1, "digest": "", "check": ""}
        return [Sample(variant=name, round=k, order=0, block=k % 6, device_ns=None, **more) for k in range(60)]

    samples = {"a": some("a", 1), "b": some("b", 1), EMPTY: some(EMPTY, 100_000)}
    assert not Accounts(effect=0.02, baseline="a", near=False, tick_ns=100_000).complaints(samples)
    assert Accounts(effect=0.02, baseline="a", near=False, tick_ns=5_000).complaints(samples)


class Stopped:
    """A clock that goes only when it is told to."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


def seated(patience, clock):
    hub = Hub(patience, clock)
    hub.hello(Hello(run="a" * 32, key="b" * 32, name="one", facts=Facts()))
    return hub, hub.devices["one"]


def test_a_server_that_did_not_run_blames_no_device(monkeypatch):
    """Between two ticks a minute passes, as when this machine slept: the device is not taken for silent or late."""
    monkeypatch.setattr(hubs, "TICK_S", 0.01)

    async def run():
        clock = Stopped()
        hub, device = seated(Patience(first_s=5, stall_s=5, stuck_s=5), clock)
        lease = hub.take("one")
        asked = asyncio.create_task(hub.ask("one", lease, {"kind": "reference"}, {}, limit_s=5))
        await asyncio.sleep(0)
        await hub.next(device.seat)
        for _ in range(3):
            clock.now += 60
            await asyncio.sleep(0.05)
        assert not asked.done()
        # While it does run, silence counts.
        for _ in range(60):
            clock.now += 0.2
            await asyncio.sleep(0.02)
            if asked.done():
                break
        with pytest.raises(DeviceGone, match="no sign"):
            await asked

    asyncio.run(run())


def test_a_page_that_beats_but_never_takes_its_next_command_is_given_up(monkeypatch):
    monkeypatch.setattr(hubs, "TICK_S", 0.01)

    async def run():
        clock = Stopped()
        hub, device = seated(replace(HASTE, first_s=2.0, stuck_s=3.0), clock)
        asked = asyncio.create_task(hub.ask("one", hub.take("one"), {"kind": "reference"}, {}, limit_s=5))
        for _ in range(100):
            clock.now += 0.1
            hub.beat(Beat(seat=device.seat, stage="running large", ticket="c" * 32))
            await asyncio.sleep(0.02)
            if asked.done():
                break
        with pytest.raises(DeviceGone, match="hangs: running large"):
            await asked

    asyncio.run(run())


def test_a_run_that_no_longer_holds_its_device_ends_without_a_refusal():
    with lab() as server, device_of(server) as (place, page):
        server.call(_given_back(server.hub, page.device))
        with pytest.raises(DeviceGone, match="no longer held"):
            place.prepare(EMPTY, None, limit_s=20)


async def _given_back(hub, name):
    hub.devices[name].lease = ""
