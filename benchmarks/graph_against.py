"""CPU time per task of the rows of `whet graph bench`, this build against another, in one interleaved run on one core.

    python benchmarks/graph_against.py --base ../whet-7e70e31/.venv/bin/python

The other build is a worktree of an older revision with its own environment (`git worktree add --detach`, `make setup`
there). Each pair of fresh processes asks both builds for every row in turn; the least CPU time of each counts, because
other work on the machine only ever adds to it. The ratio is the geometric mean over pairs with its 95 % interval: where
a process's memory lies moves a row by a few per cent, so only pairs tell how sure a row is. A row is `over` if all of
its interval lies above 1.05, `open` if its upper end does. One worker unless told otherwise: with two, CPU time counts
the waiting of one for the other as well.
"""

from __future__ import annotations

import json
from collections import Counter
from statistics import geometric_mean
from typing import TYPE_CHECKING, Any

import other_build

if TYPE_CHECKING:  # the other build may be older than the statistics
    from whet.evidence.statistics import Interval

POLICIES = ("wired", "polling", "hybrid")
WORKLOADS = (
    "pa:Case1",
    "pa:Case4",
    "bgemm:Case0",
    "chain",
    "wavefront",
    "fan",
    "random",
    "cholesky",
    "pa-manual:Case1",
)
LIMIT = 1.05


def serve(core: int) -> None:
    """Reads rows, answers with the least CPU ns per task of a few runs. Imports only what every build has."""
    asked = other_build.asked(core)
    import time
    from collections.abc import Callable

    from whet.graph import Batch, Graph, Runtime, workloads

    try:
        from whet.graph.overhead import window_for
    except ImportError:  # before the contenders had a file of their own
        from whet.graph.bench import window_for  # type: ignore[attr-defined,no-redef]

    works: dict[str, workloads.Workload] = {}
    ways: dict[str, Callable[[], object]] = {}

    def way_of(row: dict[str, Any], workers: int) -> Callable[[], object]:
        work = works.setdefault(row["workload"], workloads.make(row["workload"]))
        if row["how"] == "replay":
            graph = Graph.from_workload(work)
            return lambda: graph.replay(workers=workers)
        if row["how"] == "build and replay":
            return lambda: Graph.from_workload(work).replay(workers=workers)
        runtime = Runtime(policy=row["how"], workers=workers, window=window_for(work))
        batch = Batch(work, dependencies=row["edges"])

        def submit_and_wait() -> None:
            batch.submit(runtime)
            runtime.wait()

        return submit_and_wait

    for row in asked:
        key = json.dumps([row["workload"], row["how"], row["edges"]])
        if key not in ways:
            ways.clear()
            ways[key] = way_of(row, row["workers"])
            ways[key]()
        tasks = works[row["workload"]].tasks
        best = float("inf")
        for _ in range(row["calls"]):
            repeats = max(1, 20_000 // tasks)
            start = time.process_time_ns()
            for _ in range(repeats):
                ways[key]()
            best = min(best, (time.process_time_ns() - start) / (tasks * repeats))
        other_build.answer(best)


def rows(names: list[str], workers: int) -> list[dict[str, object]]:
    all_rows: list[dict[str, object]] = []
    for name in names:
        edges = ("given",) if "manual" in name else ("given", "inferred")
        kinds = [(policy, edge) for edge in edges for policy in POLICIES]
        kinds += [("replay", "built"), ("build and replay", "built")]
        all_rows += [{"workload": name, "how": how, "edges": edge, "workers": workers} for how, edge in kinds]
    return all_rows


def interval_of(pairs: list[dict[str, float]]) -> Interval:
    import numpy as np

    from whet.evidence.statistics import Times, interval

    places = np.arange(len(pairs))
    this, base = (Times(np.asarray([pair[name] for pair in pairs]), places, places) for name in ("this", "base"))
    found = interval(this, base, confidence=0.95)
    if found is None:
        raise SystemExit(f"{len(pairs)} pairs are too few for an interval: --pairs")
    return found


def word_for(ratio: Interval) -> str:
    return "over" if ratio.low > LIMIT else "open" if ratio.high > LIMIT else ""


def main() -> None:
    parser = other_build.options(__doc__)
    parser.add_argument("--pairs", type=int, default=6, help="fresh processes of each build")
    parser.add_argument("--calls", type=int, default=3, help="runs of a row before the other build's turn")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each build at a row")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    options = parser.parse_args()
    if options.serve:
        serve(options.core)
        return
    if not options.base:
        parser.error("give --base")
    asked = rows(options.workloads.split(","), options.workers)
    least: list[list[dict[str, float]]] = [[] for _ in asked]
    for _ in range(options.pairs):
        builds = other_build.both(options.base, __file__, options.core)
        for place, row in enumerate(asked):
            best = dict.fromkeys(builds, float("inf"))
            for turn in range(options.rounds):
                for name, build in list(builds.items())[:: 1 if turn % 2 == 0 else -1]:
                    best[name] = min(best[name], build.ask({**row, "calls": options.calls}))
            least[place].append(best)
        for build in builds.values():
            build.close()
    print("| workload | how | edges | base, ns | this, ns | ratio (95 % interval) | |\n|---|---|---|---|---|---|---|")
    found = [interval_of(pairs) for pairs in least]
    for row, pairs, ratio in zip(asked, least, found, strict=True):
        base, this = (min(pair[name] for pair in pairs) for name in ("base", "this"))
        print(
            f"| {row['workload']} | {row['how']} | {row['edges']} | {base:.1f} | {this:.1f} | {ratio.ratio:.3f}"
            f" ({ratio.low:.3f}, {ratio.high:.3f}) | {word_for(ratio)} |"
        )
    words = Counter(map(word_for, found))
    print(
        f"\ngeometric mean {geometric_mean(ratio.ratio for ratio in found):.3f}; of {len(found)} rows {words['over']}"
        f" over {LIMIT}, {words['open']} open"
    )


if __name__ == "__main__":
    main()
