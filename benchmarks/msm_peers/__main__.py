"""whet.msm against the libraries that can be installed by name, in one run: gated, interleaved, as ratios.

    python benchmarks/msm_peers                                   1 to 2^14 points on one thread; a few minutes
    python benchmarks/msm_peers --full                            1 to 2^20, one and two threads; about an hour
    python benchmarks/msm_peers --sizes 18 --threads 2 --profiles random,E      one piece of that
    python benchmarks/msm_peers --peers gnark,arkworks            only these
    python benchmarks/msm_peers --sizes 18 --again                also where a time is known already
    python benchmarks/msm_peers --page docs/msm-peers.md          writes the page from what all runs kept

Each library runs in a process of its own and is timed inside it, process CPU time and wall time, so that the pipe does
not count; short calls are made in a row until they fill a turn. Turns go round all libraries. Every answer of every
library, ours included, must be that of the known-multiples oracle on the very input that is timed; one that differs is
not timed. Reading points into a library's own form is timed as "load". A library that takes too long for a size is left
out of it and of the larger ones. Figures are kept in build/peers/results.json.

Libraries in Go and Rust are built from gnark/ and rust/ beside this file, in the versions that go.sum and Cargo.lock
state, where go, cargo and their registries are to be had.
"""

from __future__ import annotations

import argparse
import json
import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from bench import Bench, Row, too_slow
from install import HOME, install, versions
from page import PROFILES, cells, write_page

KEPT = HOME / "results.json"
QUICK, FULL = (0, 6, 10, 12, 14), (0, 3, 6, 8, 10, 12, 14, 16, 18, 20)


def show(row: Row) -> None:
    print(f"\n2^{row['n'].bit_length() - 1} points, {row['threads']} thread(s), {row['profile']} scalars")
    print(f"   {'':14}{'CPU ms':>10}{'wall ms':>10}{'ratio':>10}{'load ms':>10}")
    for name, (cpu_ms, wall_ms) in sorted(row["ms"].items(), key=lambda item: item[1][1]):
        print(f"   {name:14}{cpu_ms:10.2f}{wall_ms:10.2f}{cells(row, name):>10}{row['load_ms'][name]:10.1f}")
    for name, note in row["notes"].items():
        print(f"   {name:14}{note}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--sizes", help="such as 10,12,14: powers of two")
    parser.add_argument("--threads", help="such as 1,2")
    parser.add_argument("--profiles", help="such as random,E")
    parser.add_argument("--peers", help="such as gnark,arkworks; all by default")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--patience", type=float, default=5.0, help="seconds that a call may take")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--page", type=Path)
    options = parser.parse_args()
    rows: list[Row] = json.loads(KEPT.read_text()) if KEPT.exists() else []
    if options.page:
        write_page(options.page, rows, versions())
        return
    trouble = install()
    for name, why in trouble.items():
        if why:
            print(f"{name}: not installed here: {why}")
    sizes = [int(part) for part in options.sizes.split(",")] if options.sizes else FULL if options.full else QUICK
    threads = [int(part) for part in options.threads.split(",")] if options.threads else (1, 2)[: 1 + options.full]
    profiles = options.profiles.split(",") if options.profiles else list(PROFILES)
    for n, workers in ((2**exponent, workers) for exponent in sizes for workers in threads):
        known = {row["profile"] for row in rows if (row["n"], row["threads"]) == (n, workers)}
        wanted = [profile for profile in profiles if options.again or profile not in known]
        if not wanted:
            continue
        slow = partial(too_slow, rows, n, workers, options.patience)
        bench = Bench(n, workers, options.rounds, options.patience, slow)
        try:
            chosen = options.peers.split(",") if options.peers else list(trouble)
            bench.load([name for name, why in trouble.items() if not why and name in chosen])
            bench.absent |= {name: "left out of this run" for name in trouble if name not in chosen}
            for profile in wanted:
                row = bench.measure(profile)
                show(row)
                rows = [old for old in rows if (old["n"], old["threads"], old["profile"]) != (n, workers, profile)]
                rows.append(row)
                KEPT.write_text(json.dumps(rows, indent=1))
        finally:
            bench.close()


if __name__ == "__main__":
    main()
