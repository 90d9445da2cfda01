"""What `whet doctor` looks at: small independent probes. A new device layer adds its own to `PROBES`.

A probe returns findings and may raise: that too becomes a finding. What can take a process down (a graphics driver)
is asked in a process of its own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from whet import __version__
from whet.errors import WhetError

Status = Literal["ok", "note", "missing", "wrong", "broken"]
GPU_TIMEOUT_S = 60
LEAST_FREE_MIB = 64
COMPILERS = ("g++", "clang++", "cmake", "ninja")


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """`broken`: whet needs it. `wrong`: it is here but must not be used. `missing`: whet can do without.
    `note`: measurements suffer from it."""

    probe: str
    status: Status
    said: str
    cure: str = ""


@dataclass(frozen=True)
class Probe:
    """`required`: an exception is `broken`, not `missing`. `slow` ones are left out by --quick."""

    name: str
    look: Callable[[Path | None], list[Finding]]
    required: bool = False
    slow: bool = False

    def findings(self, store: Path | None) -> list[Finding]:
        try:
            return self.look(store)
        except WhetError as error:
            return [self._failed(error.cause, error.cure)]
        except Exception as error:
            return [self._failed(f"{type(error).__name__}: {error}", "install whet again from its tree or its wheel")]

    def _failed(self, cause: str, cure: str) -> Finding:
        return Finding(probe=self.name, status="broken" if self.required else "missing", said=cause, cure=cure)


def _package(_: Path | None) -> list[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    return [Finding(probe="whet", status="ok", said=f"whet {__version__}, Python {version}")]


def _native(_: Path | None) -> list[Finding]:
    import whet._native as native

    parts = sorted(name for name in vars(native) if not name.startswith("_") and name != "compiler")
    return [Finding(probe="native", status="ok", said=f"{', '.join(parts)}; built by {native.compiler}")]


def _cpu(_: Path | None) -> list[Finding]:
    from whet.evidence.environment import capture

    seen = capture()
    cpu = seen.get("cpu", {})
    flags = set(cpu.get("flags", ()))
    cores = cpu.get("usable_cores", "?")
    if {"avx512f", "avx512ifma"} <= flags:
        best = "AVX-512 IFMA"
    elif {"avx2", "fma"} <= flags:
        best = "AVX2 and FMA"
    elif {"bmi2", "adx"} <= flags:
        best = "mulx and adx"
    else:
        best = "portable code"
    said = f"{cpu.get('model', 'unknown')}, {cores} usable cores, fastest path: {best}"
    return [Finding(probe="cpu", status="ok", said=said), *_measuring(seen)]


def _measuring(seen: dict[str, dict[str, object]]) -> list[Finding]:
    """What would disturb a measurement here and now."""
    found = []
    governor = seen.get("cpu", {}).get("governor")
    if governor not in (None, "performance"):
        cure = "sudo cpupower frequency-set -g performance, while you measure"
        found.append(Finding(probe="governor", status="note", said=f"frequency governor is {governor}", cure=cure))
    load, cores = seen.get("load", {}).get("1min"), seen.get("cpu", {}).get("usable_cores")
    if isinstance(load, float) and isinstance(cores, int) and load > max(0.5, 0.25 * cores):
        said = f"load average {load:g} on {cores} cores"
        found.append(Finding(probe="load", status="note", said=said, cure="close other programs before you measure"))
    if seen.get("power", {}).get("source") == "battery":
        found.append(Finding(probe="power", status="note", said="running on battery", cure="plug it in to measure"))
    return found


def _clock(_: Path | None) -> list[Finding]:
    from whet.evidence.clock import quantum_ns

    quantum = quantum_ns()
    return [Finding(probe="clock", status="ok", said=f"wall clock steps of {quantum:g} ns")]


def _engines(_: Path | None) -> list[Finding]:
    from whet.evidence import registry

    found = []
    for name in registry.names():
        try:
            engine = registry.load(name).engine
        except WhetError as error:
            found.append(Finding(probe=f"engine {name}", status="broken", said=error.cause, cure=error.cure))
            continue
        variants = ", ".join(spec.name for spec in engine.variants())
        said = f"on {', '.join(engine.devices)}; variants {variants}"
        found.append(Finding(probe=f"engine {name}", status="ok", said=said))
    return found


def _settings(_: Path | None) -> list[Finding]:
    from whet.cli.settings import load_settings

    settings = load_settings()
    said = f"effect {settings.effect:g}, budget {settings.budget}" + (
        f", store {settings.store}" if settings.store else ""
    )
    return [Finding(probe="settings", status="ok", said=said)]


def _store(place: Path | None) -> list[Finding]:
    from whet.cli.settings import open_store

    with open_store(place, read_only=True) as store:
        path, runs = store.path.absolute(), len(store.list())
    folder = next(parent for parent in path.parents if parent.exists())
    if not os.access(folder, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
        cure = "make it writable, or choose another place with --store or WHET_STORE"
        return [Finding(probe="store", status="broken", said=f"{path} cannot be written", cure=cure)]
    free_mib = shutil.disk_usage(folder).free >> 20
    if free_mib < LEAST_FREE_MIB:
        said = f"{path}: only {free_mib} MiB free"
        return [Finding(probe="store", status="broken", said=said, cure="free some space, or set WHET_STORE")]
    return [Finding(probe="store", status="ok", said=f"{path}, runs: {runs}, {free_mib:,} MiB free")]


# Key, name, driver, whether it is software, and (cause, cure) of every probe it failed.
AdapterRow = tuple[str, str, str, bool, list[tuple[str, str]]]


def _gpu(_: Path | None) -> list[Finding]:
    """In a child: loading a driver costs seconds and can crash."""
    source = (
        "import json; from whet.gpu.opening import survey; "
        "print(json.dumps([[i.key, i.name, i.driver, i.software, [[c.cause, c.cure] for c in found]] "
        "for i, found in survey()]))"
    )
    cure = "python -m whet.gpu fetches a software driver; or install the driver of your GPU"
    try:
        done = subprocess.run(
            [sys.executable, "-c", source], capture_output=True, text=True, timeout=GPU_TIMEOUT_S, check=True
        )
        rows = msgspec.json.decode(done.stdout.splitlines()[-1], type=list[AdapterRow])
    except subprocess.CalledProcessError as error:
        last = (error.stderr.strip().splitlines() or [f"ended with {error.returncode}"])[-1]
        return [Finding(probe="gpu", status="missing", said=f"no adapter can be asked: {last}", cure=cure)]
    except subprocess.TimeoutExpired:
        said = f"the driver did not answer within {GPU_TIMEOUT_S} s"
        return [Finding(probe="gpu", status="missing", said=said, cure="update the driver")]
    if not rows:
        return [Finding(probe="gpu", status="missing", said="no WebGPU adapter", cure=cure)]
    found = []
    for key, name, driver, software, complaints in rows:
        if complaints:
            cause, advice = complaints[0]
            found.append(Finding(probe=f"gpu webgpu:{key}", status="wrong", said=cause, cure=advice))
            continue
        status: Status = "note" if software else "ok"
        advice = "software adapter: its results can be believed, its times say nothing about a GPU" if software else ""
        found.append(Finding(probe=f"gpu webgpu:{key}", status=status, said=f"{name}, {driver}", cure=advice))
    return found


def _browser(_: Path | None) -> list[Finding]:
    from whet.gpu.browser import BROWSERS

    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found:
        return [Finding(probe="browser", status="ok", said=found)]
    cure = "needed by the tests and for a device in the browser only: apt install chromium"
    return [Finding(probe="browser", status="missing", said="no Chromium in PATH", cure=cure)]


def _toolchain(_: Path | None) -> list[Finding]:
    here = [name for name in COMPILERS if shutil.which(name)]
    if "g++" in here or "clang++" in here:
        return [Finding(probe="toolchain", status="ok", said=f"{', '.join(here)} (needed to build, not to run)")]
    cure = "needed to build whet from source only: apt install g++"
    return [Finding(probe="toolchain", status="missing", said="no C++ compiler in PATH", cure=cure)]


def _optional(_: Path | None) -> list[Finding]:
    from importlib.util import find_spec

    wanted = {"wgpu": "pip install 'whet[gpu]'", "scipy": "pip install scipy", "numba": "pip install numba"}
    return [
        Finding(probe=f"package {name}", status="missing", said="not installed (optional)", cure=cure)
        for name, cure in wanted.items()
        if find_spec(name) is None
    ]


PROBES = (
    Probe("whet", _package, required=True),
    Probe("native", _native, required=True),
    Probe("cpu", _cpu),
    Probe("clock", _clock),
    Probe("gpu", _gpu, slow=True),
    Probe("engines", _engines, required=True),
    Probe("settings", _settings, required=True),
    Probe("store", _store, required=True),
    Probe("browser", _browser),
    Probe("toolchain", _toolchain),
    Probe("packages", _optional),
)
