"""Times in the files of pyperf and hyperfine: written from runs, and read as runs that nobody gated.

What comes from elsewhere was measured one benchmark after the other and no oracle saw it. Such a run is kept and shown,
its verdicts are UNDECIDED and say why.
"""

from __future__ import annotations

import hashlib
import math
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from whet import __version__
from whet.errors import BadInput
from whet.evidence import statistics, verdict
from whet.evidence.record import IMPORTED, Block, Design, Export, Gate, Resources, Run, Sample
from whet.evidence.remarks import times_of
from whet.evidence.statistics import call_times
from whet.evidence.warnings import not_gated
from whet.protocol import Case

MOST_BYTES = 256 << 20
NOTE = "taken over from {}: the benchmarks did not take turns and no oracle saw them"


def as_pyperf(export: Export) -> str:
    """One benchmark per green variant, one of pyperf's runs per block: both are fresh processes."""
    benchmarks = [
        {"metadata": _about(run, name), "runs": _pyperf_runs(run, name)} for run in export.runs for name in _timed(run)
    ]
    if not benchmarks:
        raise BadInput("there is no time in it", cure="export a run with a green variant")
    together = {"python_version": platform.python_version(), "unit": "second"}
    return msgspec.json.encode({"benchmarks": benchmarks, "metadata": together, "version": "1.0"}).decode() + "\n"


def _about(run: Run, name: str) -> dict[str, Any]:
    several = f"{run.engine} {run.case} {name}"
    loops = run.design.calls if run.design is not None else 1
    return {"name": several, "loops": loops, "whet_run": run.id, "whet_version": __version__, "date": _date(run)}


def _date(run: Run) -> str:
    return run.created.partition("+")[0].replace("T", " ")


def _pyperf_runs(run: Run, name: str) -> list[dict[str, Any]]:
    blocks: dict[int, list[float]] = {}
    for sample, ns in zip([s for s in run.samples if s.variant == name], times_of(run, name), strict=True):
        blocks.setdefault(sample.block, []).append(float(ns) / 1e9)
    return [{"metadata": {}, "values": values} for values in blocks.values()]


def as_hyperfine(export: Export) -> str:
    results = []
    for run in export.runs:
        for name in _timed(run):
            times = [float(ns) / 1e9 for ns in times_of(run, name)]
            used = run.resources.get(name)
            cpu = [s.cpu_ns / s.calls / 1e9 for s in run.samples if s.variant == name]
            mean = sum(times) / len(times)
            results.append(
                {
                    "command": name,
                    "mean": mean,
                    "stddev": math.sqrt(sum((one - mean) ** 2 for one in times) / max(1, len(times) - 1)),
                    "median": statistics.median(times),
                    "user": used.user_ns / 1e9 if used else statistics.median(cpu),
                    "system": used.system_ns / 1e9 if used else 0.0,
                    "min": min(times),
                    "max": max(times),
                    "times": times,
                    "exit_codes": [0] * len(times),
                    **({"parameters": {k: str(v) for k, v in run.case.sizes.items()}} if run.case.sizes else {}),
                }
            )
    if not results:
        raise BadInput("there is no time in it", cure="export a run with a green variant")
    return msgspec.json.format(msgspec.json.encode({"results": results}), indent=2).decode() + "\n"


def _timed(run: Run) -> list[str]:
    green = {gate.variant for gate in run.gates if gate.green}
    timed = {sample.variant for sample in run.samples}
    return [name for name in run.variants if name in green & timed]


class _PyperfRun(msgspec.Struct):
    metadata: dict[str, Any] = {}
    values: list[float] = []


class _PyperfBenchmark(msgspec.Struct):
    runs: list[_PyperfRun]
    metadata: dict[str, Any] = {}


class _Pyperf(msgspec.Struct):
    benchmarks: list[_PyperfBenchmark]
    version: str
    metadata: dict[str, Any] = {}


class _HyperfineResult(msgspec.Struct):
    command: str
    times: list[float]
    user: float = 0.0
    system: float = 0.0
    exit_codes: list[int | None] = []
    memory_usage_byte: list[int] = []


class _Hyperfine(msgspec.Struct):
    results: list[_HyperfineResult]


def is_foreign(path: Path) -> bool:
    """Whether a file looks like one of theirs; what cannot be read does not."""
    try:
        keys = msgspec.json.decode(path.read_bytes(), type=dict[str, msgspec.Raw])
        return not {"results", "benchmarks"}.isdisjoint(keys)
    except (OSError, msgspec.MsgspecError, RecursionError):
        return False


