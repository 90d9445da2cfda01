"""Shared fixtures, and the closing count of what the suite tried.

A test that tries many things says so with `tried("planted faults", 24)`; the totals are printed after the run and
written to build/tried.json, from which docs/evidence.md is made.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PREFIX = "tried:"
# What was measured on this machine must not decide what a test tests.
os.environ["WHET_TUNED"] = str(ROOT / "build" / "no-such-folder" / "tuned.json")
PLACES = {"alone": 1, "gpu": -2, "native_build": -1}
# A suite started in the background ignores Ctrl-C, and so would the processes that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def tried(record_property):
    """Counts things tried and found right, by kind."""

    def count(kind: str, number: int = 1) -> None:
        record_property(PREFIX + kind, number)

    return count


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """The long ones first, those that must be alone last and on one worker: nobody waits for anybody in between."""
    for item in items:
        if item.get_closest_marker("alone"):
            item.add_marker(pytest.mark.xdist_group("alone"))
    items.sort(key=lambda item: next((place for mark, place in PLACES.items() if item.get_closest_marker(mark)), 0))


@pytest.fixture(autouse=True)
def a_place_on_the_machine(request, tmp_path_factory):
    """Tests run side by side, but for those that judge times: they wait until they are alone, and keep others out."""
    path = tmp_path_factory.getbasetemp().parent / "machine.lock"
    wanted = fcntl.LOCK_EX if request.node.get_closest_marker("alone") else fcntl.LOCK_SH
    with (tmp_path_factory.getbasetemp().parent / "machine.queue").open("a") as queue, path.open("a") as lock:
        # Whoever waits to be alone holds the queue, so that a stream of others cannot starve it.
        fcntl.flock(queue, fcntl.LOCK_EX)
        fcntl.flock(lock, wanted)
        fcntl.flock(queue, fcntl.LOCK_UN)
        yield


@pytest.fixture
def shared_data() -> Path:
    """Real data kept beside the project. Absent elsewhere: then the test says so and is skipped."""
    folder = Path(os.environ.get("WHET_SHARED_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no shared data at {folder}; set WHET_SHARED_DATA")
    return folder


def pytest_terminal_summary(terminalreporter):
    totals: Counter[str] = Counter()
    for report in terminalreporter.stats.get("passed", []):
        for name, number in report.user_properties:
            if name.startswith(PREFIX):
                totals[name.removeprefix(PREFIX)] += number
    if not totals:
        return
    terminalreporter.section("tried and found right")
    for kind, number in sorted(totals.items()):
        terminalreporter.write_line(f"{number:>12,}  {kind}")
    target = ROOT / "build" / "tried.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(dict(sorted(totals.items())), indent=2) + "\n")
