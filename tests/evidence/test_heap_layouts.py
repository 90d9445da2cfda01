"""What a process has by luck, or by what it loaded before, is no difference between arms that run the same code."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from small_task import CASE, plan_of, rig_of, write_task

from whet.evidence import benches
from whet.evidence.accounting import Accounts
from whet.evidence.benches import Benches
from whet.evidence.experiment import TrialSource
from whet.evidence.readings import Reading

PLACE = """
from whet.evidence.bench import Bench
bench = Bench()
import numpy as np
print(np.empty(12_000).ctypes.data % 4096)
"""


def test_fresh_benches_have_heaps_of_their_own():
    places = {
        subprocess.run([sys.executable, "-c", PLACE], capture_output=True, text=True, check=True).stdout
        for _ in range(10)
    }
    assert len(places) > 4


FAULTS = """
import resource
import sys

from whet.evidence.bench import Bench

bench = Bench()
bytearray(int(sys.argv[1]))
import numpy as np

x = np.ones(20_000)
faults = [0, 0]
for number in range(2):
    for _ in range(40):
        np.sqrt(x) + x * 2.0 - np.abs(x - 1.0)
    faults[number] = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
print(faults[1] - faults[0])
"""


@pytest.mark.parametrize("freed_bytes", [0, 200_000, 600_000, 3_000_000])
def test_what_a_process_freed_before_does_not_decide_what_arrays_cost(freed_bytes):
    done = subprocess.run([sys.executable, "-c", FAULTS, str(freed_bytes)], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 40, "temporary arrays go back to the system after every call"


def test_the_baseline_is_not_always_started_first(monkeypatch, tmp_path):
    started, firsts = [], set()
    monkeypatch.setattr(benches, "Worker", lambda *given: started.append(given))
    stands = Benches(plan_of(write_task(tmp_path)))
    monkeypatch.setattr(stands, "_step_by_step", lambda arms, steps, baseline: firsts.add(arms[0]) or {})
    for _ in range(40):
        stands.start(["a", "b"], baseline="a")
    assert firsts == {"a", "b"}
    assert len(started) == 80


def test_every_block_has_other_memory(tmp_path):
    with rig_of(tmp_path, "a") as rig:
        rig.open(CASE)
        source = TrialSource(rig, 1, Accounts(effect=0.02, near=True, baseline="a"), parallel=False)
        places = []
        for number in range(3):
            assert not source.block(number, ["a"])
            assert isinstance(source.round(("round", number), ["a"])["a"], Reading)
            places.append({os.fstat(fd).st_ino for pair in rig.memory.arms for fd in pair})
    assert not places[0] & places[1]
    assert not places[1] & places[2]
