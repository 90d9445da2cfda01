"""The table of docs/graph-study.md: every workload and length of bodies, and what waiting costs under each policy.

    python benchmarks/graph_study.py --write            # all of it, into the page
    python benchmarks/graph_study.py --workloads chain  # one workload, printed

It calls `whet graph bench --bodies all`, one workload after the other. Nothing else should run on the machine; it warns
where the load at the beginning is above LOAD_MOST.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[1] / "docs" / "graph-study.md"
WORKLOADS = ("pa:Case1", "bgemm:Case0", "chain", "wavefront", "fan", "random", "cholesky")
COLUMNS = "`wired` | `polling` | `hybrid` (last) | first | single | looked at | woken | poll ns (share) | wake ns"
HEAD = f"| bodies | {COLUMNS} |"
LOAD_MOST = 0.5


def measured(workload: str, tasks: int, rounds: int, bodies: str) -> list[dict[str, Any]]:
    whet = Path(sys.executable).parent / "whet"
    command = [str(whet), "graph", "bench", "--workload", workload, "--bodies", bodies, "--tasks", str(tasks)]
    done = subprocess.run([*command, "--rounds", str(rounds), "--json"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(done.stderr or done.stdout)
    costs: list[dict[str, Any]] = json.loads(done.stdout)["costs"]
    return costs


def rows_of(costs: list[dict[str, Any]]) -> list[str]:
    """One row per length of bodies: processor time of every way, then counts and times where they belong."""
    rows = []
    for bodies in dict.fromkeys(cost["bodies"] for cost in costs):
        of = {cost["way"]: cost for cost in costs if cost["bodies"] == bodies}
        wired, polling, last, first, single = of.values()
        share = polling["poll_ns"] / polling["round_ns"] if polling["round_ns"] else 0.0
        cells = [f"`{wired['workload'].partition(':')[0]}`, {bodies}"]
        cells += [f"{cost['cpu_ns']:,.0f}" for cost in (wired, polling, last, first, single)]
        cells.append(f"{polling['looked']:,.1f} / {single['looked']:,.1f}")
        cells.append(f"{wired['woken']:.2f} / {last['woken']:.2f}")
        cells.append(f"{polling['poll_ns']:,.0f} ({share:.0%})")
        cells.append(f"{wired['wake_ns']:,.0f} / {last['wake_ns']:,.0f}")
        rows.append(f"| {' | '.join(cells)} |")
    return rows


def replaced(page: str, rows: list[str]) -> str:
    """The page with these rows below the table's head."""
    lines = page.split("\n")
    begin = lines.index(HEAD) + 2
    end = next(at for at in range(begin, len(lines)) if not lines[at].startswith("|"))
    return "\n".join([*lines[:begin], *rows, *lines[end:]])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="into the page, in place of its rows")
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    parser.add_argument("--bodies", default="all")
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=7)
    asked = parser.parse_args()
    if asked.write and (asked.workloads, asked.bodies) != (",".join(WORKLOADS), "all"):
        parser.error("--write writes the whole table: leave --workloads and --bodies out")
    load = os.getloadavg()[0]
    if load > LOAD_MOST:
        print(f"the machine is not calm: load {load:.1f}", file=sys.stderr)
    rows = []
    for workload in asked.workloads.split(","):
        rows += rows_of(measured(workload, asked.tasks, asked.rounds, asked.bodies))
        print(*rows[-5:], sep="\n", flush=True)
    if asked.write:
        PAGE.write_text(replaced(PAGE.read_text(), rows))


if __name__ == "__main__":
    main()
