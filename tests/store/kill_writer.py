"""Kills a process that stores runs, again and again, and counts what is lost or torn. Run as a program.

    kill_writer.py FOLDER KILLS SEED [SABOTAGE]

Prints one JSON object. SABOTAGE breaks the store on purpose, so that a test can see this harness notice it:
`early` acknowledges before the commit, `split` commits the run and its samples apart.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "shared"))

from scripted_runs import scripted_run
from whet.errors import WhetError
from whet.evidence import store as store_module
from whet.evidence.store import Store

RUNS_PER_LIFE = 400
LONGEST_START_S = 0.03


def store_runs(path: Path, first: int, acknowledgements: int, sabotage: str) -> None:
    if sabotage == "split":
        store_module.Transaction = _NoTransaction
    with Store.open(path) as store:
        if sabotage == "split":
            # Every row is a commit of its own now; without this each would wait for the disk.
            store._db.execute("PRAGMA synchronous = OFF")
        for number in range(first, first + RUNS_PER_LIFE):
            run = scripted_run(number, repeats=60)
            if sabotage == "early":
                os.write(acknowledgements, f"{number}\n".encode())
            store.add(run)
            if sabotage != "early":
                os.write(acknowledgements, f"{number}\n".encode())


class _NoTransaction:
    def __init__(self, connection: object) -> None:
        pass

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


def one_life(path: Path, first: int, rng: random.Random, sabotage: str) -> list[int]:
    """Starts a writer, kills it at a random instant and returns the runs that it acknowledged.

    The instant is counted in acknowledgements plus a fraction of the time that one took, not in seconds alone: on a
    busy machine the kills would otherwise all fall before the first run.
    """
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        try:
            store_runs(path, first, write, sabotage)
        finally:
            os._exit(1)
    os.close(write)
    began = time.monotonic()
    wanted, said = rng.choice((0, 0, 1, 2)), b""
    while said.count(b"\n") < wanted:
        said += os.read(read, 4096)
    step_s = (time.monotonic() - began) / wanted if wanted else LONGEST_START_S
    time.sleep(rng.uniform(0, min(step_s, LONGEST_START_S)))
    os.kill(pid, signal.SIGKILL)
    with os.fdopen(read, "rb") as stream:
        said += stream.read()
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status), "the writer ended by itself: it was not killed while storing"
    return [int(line) for line in said.split(b"\n")[:-1]]


def examine(path: Path, first: int, acknowledged: list[int]) -> tuple[int, int, int]:
    """(lost, torn, whole) among the runs of one life."""
    known = {run.id: run for run in (scripted_run(n, repeats=60) for n in range(first, first + len(acknowledged) + 2))}
    if not path.exists():
        return len(acknowledged), 0, 0
    torn = 0
    with Store.open(path) as store:
        found = {summary.id for summary in store.list()} & set(known)
        for run_id in found:
            try:
                torn += store.get(run_id) != known[run_id]
            except WhetError:
                torn += 1
    lost = sum(scripted_run(n, repeats=60).id not in found for n in acknowledged)
    return lost, torn, len(found) - torn


def main(folder: Path, kills: int, seed: int, sabotage: str) -> None:
    rng = random.Random(seed)
    totals = {"kills": 0, "acknowledged": 0, "lost": 0, "torn": 0, "whole": 0}
    for life in range(kills):
        # Every fifth life starts without a file, so that kills also fall into the making of the store.
        path = folder / f"store-{life // 5}.sqlite"
        first = life * RUNS_PER_LIFE
        acknowledged = one_life(path, first, rng, sabotage)
        lost, torn, whole = examine(path, first, acknowledged)
        totals["kills"] += 1
        totals["acknowledged"] += len(acknowledged)
        totals["lost"] += lost
        totals["torn"] += torn
        totals["whole"] += whole
    print(json.dumps(totals))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] if len(sys.argv) > 4 else "")
