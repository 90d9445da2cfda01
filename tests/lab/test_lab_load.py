"""Fifty devices at once beside one trial: nothing is lost, memory stays flat, the verdict is unharmed.

A few seconds here; `make soak` gives it a minute.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import closing

import psutil
import pytest
from simulated import Page
from test_lab_devices import compared

from whet.evidence.record import Outcome
from whet.lab.chromium import LocalLink
from whet.lab.device import LabDevice
from whet.lab.serving import LabServer

SECONDS = float(os.environ.get("WHET_LOAD_SECONDS", "3"))
DEVICES = int(os.environ.get("WHET_LOAD_DEVICES", "50"))


@pytest.mark.slow
def test_fifty_devices_beside_a_trial(tried):
    with LabServer(poll_s=1.0) as server:
        pages = [Page(server.port, f"device-{number}", answering, beat_s=0.5).start() for number in range(DEVICES)]
        links = [LocalLink(server, page.device) for page in pages]
        heard, stop = [0] * DEVICES, threading.Event()

        def ask(number):
            while not stop.is_set():
                said, _, _ = links[number].ask({"kind": "reference", "number": heard[number]}, {}, limit_s=120)
                assert said.walls_ns == [number_of(heard[number])]
                heard[number] += 1
                stop.wait(0.2)

        asking = [threading.Thread(target=ask, args=(number,)) for number in range(DEVICES)]
        for one in asking:
            one.start()
        process = psutil.Process()
        time.sleep(min(2.0, SECONDS / 2))
        before = process.memory_info().rss
        began, runs = time.monotonic(), 0
        trial = Page(server.port, "trial").start()
        with closing(LocalLink(server, trial.device)) as link:
            while time.monotonic() - began < SECONDS or not runs:
                run = compared(LabDevice(link, "lab"))
                assert run.verdicts[0].outcome is Outcome.SAME and all(gate.green for gate in run.gates)
                runs += 1
        grown = process.memory_info().rss - before
        stop.set()
        for one in asking:
            one.join(130)
        assert not any(one.is_alive() for one in asking)
        for page in [*pages, trial]:
            page.stop()
        assert min(heard) > 0 and server.hub.refusals == 0
        assert len(server.listed()) == DEVICES + 1
        assert grown < 64 << 20, f"{grown / 2**20:.0f} MiB more after {sum(heard)} answers"
        tried("answers of simulated devices under load", sum(heard))


def number_of(number):
    return 1000 + number


def answering(header, parts):
    return {"walls_ns": [number_of(header.get("number", 0))]}, {}
