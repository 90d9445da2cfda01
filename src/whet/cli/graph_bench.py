"""What `whet graph bench` prints."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whet.cli.console import console, print_json, progress
from whet.errors import BadInput
from whet.evidence.green_turns import green_turns
from whet.evidence.registry import load
from whet.evidence.rig import Plan
from whet.graph import bench, hardware_workers, latency, overhead, workloads
from whet.graph.overhead import case_of
from whet.protocol import Case, parse_variant

if TYPE_CHECKING:
    from whet.graph.bench import Figure

PEER_FOLDER = Path("build/peers")


def chosen_workloads(names: tuple[str, ...], *, everything: bool) -> tuple[str, ...]:
    chosen = workloads.names() if everything else names or bench.DEFAULT
    for name in chosen:
        if name not in workloads.names():
            raise BadInput(f"there is no workload {name!r}", cure=f"workloads: {', '.join(workloads.names())}")
    return chosen


def show(*, names: tuple[str, ...], everything: bool, rounds: int, peers: bool, growth: bool, as_json: bool) -> None:
    chosen = chosen_workloads(names, everything=everything)
    counts = (1, 2) if hardware_workers() > 1 else (1,)
    found = bench.installed_peers(PEER_FOLDER) if peers else {}
    figures: list[Figure] = []
    grown: list[Figure] = []
    steps = len(chosen) * (len(counts) + bool(found)) + (len(bench.GROWTH) if growth else 0) + 1
    with progress("graph bench", steps) as advance:
        for name in chosen:
            for workers in counts:
                figures += bench.ours(case_of(name), workers, rounds, checked_turns)
                advance(1, f"{name}, {workers} workers")
            if found:
                figures += bench.peers(workloads.make(name), counts[-1], max(1, rounds // 3), PEER_FOLDER)
                advance(1, f"{name}, peers")
        if growth:
            grown = bench.growth(max(1, rounds // 2), checked_turns, lambda text: advance(1, text))
        scaling = bench.scaling(checked_turns) if len(counts) > 1 else {}
        built_ms = bench.build_ms(checked_turns)
        advance(1, "scaling")
    gains = {
        f"{edges}, {workers} workers{', processor time' if cpu else ''}": bench.policy_gain(
            figures, edges, workers, cpu=cpu
        )
        for edges in ("inferred", "given")
        for workers in counts
        for cpu in (False, True)
    }
    if as_json:
        print_json(
            {
                "figures": figures,
                "growth": grown,
                "wired_over_hybrid": gains,
                "speedup_1us_bodies": scaling,
                "build_ms_pa_case1": built_ms,
                "peers": sorted(found),
            }
        )
        return
    _tables(figures, grown)
    out = console()
    for which, gain in gains.items():
        if gain:
            out.print(f"wired / hybrid, geometric mean over the workloads ({which}): {gain}")
    for how, factor in scaling.items():
        out.print(f"bodies of 1 µs, one worker against two ({how}): {factor}x")
    out.print(f"building pa:Case1 from arrays in Python: {built_ms} ms")
    if peers and not found:
        out.print("no peers installed: `make bench-peers` builds those that can be had")


def show_latency(names: Sequence[str], bodies: Sequence[str], rounds: int, tasks: int, *, as_json: bool) -> None:
    """What waiting costs on these workloads; `tasks` other than 0 makes those that are a family that large."""
    lengths = [latency.Bodies.parse(text) for text in (latency.STANDARD if "all" in bodies else bodies)]
    workers = min(2, hardware_workers())
    costs = []
    with progress("graph bench", len(names) * len(lengths)) as advance:
        for name in names:
            family = name.partition(":")[0]
            sized = tasks != 0 and family in workloads.families()
            graph, size = (family, tasks) if sized else (name, 0)
            for length in lengths:
                case = case_of(graph, size, length.ns, length.kind)
                costs += latency.costs(case, workers, rounds, checked_turns)
                advance(1, f"{name}, {length}")
    if as_json:
        print_json({"costs": costs})
        return
    _latency_tables(costs)


def checked_turns(variants: Sequence[str], case: Case, repeats: int) -> dict[str, list[Mapping[str, int]]]:
    """Behind the gate, each variant in a bench of its own."""
    loaded = load(f"{overhead.__file__}:{overhead.OverheadEngine.__name__}")
    chosen = tuple(parse_variant(loaded.engine, text) for text in variants)
    plan = Plan(loaded.engine, loaded.ref, chosen, loaded.engine.devices[0], secrets.randbits(32))
    turns = green_turns(plan, case, repeats, timing=True)
    return {
        text: [turn.regions_ns for turn in turns[str(variant)]] for text, variant in zip(variants, chosen, strict=True)
    }


def _latency_tables(costs: Sequence[latency.Cost]) -> None:
    from rich.table import Table

    out = console()
    for name, bodies in dict.fromkeys((c.workload, c.bodies) for c in costs):
        rows = [c for c in costs if (c.workload, c.bodies) == (name, bodies)]
        table = Table(title=f"{name}: {rows[0].tasks:,} tasks, bodies {bodies}, {rows[0].workers} workers; per task")
        for column in ("way", "wall ns", "processor ns", "woken", "looked at", "poll ns", "wake ns", "poll share"):
            table.add_column(column, justify="left" if column == "way" else "right")
        for c in rows:
            times = (f"{c.wall_ns:,.0f}", f"{c.cpu_ns:,.0f}", f"{c.woken:.3f}", f"{c.looked:.2f}")
            table.add_row(c.way, *times, f"{c.poll_ns:,.0f}", f"{c.wake_ns:,.0f}", f"{c.poll_share:.0%}")
        out.print(table)
    out.print("poll share: of the time of all workers outside bodies and submission, in runs with every phase timed")


def _tables(figures: list[Figure], grown: list[Figure]) -> None:
    from rich.table import Table

    out = console()
    for name in dict.fromkeys(f.workload for f in figures):
        rows = [f for f in figures if f.workload == name]
        table = Table(
            title=f"{name}: {rows[0].tasks:,} tasks, {rows[0].edges:,} edges; ns per task, best (median) processor"
        )
        for column in ("contender", "edges", "what", "1 worker", "2 workers"):
            table.add_column(column, justify="right" if "worker" in column else "left")
        for key in dict.fromkeys((f.contender, f.dependencies, f.what) for f in rows):
            cells = {f.workers: f for f in rows if (f.contender, f.dependencies, f.what) == key}
            table.add_row(*key, *(_cell(cells.get(workers)) for workers in (1, 2)))
        out.print(table)
    if grown:
        table = Table(title="growth of pa, ns per task, best (median) processor")
        sizes = list(dict.fromkeys(f.tasks for f in grown))
        for column in ("contender", "edges", *(f"{size:,}" for size in sizes)):
            table.add_column(column)
        for contender, edges in dict.fromkeys((f.contender, f.dependencies) for f in grown):
            cells = {f.tasks: f for f in grown if (f.contender, f.dependencies) == (contender, edges)}
            table.add_row(contender, edges, *(_cell(cells.get(size)) for size in sizes))
        out.print(table)


def _cell(figure: Any) -> str:
    return "" if figure is None else f"{figure.best_ns:.1f} ({figure.median_ns:.1f}) {figure.cpu_ns:.1f}"
