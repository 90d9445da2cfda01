"""The gate turns red for every planted fault, and stays green without one. The faults are in native/fault.hpp."""

from __future__ import annotations

from pathlib import Path

import faulty_engine
import pytest

from native_build import GCC, build
from whet.evidence.examination import Refusal, examine
from whet.evidence.rig import Plan, Rig
from whet.protocol import Case, parse_variant

ENGINE_FILE = Path(faulty_engine.__file__)
AT_ONCE = 8  # variants in one rig: each has a process of its own

# The cases that a fault must survive to stay unseen; the first that shows it ends the search.
CASES = [
    Case(sizes={"n": 33}),
    Case(sizes={"n": 97}, profile="edges"),
    Case(sizes={"n": 97}, profile="collide"),
    Case(sizes={"n": 32}, profile="opposites"),
    Case(sizes={"n": 31}, profile="duplicates"),
    Case(sizes={"n": 9}, profile="infinities"),
]


@pytest.fixture(scope="module")
def faults() -> list[str]:
    build(GCC, "whet_faulty")
    return faulty_engine.fault_names()


def host(fault: str) -> str:
    """The variant in whose code the fault sits."""
    if fault.startswith("plain_"):
        return "plain"
    return "pippenger:c=4,glv=true" if fault.startswith("glv_") else "pippenger:c=4"


def refused(variants: list[str]) -> dict[str, Refusal]:
    """Puts the variants before the gate, a few at a time, and gives back those that it refuses."""
    engine = faulty_engine.FaultyMsm()
    found: dict[str, Refusal] = {}
    for start in range(0, len(variants), AT_ONCE):
        chosen = tuple(parse_variant(engine, text) for text in variants[start : start + AT_ONCE])
        plan = Plan(engine=engine, ref=f"{ENGINE_FILE}:FaultyMsm", variants=chosen, device="cpu", seed=5)
        with Rig(plan) as rig:
            for case in CASES:
                if rig.alive:
                    found |= examine(rig, case, turns=2)[1]
    return found


def with_fault(variant: str, number: int) -> str:
    return f"{variant}{',' if ':' in variant else ':'}fault={number}"


@pytest.mark.native_build
@pytest.mark.slow
@pytest.mark.timeout(1800)  # compiles the core
def test_every_planted_fault_turns_the_gate_red(faults, tried):
    assert len(faults) > 20
    planted = {name: with_fault(host(name), number) for number, name in enumerate(faults) if number > 0}
    found = refused(list(planted.values()))
    unseen = [name for name, variant in planted.items() if variant not in found]
    assert not unseen
    # Red because the point is wrong, not because something crashed.
    assert {name: found[variant].red.reason for name, variant in planted.items()} == dict.fromkeys(
        planted, "wrong output"
    )
    tried("planted faults", len(planted))


@pytest.mark.native_build
def test_the_same_build_without_a_fault_is_green(faults):
    assert refused([with_fault(v, 0) for v in ("plain", "pippenger:c=4", "pippenger:c=4,glv=true")]) == {}
