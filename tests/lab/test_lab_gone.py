"""Real pages that go away in the middle of a real trial: a tab that is closed, a renderer and a GPU process killed."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import contextmanager

import psutil
import pytest
from test_lab_devices import compared
from test_lab_page import LIMIT_S, OUTPUT, WORK, chromium, connected, device, doubled, lab, opened

from whet.evidence.record import EMPTY, Outcome
from whet.lab.chromium import LocalLink
from whet.lab.device import LabDevice

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.xdist_group("lab")]
__all__ = ["chromium"]

# Only the trial has empty turns, one in each round: by the third there are samples, and the trial has many more.
ROUNDS = 3


class Counted(LocalLink):
    """Says when the trial is well under way, by `reached`; `rounds` counts on."""

    def __init__(self, server, name):
        super().__init__(server, name)
        self.rounds, self.wanted, self.reached = 0, ROUNDS, threading.Event()

    def ask(self, command, parts, **more):
        if command["kind"] == "turn" and command["arm"] == EMPTY:
            self.rounds += 1
            if self.rounds >= self.wanted:
                self.reached.set()
        return super().ask(command, parts, **more)

    def wait_for(self, more):
        self.wanted, self.reached = self.rounds + more, threading.Event()
        assert self.reached.wait(LIMIT_S)


@contextmanager
def trial(server, name="phone"):
    """A comparison in a thread of its own, once it is in its trial; its run is the only thing in `found`."""
    link, found, failed = Counted(server, connected(server, name).name), [], []

    def run():
        try:
            found.append(compared(LabDevice(link, "lab")))
        except BaseException as error:
            failed.append(error)

    running = threading.Thread(target=run)
    running.start()
    assert link.reached.wait(LIMIT_S), failed
    yield link, found
    running.join(LIMIT_S)
    assert not failed and not running.is_alive()
    link.close()


def processes_of(browser_pid, kind):
    """Those of this Chromium of that kind, as `gpu-process` or `renderer`."""
    found = []
    for process in psutil.Process(browser_pid).children(recursive=True):
        try:
            if f"--type={kind}" in process.cmdline():
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


def pid_of(browser):
    """The process of the browser itself, by its own word."""
    session = browser.new_browser_cdp_session()
    told = session.send("SystemInfo.getProcessInfo")["processInfo"]
    session.detach()
    return next(one["id"] for one in told if one["type"] == "browser")


def why(run):
    return [gate.failure and gate.failure.detail for gate in run.gates]


def test_a_tab_closed_in_the_middle_of_a_trial(chromium):
    with lab() as server:
        with opened(chromium, f"{server.url}?name=phone") as page, trial(server) as (_, found):
            page.close()
        (run,) = found
        assert "went away: its page was closed" in run.stopped and run.samples
        assert all(gate.green for gate in run.gates) and run.verdicts[0].outcome is Outcome.UNDECIDED, why(run)
        assert not server.listed()
        # The server is as good as before.
        with opened(chromium, f"{server.url}?name=phone"):
            place = device(server, "phone")
            place.prepare("double", WORK, limit_s=LIMIT_S)
            assert doubled(place).read == [{"y": OUTPUT}]


def test_a_gpu_process_and_a_renderer_killed_in_the_middle_of_a_trial(chromium):
    """The device is lost for good, then the whole page dies and is loaded again: rounds are lost, no variant is."""
    with lab() as server, opened(chromium, f"{server.url}?name=phone") as page:
        tab = page.context.new_cdp_session(page)
        renderers = processes_of(pid_of(chromium), "renderer")
        with trial(server) as (link, found):
            (gpu,) = processes_of(pid_of(chromium), "gpu-process")
            os.kill(gpu, signal.SIGKILL)
            link.wait_for(2)
            for pid in renderers:
                os.kill(pid, signal.SIGKILL)
            reload_crashed(tab, server)
        (run,) = found
        assert all(gate.green for gate in run.gates), why(run)
        assert run.verdicts[0].outcome is not Outcome.REFUSED
        # Where a block began just then nothing had to be played again; what was killed is another process now.
        assert gpu not in processes_of(pid_of(chromium), "gpu-process")
        assert server.hub.devices["phone"].loads >= 2


def reload_crashed(tab, server):
    """As a person does it, who also gives the page time to come up."""
    for patience_s in (3, 10, 30, 90):
        tab.send("Page.reload")
        deadline = time.monotonic() + patience_s
        while time.monotonic() < deadline:
            if server.hub.devices["phone"].loads >= 2:
                return
            time.sleep(0.1)
