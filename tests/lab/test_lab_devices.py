"""Devices that come, go, hide, crash and lie, simulated: what a trial makes of each, without a browser or a clock."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from simulated import FACTS, Closed, Page, saxpy

from whet.errors import DeviceError, DeviceGone, DeviceTimeout, Unsupported
from whet.evidence.budgets import BUDGETS, custom
from whet.evidence.comparison import make_plan, run_comparison
from whet.evidence.elsewhere import Disturbed
from whet.evidence.messages import Described
from whet.evidence.record import EMPTY, Outcome
from whet.evidence.registry import load
from whet.lab.chromium import LocalLink
from whet.lab.device import LabDevice
from whet.lab.hub import Patience
from whet.lab.operator_link import Operator, open_lab
from whet.lab.serving import LabServer
from whet.protocol import Case

SAXPY = Path(__file__).parents[2] / "examples" / "saxpy_webgpu.py"
PROGRAM = b'{"buffers": {"x": 4, "y": 4}, "kernels": [], "submissions": [], "outputs": ["y"]}'
HASTE = Patience(first_s=20.0, stall_s=20.0, leave_s=0.3, hidden_s=60.0, idle_s=60.0)
SHORT = custom(replace(BUDGETS["quick"], gate_seconds=0.1), blocks=5, rounds=2, seconds=60)


@contextmanager
def lab(**more):
    with LabServer(poll_s=0.2, patience=more.pop("patience", HASTE), **more) as server:
        yield server


@contextmanager
def device_of(server, compute=saxpy, **more):
    page = Page(server.port, compute=compute, **more).start()
    link = LocalLink(server, page.device)
    try:
        yield LabDevice(link, "lab"), page
    finally:
        page.stop()


def compared(place, variants=("small", "large"), *, clock="wall", n=33, ref=str(SAXPY)):
    loaded = load(ref)
    plan = make_plan(loaded, variants, device="browser", seed=3, clock=clock, call_limit_s=60.0)
    return run_comparison(
        loaded,
        replace(plan, elsewhere=place),
        Case(sizes={"n": n}),
        baseline=variants[0],
        budget=SHORT,
        effect=0.02,
        judge="median",
        regime="warm",
        command="whet ab",
        store=None,
        on_progress=lambda share, note: None,
    )


def counting(after, do, kind="turn"):
    """`saxpy`, but `do(header, parts)` at the command of that kind with number `after`."""
    seen = {"turns": 0}

    def compute(header, parts):
        if header["kind"] == kind:
            seen["turns"] += 1
            if seen["turns"] == after:
                return do(header, parts)
        return saxpy(header, parts)

    return compute


def test_a_right_device_gives_a_run_like_any_other():
    with lab() as server, device_of(server) as (place, _):
        run = compared(place)
        assert all(gate.green for gate in run.gates) and run.verdicts[0].outcome is Outcome.SAME
        assert run.environment["elsewhere"]["first"]["small"] == {"compile_ns": 5, "run_ns": 7}
        assert run.environment["adapter"]["timestamps"] is False
        assert all(sample.device_ns is None for sample in run.samples)


def test_a_wrong_device_gives_no_time():
    def wrong(header, parts):
        told, read = saxpy(header, parts)
        flipped = {name: bytes([data[0] ^ 1]) + data[1:] for name, data in read.items()}
        return told, flipped if header.get("arm") == "large" else read

    with lab() as server, device_of(server, wrong) as (place, _):
        run = compared(place)
        assert run.verdicts[0].outcome is Outcome.REFUSED and "wrong output" in run.verdicts[0].reasons[0]
        assert not [sample for sample in run.samples if sample.variant == "large"]


def test_a_clock_that_says_more_than_passed_is_refused():
    def boasting(header, parts):
        told, read = saxpy(header, parts)
        return {**told, "walls_ns": [10**13] * header.get("calls", 1)} if header.get("arm") == "large" else told, read

    with lab() as server, device_of(server, boasting) as (place, _):
        run = compared(place)
        assert "its clock and ours disagree" in run.verdicts[0].reasons[0]


def test_a_long_way_to_the_device_is_nobodys_fault():
    """Answers of one variant that travel for long, as over a bad network or on a busy machine."""

    def far(header, parts):
        if header["kind"] == "turn" and header["arm"] == "large":
            time.sleep(0.02)
        return saxpy(header, parts)

    with lab() as server, device_of(server, far) as (place, _):
        run = compared(place)
        assert [gate.failure for gate in run.gates] == [None, None] and run.verdicts[0].outcome is Outcome.SAME


def test_a_device_clock_that_is_not_there_is_said():
    with lab() as server, device_of(server) as (place, _):
        run = compared(place, clock="device")
        assert "no device clock" in run.verdicts[0].reasons[0]


def test_a_closed_tab_leaves_a_run_that_says_so_and_a_server_that_works():
    with lab() as server:

        def leave(header, parts):
            page.beat(leaves=True)
            raise Closed

        with device_of(server, counting(30, leave)) as (place, page):
            run = compared(place)
            assert "went away: its page was closed" in run.stopped
            assert all(gate.green for gate in run.gates) and run.samples
            assert run.verdicts[0].outcome is Outcome.UNDECIDED
        with device_of(server) as (place, _):
            assert compared(place).verdicts[0].outcome is Outcome.SAME


def test_a_device_that_falls_silent_is_given_up():
    with lab(patience=replace(HASTE, stall_s=0.5)) as server:

        def fall_silent(header, parts):
            raise Closed

        with device_of(server, counting(1, fall_silent)) as (place, _), pytest.raises(DeviceGone, match="no sign"):
            compared(place)


def test_a_device_that_takes_no_work_is_given_up():
    with lab(patience=replace(HASTE, first_s=0.3)) as server:
        page = Page(server.port)
        page.hello()
        with pytest.raises(DeviceGone, match="took no work"):
            LabDevice(LocalLink(server, page.device), "lab")


def test_a_call_beyond_its_deadline_is_refused_and_the_device_goes_on():
    late = threading.Event()
    with lab() as server:

        def hang(header, parts):
            late.wait(30)
            return saxpy(header, parts)

        with device_of(server, counting(1, hang)) as (place, _):
            place.prepare(EMPTY, None, limit_s=20)

            def release():
                late.set()

            timer = threading.Timer(1.2, release)
            timer.start()
            with pytest.raises(Disturbed, match="did not finish"):
                place.turn(EMPTY, [{}], timing=False, limit_s=0.5)
            timer.join()
            assert place.turn(EMPTY, [{}], timing=False, limit_s=20).walls_ns == [200_000]


def test_a_variant_that_hangs_is_refused_the_second_time():
    with lab() as server:

        def hang(header, parts):
            if header["kind"] == "turn" and header["arm"] == "large":
                # A page that is told that nobody waits closes its device and comes back.
                ticket, deadline = header["ticket"], time.monotonic() + 60
                while page.beat(ticket=ticket) == 204 and time.monotonic() < deadline:
                    time.sleep(0.02)
                return {"fault": {"kind": "lost", "message": "closed"}}, {}
            return saxpy(header, parts)

        with device_of(server, hang) as (place, page):
            for arm in ("small", "large"):
                place.prepare(arm, Described(program=PROGRAM, kept={}, warm={}), limit_s=20)
            fed = [{"x": bytes(4), "y": bytes(4)}]
            with pytest.raises(Disturbed, match="did not finish"):
                place.turn("large", fed, timing=False, limit_s=0.3)
            assert place.turn("small", fed, timing=False, limit_s=20).read == [{"y": bytes(4)}]
            with pytest.raises(DeviceTimeout, match="did not finish"):
                place.turn("large", fed, timing=False, limit_s=0.3)
            assert place.turn("small", fed, timing=False, limit_s=20).read == [{"y": bytes(4)}]


def test_a_reload_resumes():
    with lab() as server:

        def reload(header, parts):
            assert page.hello() == 200
            return {}, {}

        with device_of(server, counting(14, reload)) as (place, page):
            run = compared(place)
            assert run.verdicts[0].outcome is Outcome.SAME
            assert run.environment["elsewhere"]["disturbances"] == 1
            assert server.hub.devices[page.device].loads == 2
            assert [warning.kind for warning in run.warnings if warning.kind == "disturbed rounds"]


def test_a_variant_that_takes_the_page_down_is_refused_and_the_others_go_on():
    with lab() as server:

        def crash(header, parts):
            if header.get("arm") == "large" and header["kind"] == "turn":
                assert page.hello(crashed="large") == 200
                return {}, {}
            return saxpy(header, parts)

        with device_of(server, crash) as (place, page):
            run = compared(place)
            gates = {gate.variant: gate for gate in run.gates}
            assert gates["small"].green and not gates["large"].green
            assert "died while it ran" in gates["large"].failure.detail


def test_a_hidden_tab_pauses_and_its_round_does_not_count():
    with lab() as server:
        hidden = counting(
            15, lambda header, parts: (saxpy(header, parts)[0] | {"hidden": True}, saxpy(header, parts)[1])
        )
        with device_of(server, hidden) as (place, _):
            run = compared(place)
            assert run.environment["elsewhere"]["disturbances"] == 1
            assert {sample.variant for sample in run.samples} == {"small", "large", "(control)", EMPTY}


def test_a_lost_device_is_opened_again_once_and_then_the_variant_is_refused():
    lost = ({"fault": {"kind": "lost", "message": "the driver was reset"}}, {})

    def once(header, parts):
        return lost

    with lab() as server, device_of(server, counting(12, once)) as (place, _):
        assert compared(place).verdicts[0].outcome is Outcome.SAME

    def always(header, parts):
        return lost if header.get("arm") == "large" and header["kind"] == "turn" else saxpy(header, parts)

    with lab() as server, device_of(server, always) as (place, _):
        run = compared(place)
        assert next(gate for gate in run.gates if gate.variant == "small").green
        assert "DeviceLost" in next(gate for gate in run.gates if gate.variant == "large").failure.detail


def test_a_killed_server_is_found_again():
    with lab() as server:
        port = server.port
        page = Page(port).start()
    try:
        with lab(port=port) as again:
            device = again.call(again.hub.arrived("", 30))
            place = LabDevice(LocalLink(again, device.name), "lab")
            assert place.tick_ns == FACTS["clock_step_ns"]
    finally:
        page.stop()


def test_the_command_line_reaches_devices_by_name(tmp_path, monkeypatch):
    path = tmp_path / "lab.sock"
    monkeypatch.setenv("WHET_LAB", str(path))
    with pytest.raises(Unsupported, match="no lab is running"):
        Operator().devices()
    with lab(operator_path=path) as server:
        pages = [Page(server.port, "phone").start() for _ in range(2)]
        try:
            assert [one.name for one in Operator().devices()] == ["phone", "phone-2"]
            assert path.stat().st_mode & 0o077 == 0
            with open_lab("phone") as one, open_lab("phone-2") as other:
                assert {one.name, other.name} == {"lab:phone", "lab:phone-2"}
                with pytest.raises(DeviceError, match="taken"), open_lab("phone"):
                    pass
                assert compared(other).verdicts[0].outcome is Outcome.SAME
                assert one.reference_ns() == 100_000
            with pytest.raises(Unsupported, match="2 devices"), open_lab(""):
                pass
            with pytest.raises(Unsupported, match="no device 'none'"), open_lab("none"):
                pass
        finally:
            for page in pages:
                page.stop()
    assert not path.exists()


def test_without_a_name_the_variants_for_gpus_take_part():
    from whet.cli.check import runnable

    assert "walker" in runnable(load("msm").engine, "browser")
    assert not {"plain", "affine"} & set(runnable(load("msm").engine, "lab:phone"))
    with pytest.raises(Unsupported, match="no variant for browser"):
        runnable(load("graph").engine, "browser")
