"""What `whet graph run` and `whet graph trace` do."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from whet.cli.console import console, print_json
from whet.cli.graph import make_workload
from whet.cli.output import require_writable, write_text
from whet.errors import BadInput, OracleMismatch
from whet.graph import Runtime, kernel, workloads
from whet.graph.batch import Batch, Dependencies
from whet.graph.computations import mixing
from whet.graph.engine import mixed_in_order
from whet.graph.observe import chrome_trace, dot
from whet.graph.oracle import checkable
from whet.graph.verification import Verifier
from whet.graph.workloads.workload import Workload


def _peaks(runtime: Runtime) -> list[dict[str, Any]]:
    return [
        {"ring": p.option, "peak": p.peak, "capacity": p.capacity, "blocked": p.blocked, "advice": p.advice}
        for p in runtime.peaks().values()
    ]


def _print_peaks(rows: list[dict[str, Any]]) -> None:
    out = console()
    for row in rows:
        out.print(f"{row['ring']:<20} peak {row['peak']:,} of {row['capacity']:,}: {row['advice']}")


def _mixing(work: Workload, seed: int, dependencies: Dependencies) -> tuple[Batch, Callable[[], str]]:
    mixed = mixing(work, seed=seed, dependencies=dependencies)

    def check() -> str:
        wrong = np.flatnonzero(mixed.answer != mixed_in_order(work, seed))
        if len(wrong):
            raise OracleMismatch(
                f"{len(wrong)} of {work.tasks} tasks left a wrong number, the first is task {wrong[0]}",
                cure="please report it with this command line",
            )
        return "every number right"

    return mixed.batch, check


def _computing(work: Workload, seed: int, dependencies: Dependencies) -> tuple[Batch, Callable[[], str]]:
    real = checkable(work, seed=seed, dependencies=dependencies)

    def check() -> str:
        distance = real.distance()
        if not distance <= real.tolerance:
            raise OracleMismatch(
                f"the answer is {distance:.1e} of its size away from numpy's, {real.tolerance:g} is allowed",
                cure="please report it with this command line",
            )
        return f"within {distance:.0e} of numpy's answer"

    return real.computation.batch, check


def run_checked(
    *, name: str, sizes: tuple[str, ...], as_json: bool, seed: int, edges: str, bodies: str, **given: Any
) -> None:
    if name == "list":
        if as_json:
            print_json({"workloads": workloads.names()})
        else:
            console().print("\n".join(workloads.names()))
        return
    work = make_workload(name, sizes)
    if bodies == "real" and edges == "given":
        raise BadInput("real bodies find their buffers through inferred edges", cure="leave --edges out")
    dependencies: Any = "both" if work.manual and edges == "inferred" else edges
    batch, check = (_computing if bodies == "real" else _mixing)(work, seed, dependencies)
    with Runtime(**given) as runtime:
        began = time.perf_counter_ns()
        batch.submit(runtime)
        runtime.wait()
        elapsed_ns = time.perf_counter_ns() - began
        peaks, totals, threads = _peaks(runtime), runtime.totals(), runtime.workers
    verdict = check()
    answer = {
        "workload": work.name,
        "tasks": work.tasks,
        "edges": work.edges,
        # Edges to tasks that had already left the window need no tracking.
        "edges_tracked": totals["edges"],
        "policy": given["policy"],
        "workers": threads,
        "ns_per_task": round(elapsed_ns / work.tasks, 1),
        "bodies": bodies,
        "check": verdict,
        "rings": peaks,
    }
    if as_json:
        print_json(answer)
        return
    console().print(
        f"{work.name}: {work.tasks:,} tasks, {work.edges:,} edges, {given['policy']}, {threads} workers: "
        f"{answer['ns_per_task']} ns per task; {verdict}"
    )
    _print_peaks(peaks)


def write_swimlane(
    *,
    name: str,
    sizes: tuple[str, ...],
    path: Path,
    dot_path: Path | None,
    regions_path: Path | None,
    body_ns: int,
    as_json: bool,
    **given: Any,
) -> None:
    from whet.regions.capture import save
    from whet.regions.sources import from_phases

    for wanted in (path, dot_path, regions_path):
        require_writable(wanted)
    work = make_workload(name, sizes)
    if work.tasks > 200_000:
        raise BadInput(f"{work.tasks:,} tasks make a trace that no viewer opens", cure="choose a smaller --size")
    dependencies: Dependencies = "both" if work.manual else "inferred"
    with Runtime(**given, window=65536) as runtime:
        # Bodies that spin leave nothing to check; the same graph with bodies that do comes first.
        Verifier(work).runtime(runtime, dependencies, str(given["policy"]))
    body = kernel("spin").with_user(np.array([body_ns], np.uint64))
    batch = Batch(work, [body] * len(work.kinds), dependencies=dependencies)
    options: dict[str, Any] = {"trace": "tasks", "trace_capacity": work.tasks, "record_edges": True, "window": 65536}
    with Runtime(**given, **options) as runtime:
        batch.submit(runtime)
        runtime.wait()
        spans, edges, peaks = runtime.spans(), runtime.recorded_edges(), _peaks(runtime)
        counted = runtime.phases()
    phases = [{phase: ns for phase, (ns, _) in worker.items()} for worker in counted]
    if regions_path is not None:
        save(from_phases(counted, name=f"graph {work.name}"), regions_path)
    write_text(path, json.dumps(chrome_trace(spans, [(a, b) for a, b, _ in edges])))
    if dot_path is not None:
        write_text(dot_path, dot({s.task: s.name for s in spans}, edges))
    if as_json:
        print_json({"trace": str(path), "spans": len(spans), "phases_ns": phases, "rings": peaks})
        return
    out = console()
    out.print(f"{len(spans):,} spans in {path}: open it at ui.perfetto.dev")
    if regions_path is not None:
        out.print(f"phases as regions in {regions_path}: whet regions show {regions_path}")
    for worker, times in enumerate(phases):
        shown = ", ".join(f"{phase} {ns / work.tasks:.0f}" for phase, ns in times.items() if ns)
        out.print(f"worker {worker}, ns per task: {shown}")
    _print_peaks(peaks)
