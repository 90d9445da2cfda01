"""Every fault of native/graph/plants.hpp is killed by a native program: the interleaving checker takes all but those
that need tensors, which fall to a program with real threads."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from native_build import GCC, ROOT, build

LISTED = re.findall(r"^    X\((\w+)\)", (ROOT / "native" / "graph" / "plants.hpp").read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def programs() -> Path:
    return build(GCC, "planted_graph") / "tests"


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)


@pytest.mark.native_build
@pytest.mark.timeout(1800)
def test_every_planted_fault_is_killed(programs, tried):
    done = run(programs / "planted_graph_interleave", "--plants")
    assert done.returncode == 0, done.stderr[-3000:]
    fates = dict(line.split()[1::-1] for line in done.stdout.splitlines() if line.startswith(("killed", "survives")))
    assert sorted(fates) == sorted(LISTED)
    assert len(LISTED) >= 40
    left = [name for name, fate in fates.items() if fate == "survives"]
    survivors = [
        name for name in left if run(programs / "planted_graph_failed_memory", "--plant", name).returncode == 0
    ]
    assert not survivors
    assert len(left) <= 4, f"the checker should kill more than it did: {left}"
    tried("planted faults", len(LISTED))


@pytest.mark.native_build
@pytest.mark.timeout(1800)
def test_the_same_program_holds_without_a_fault(programs):
    done = run(programs / "planted_graph_failed_memory", "--plant", "none")
    assert done.returncode == 0, done.stderr[-3000:]
    assert "checks held" in done.stdout
