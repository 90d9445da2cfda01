"""What surrounded a run: pure data, cheap to collect, never failing. What cannot be found out is left out.

Each part is one small function; the adapter and driver of a GPU join as a part of their own through `extra`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

import msgspec

FLAGS_THAT_MATTER = (
    *("sse4_2", "avx", "avx2", "bmi1", "bmi2", "adx", "fma", "avx512f", "avx512dq", "avx512vl", "avx512bw"),
    *("avx512ifma", "avx512_vnni", "vaes", "sha_ni", "asimd", "sve", "sve2"),
)
PACKAGES = ("whet", "numpy", "msgspec", "numba", "scipy", "wgpu")
GIT_TIMEOUT_S = 2.0
# They change from minute to minute, or with every start of a cluster: recorded, but no difference between two
# environments.
VOLATILE = frozenset(
    {
        *("load", "memory.available_bytes", "cpu.frequency_mhz", "power.battery_percent", "python.executable"),
        *("cluster.address", "cluster.machine"),
    }
)


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One field that is not the same in two environments. None: it was not recorded there."""

    field: str
    before: Any
    after: Any


def capture(engine_folder: Path | None = None, extra: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The environment of this process, now. `engine_folder` is where the engine's code lives, for its git state."""
    parts: dict[str, Callable[[], Any]] = {
        "cpu": _cpu,
        "load": _load,
        "memory": _memory,
        "power": _power,
        "virtualisation": _virtualisation,
        "os": _system,
        "python": _python,
        "packages": _packages,
        "native": _native,
        "git": lambda: _git(engine_folder),
    }
    found: dict[str, Any] = {}
    for name, part in parts.items():
        # A sensor that answers rubbish on some machine must not cost anybody a run.
        with contextlib.suppress(Exception):
            value = part()
            if value:
                found[name] = value
    return found | dict(extra or {})


def hashed(files: Iterable[str | Path]) -> dict[str, Any]:
    """What else decided what ran: the hash of each file by its path, or why there is none."""
    found: dict[str, str] = {}
    for file in files:
        try:
            found[str(file)] = hashlib.sha256(Path(file).read_bytes()).hexdigest()[:16]
        except OSError as error:
            found[str(file)] = f"unreadable: {error.strerror}"
    return {"sources": found} if found else {}


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Difference]:
    """What changed between two environments, volatile fields aside, in a stable order."""
    left, right = _flat(before), _flat(after)
    return [
        Difference(field=field, before=left.get(field), after=right.get(field))
        for field in sorted(left.keys() | right.keys())
        if left.get(field) != right.get(field) and not _volatile(field)
    ]


def _volatile(field: str) -> bool:
    return field in VOLATILE or field.partition(".")[0] in VOLATILE


def _flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def _cpu() -> dict[str, Any]:
    import psutil

    fields = _cpuinfo()
    flags = set(fields.get("flags", fields.get("Features", "")).split())
    frequency = _attempt(psutil.cpu_freq)
    affinity = getattr(os, "sched_getaffinity", None)
    cpu: dict[str, Any] = {
        "model": fields.get("model name") or platform.processor() or platform.machine(),
        "architecture": platform.machine(),
        "flags": [flag for flag in FLAGS_THAT_MATTER if flag in flags],
        "logical_cores": psutil.cpu_count(),
        "physical_cores": psutil.cpu_count(logical=False),
        "usable_cores": len(affinity(0)) if affinity else psutil.cpu_count(),
        "governor": _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "turbo": {"0": "on", "1": "off"}.get(_read("/sys/devices/system/cpu/intel_pstate/no_turbo") or ""),
        "frequency_mhz": round(frequency.current) if frequency else None,
        "microcode": fields.get("microcode"),
    }
    return {name: value for name, value in cpu.items() if value is not None}


def _cpuinfo() -> dict[str, str]:
    """The fields of the first processor in /proc/cpuinfo; empty on systems without it."""
    first = (_read("/proc/cpuinfo") or "").split("\n\n", 1)[0]
    pairs = (line.split(":", 1) for line in first.splitlines() if ":" in line)
    return {name.strip(): value.strip() for name, value in pairs}


def _load() -> dict[str, float]:
    one, five, fifteen = os.getloadavg()
    return {"1min": round(one, 2), "5min": round(five, 2), "15min": round(fifteen, 2)}


def _memory() -> dict[str, int]:
    import psutil

    memory = psutil.virtual_memory()
    return {"total_bytes": memory.total, "available_bytes": memory.available}


def _power() -> dict[str, Any]:
    import psutil

    battery = psutil.sensors_battery()
    if battery is None:
        return {"source": "mains"}
    return {"source": "mains" if battery.power_plugged else "battery", "battery_percent": round(battery.percent)}


def _virtualisation() -> dict[str, Any]:
    found: dict[str, Any] = {}
    if vendor := _read("/sys/class/dmi/id/sys_vendor"):
        found["vendor"] = vendor
    if "hypervisor" in _cpuinfo().get("flags", "").split():
        found["hypervisor"] = True
    if Path("/.dockerenv").exists() or Path("/run/.containerenv").exists():
        found["container"] = True
    return found


def _system() -> dict[str, Any]:
    found = {"system": platform.system(), "kernel": platform.release()}
    with contextlib.suppress(OSError):
        found["distribution"] = platform.freedesktop_os_release().get("PRETTY_NAME", "")
    return found


def _python() -> dict[str, str]:
    return {
        "version": platform.python_version(),
        "implementation": platform.python_implementation(),
        "executable": sys.executable,
    }


@lru_cache(maxsize=1)
def _packages() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


@lru_cache(maxsize=1)
def _native() -> dict[str, str]:
    import whet._native as native

    content = Path(native.__file__).read_bytes()
    return {"compiler": str(native.compiler), "sha256": hashlib.sha256(content).hexdigest()[:16]}


def _git(folder: Path | None) -> dict[str, Any]:
    """Commit and cleanliness of the tree that holds `folder`, in one call of git."""
    where = folder if folder is not None else Path(__file__).parent
    done = subprocess.run(
        ["git", "-C", str(where), "status", "--porcelain=v2", "--branch", "--untracked-files=no"],
        capture_output=True,
        text=True,
        timeout=GIT_TIMEOUT_S,
        check=True,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"},
    )
    lines = done.stdout.splitlines()
    heads = dict(line[2:].split(" ", 1) for line in lines if line.startswith("# branch."))
    return {
        "commit": heads.get("branch.oid", "")[:16],
        "branch": heads.get("branch.head", ""),
        "dirty": any(not line.startswith("#") for line in lines),
    }


def _read(path: str) -> str | None:
    with contextlib.suppress(OSError, UnicodeError):
        return Path(path).read_text().strip() or None
    return None


def _attempt(call: Callable[[], Any]) -> Any:
    with contextlib.suppress(Exception):
        return call()
    return None