def read_foreign(path: Path) -> Run:
    """A file that pyperf or hyperfine wrote, as a run. BadInput where it is neither."""
    cure = "give a file of `pyperf … -o FILE` or `hyperfine --export-json FILE`"
    try:
        content = path.read_bytes()
        if len(content) > MOST_BYTES:
            raise BadInput(f"{path} has {len(content) / 1e6:.0f} MB", cure="export fewer benchmarks at once")
        keys = msgspec.json.decode(content, type=dict[str, msgspec.Raw])
        if "results" in keys:
            return _from_hyperfine(msgspec.json.decode(content, type=_Hyperfine), path, content)
        return _from_pyperf(msgspec.json.decode(content, type=_Pyperf), path, content)
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}", cure=cure) from None
    except (msgspec.MsgspecError, RecursionError) as error:
        raise BadInput(f"{path} holds no times of pyperf or hyperfine: {error}", cure=cure) from None


def _from_pyperf(found: _Pyperf, path: Path, content: bytes) -> Run:
    blocks: dict[str, list[list[float]]] = {}
    for number, one in enumerate(found.benchmarks):
        name = one.metadata.get("name") or found.metadata.get("name") or f"benchmark {number + 1}"
        if (unit := one.metadata.get("unit", found.metadata.get("unit", "second"))) != "second":
            raise BadInput(f"{path}: {name} is measured in {unit}", cure="import benchmarks of time")
        blocks.setdefault(str(name), []).extend(run.values for run in one.runs if run.values)
    about = {key: value for key, value in found.metadata.items() if isinstance(value, str | int)}
    return _run("pyperf", blocks, path, content, environment={"pyperf": about})


def _from_hyperfine(found: _Hyperfine, path: Path, content: bytes) -> Run:
    blocks: dict[str, list[list[float]]] = {}
    resources = {}
    for one in found.results:
        name = one.command if one.command not in blocks else f"{one.command} #{len(blocks) + 1}"
        blocks[name] = [one.times]
        resources[name] = Resources(
            user_ns=one.user * 1e9, system_ns=one.system * 1e9, peak_bytes=max(one.memory_usage_byte, default=0)
        )
    about = {"hyperfine": {"file": path.name}}
    return _run("hyperfine", blocks, path, content, environment=about, resources=resources)


def _run(
    tool: str,
    blocks: Mapping[str, Sequence[Sequence[float]]],
    path: Path,
    content: bytes,
    *,
    environment: dict[str, Any],
    resources: dict[str, Resources] | None = None,
) -> Run:
    samples = [sample for name, groups in blocks.items() for sample in _samples(name, groups, path)]
    names = list(dict.fromkeys(sample.variant for sample in samples))
    if not names:
        raise BadInput(f"{path} has no times in it", cure="was it written with the raw times?")
    digest = hashlib.sha256(content).hexdigest()
    created = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    times = {name: call_times([s for s in samples if s.variant == name]) for name in names}
    note = NOTE.format(tool)
    return Run(
        id=f"{created:%Y%m%dT%H%M%S}-{digest[:8]}",
        created=created.isoformat(timespec="seconds"),
        engine=tool,
        engine_ref=tool,
        engine_sha256=digest,
        command=f"whet runs --import {path.name}",
        case=Case(sizes={}, profile=path.stem),
        device="cpu",
        seed=0,
        fixed_seed=0,
        budget=IMPORTED,
        baseline=names[0],
        variants=names,
        gates=[Gate(variant=name, green=True, full_checks=0, digest_checks=0) for name in names],
        samples=samples,
        verdicts=[
            verdict.judge(name, names[0], None, effect=statistics.EFFECT, clock="wall", notes=[note])
            for name in names[1:]
        ],
        warnings=not_gated(tool, len(names)),
        environment=environment,
        stopped=f"as {tool} wrote it",
        elapsed_s=0.0,
        design=Design(
            regime=IMPORTED,
            blocks=[Block(number=n, cores=[], rounds=1) for n in sorted({s.block for s in samples})],
        ),
        tails={name: statistics.tails(values) for name, values in times.items()},
        task_examined=True,
        resources={name: used for name, used in (resources or {}).items() if name in names},
    )


def _samples(name: str, groups: Sequence[Sequence[float]], path: Path) -> list[Sample]:
    values = [(block, value) for block, group in enumerate(groups) for value in group]
    if any(not (math.isfinite(value) and 0 < value < 1e6) for _, value in values):
        raise BadInput(f"{path}: {name} has a time that is none", cure="times are seconds above 0")
    return [
        Sample(
            variant=name,
            round=number,
            order=0,
            seed=0,
            calls=1,
            wall_ns=max(1, round(value * 1e9)),
            cpu_ns=0,
            check="none",
            block=block,
        )
        for number, (block, value) in enumerate(values)
    ]
