"""Fifty devices at once beside one trial: nothing is lost, memory stays flat, the verdict is unharmed.

A few seconds here with a simulated trial; `make soak` gives it a minute, and a minute beside a trial in Chromium.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from simulated import Page
from test_lab_devices import compared

from needs import needed
from whet.evidence.record import Outcome
from whet.lab.chromium import NEAR, LocalLink, chromium
from whet.lab.device import LabDevice
from whet.lab.serving import LabServer

SECONDS = float(os.environ.get("WHET_LOAD_SECONDS", "3"))
DEVICES = int(os.environ.get("WHET_LOAD_DEVICES", "50"))
MOST_GROWTH_BYTES = 64 << 20
SLOW = f"{Path(__file__).parent / 'planted_engines.py'}:SlowSaxpy"


@dataclass
class Load:
    heard: list[int]
    before_bytes: int = 0

    def grown_bytes(self):
        return psutil.Process().memory_info().rss - self.before_bytes


@contextmanager
def fifty(server):
    """So many devices that answer and beat without a break; all is heard, and none is lost, when the context ends."""
    pages = [Page(server.port, f"device-{number}", answering, beat_s=0.5).start() for number in range(DEVICES)]
    links = [LocalLink(server, page.device) for page in pages]
    load, stop = Load([0] * DEVICES), threading.Event()

    def ask(number):
        while not stop.is_set():
            said, _, _ = links[number].ask({"kind": "reference", "number": load.heard[number]}, {}, limit_s=120)
            assert said.walls_ns == [number_of(load.heard[number])]
            load.heard[number] += 1
            stop.wait(0.2)

    asking = [threading.Thread(target=ask, args=(number,)) for number in range(DEVICES)]
    for one in asking:
        one.start()
    time.sleep(min(2.0, SECONDS / 2))
    load.before_bytes = psutil.Process().memory_info().rss
    try:
        yield load
    finally:
        stop.set()
        for one in asking:
            one.join(130)
        for page in pages:
            page.stop()
    assert not any(one.is_alive() for one in asking)
    assert min(load.heard) > 0 and server.hub.refusals == 0
    assert len(server.listed()) == DEVICES + 1


def trials(server, name, **more):
    """One after the other on the device of that name, until the time is over."""
    began, runs = time.monotonic(), []
    with closing(LocalLink(server, name)) as link:
        while time.monotonic() - began < SECONDS or not runs:
            runs.append(compared(LabDevice(link, "lab"), **more))
    return runs


@pytest.mark.slow
def test_fifty_devices_beside_a_trial(tried):
    with LabServer(poll_s=1.0) as server:
        trial = Page(server.port, "trial").start()
        with fifty(server) as load:
            for run in trials(server, trial.device):
                assert run.verdicts[0].outcome is Outcome.SAME and all(gate.green for gate in run.gates)
            grown = load.grown_bytes()
        trial.stop()
        assert grown < MOST_GROWTH_BYTES, f"{grown / 2**20:.0f} MiB more after {sum(load.heard)} answers"
        tried("answers of simulated devices under load", sum(load.heard))


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.skipif("WHET_ALL_LAB" not in os.environ, reason="a minute in Chromium; make soak")
def test_fifty_devices_beside_a_trial_in_chromium(tried):
    """One variant is slower by far: every trial under the load says so, and every gate is green."""
    with LabServer(poll_s=1.0, patience=NEAR) as server, needed(lambda: chromium(f"{server.url}?name=trial")):
        name = server.call(server.hub.arrived("trial", 180)).name
        with fifty(server) as load:
            runs = trials(server, name, n=1000, ref=SLOW)
            grown = load.grown_bytes()
        for run in runs:
            assert all(gate.green for gate in run.gates), [gate.failure for gate in run.gates]
        verdicts = [run.verdicts[0] for run in runs]
        assert {verdict.outcome for verdict in verdicts} == {Outcome.SLOWER}, verdicts
        assert grown < MOST_GROWTH_BYTES, f"{grown / 2**20:.0f} MiB more after {sum(load.heard)} answers"
        ratios = ", ".join(f"{verdict.ratio:.2f}" for verdict in verdicts)
        print(f"{sum(load.heard)} answers beside {len(runs)} trials, {grown / 2**20:.0f} MiB more, ratios {ratios}")
        tried("answers of simulated devices beside trials in Chromium", sum(load.heard))


def number_of(number):
    return 1000 + number


def answering(header, parts):
    return {"walls_ns": [number_of(header.get("number", 0))]}, {}
