"""A task that is small enough to write down in a test, and what it takes to put its variants on a rig."""

from __future__ import annotations

import json
import os
import textwrap
from pathlib import Path

import pytest

from whet.evidence.readings import Red
from whet.evidence.registry import load
from whet.evidence.rig import Plan, Rig
from whet.evidence.worker import Worker
from whet.protocol import Case, Variant, parse_variant

CASE = Case(sizes={"n": 8})
TASK = """
import ctypes, errno, fcntl, json, mmap, os, signal, socket, subprocess, sys, threading, time
from pathlib import Path
import numpy as np
from whet.errors import BadInput, DeviceLost, Unsupported
from whet.protocol import *

class Twice(Engine):
    name = "twice"
    def cases(self): return [Case(sizes={"n": 8})]
    def variants(self): return [VariantSpec(name, "") for name in ("a", "b")]
    def outputs(self, case): return {"y": Output((case.sizes["n"],), "i8")}
    def prepare(self, case, seed): return {"x": np.random.default_rng(seed).integers(0, 1000, case.sizes["n"])}
    def setup(self, variant, case, fixed, device):
        SETUP
    def run(self, variant, state, inputs, outputs):
        np.multiply(inputs["x"], 2, out=outputs["y"])
        RUN
    def oracle(self, case, fixed_seed, seed, inputs):
        ORACLE
        return {"y": inputs["x"] + inputs["x"]}
"""
# What a snippet puts into `found` comes out of a bench as the text of an exception.
TELL = "raise RuntimeError('told ' + json.dumps(found) + ' end')"


def write_task(folder: Path, *, setup: str = "pass", run: str = "pass", oracle: str = "pass") -> Path:
    """The task with these lines in its methods."""
    text = TASK
    for place, lines in (("SETUP", setup), ("RUN", run), ("ORACLE", oracle)):
        text = text.replace(place, textwrap.dedent(lines).strip().replace("\n", "\n        "))
    path = folder / "task.py"
    path.write_text(text)
    return path


def plan_of(path: Path, variants: str = "ab", *, candidates: tuple[Variant, ...] = (), **more) -> Plan:
    loaded = load(str(path))
    own = tuple(parse_variant(loaded.engine, name) for name in variants)
    return Plan(loaded.engine, loaded.ref, (*own, *candidates), "cpu", 1, **more)


def rig_of(folder: Path, variants: str = "ab", **lines: str) -> Rig:
    return Rig(plan_of(write_task(folder, **lines), variants))


def candidate_of(folder: Path, name: str, source: str, file: str = "candidate.py") -> Variant:
    path = folder / file
    path.write_text(textwrap.dedent(source))
    return Variant(name, file=str(path))


def told(red: Red | None) -> dict:
    """What a snippet found out in its bench."""
    assert isinstance(red, Red) and "told " in red.detail, red
    return json.loads(red.detail.partition("told ")[2].rpartition(" end")[0])


def told_in_setup(folder: Path, lines: str) -> dict:
    with rig_of(folder, "a", setup=f"{textwrap.dedent(lines).strip()}\n{TELL}") as rig:
        _name_the_referee(folder, rig)
        rig.open(CASE)
        return told(rig.start(["a"], cores=rig.cores[:1])["a"])


def told_in_turn(folder: Path, lines: str, setup: str = "pass") -> dict:
    """The same from a sealed bench, while it has its turn."""
    with rig_of(folder, "a", setup=setup, run=f"{textwrap.dedent(lines).strip()}\n{TELL}") as rig:
        _name_the_referee(folder, rig)
        rig.open(CASE)
        assert rig.start(["a"], cores=rig.cores[:1], sealed=True) == {}
        return told(rig.round(("turn", 0), ["a"])["a"])


def _name_the_referee(folder: Path, rig: Rig) -> None:
    """Its process id in a file, for snippets that try to reach it."""
    assert rig.officials._referee is not None
    (folder / "referee").write_text(str(rig.officials._referee.pid))


def missing_here() -> dict[str, str]:
    """What this system refuses a bench, by what is asked for now."""
    worker = Worker("bench")
    try:
        return dict(worker.greet().missing)
    finally:
        worker.close()


def need_namespaces() -> None:
    """Skips where the system grants none, except where the suite must not pass without them."""
    refused = {what: why for what, why in missing_here().items() if "namespace" in what or "/proc" in what}
    if not refused:
        return
    reason = f"this system refuses a bench its own {', '.join(refused)}: {next(iter(refused.values()))}"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
