"""A capture as a Chrome trace (JSON), which Perfetto opens: a track per worker, loops and sums on tracks of their own.

Waits have an arrow from the worker that ended them.
"""

from __future__ import annotations

import json
from typing import Any

from whet.regions.accounting import Account
from whet.regions.critical import Barriers
from whet.regions.ticks import tick_source

PROCESS = 1
TRACKS_PER_WORKER = 3


def to_trace(counted: Account) -> str:
    """Times are microseconds from the start of the launch (ticks where they are no time)."""
    capture = counted.capture
    ns = tick_source(capture.about.tick_source).ns_per_tick or 1000.0
    start = counted.first if counted.rows else 0
    events: list[dict[str, Any]] = [
        {"ph": "M", "pid": PROCESS, "name": "process_name", "args": {"name": f"{capture.schema.name} {capture.origin}"}}
    ]
    repeats = capture.about.rows == "repeats"

    def add(tid: int, name: str, kind: str, stretch: tuple[int, int], **args: Any) -> None:
        begin, end = ((tick - start) * ns / 1000 for tick in stretch)
        event = {"ph": "X", "pid": PROCESS, "tid": tid, "name": name, "cat": kind}
        events.append(event | {"ts": begin, "dur": end - begin, "args": args})

    for row in counted.rows:
        tracks = {0: "repeat" if repeats else "worker"}
        for piece in (*row.roots, *row.nested):
            region = capture.schema.regions[piece.region]
            cell = capture.cells[row.worker, piece.region]
            whole = piece.ticks == piece.end - piece.start
            track = 0 if whole else 1 if piece.placed else 2
            tracks[track] = ("worker", "loops", "sums without a place")[track] if track else tracks[0]
            details = {"ticks": piece.ticks, "count": int(cell["count"]), "tags": list(region.tags)}
            tid = row.worker * TRACKS_PER_WORKER + track
            add(tid, region.name, region.role, (piece.start, piece.end), **details)
        for hole in row.holes:
            if hole.missing == hole.end - hole.start:
                add(row.worker * TRACKS_PER_WORKER, "unexplained", "hole", (hole.start, hole.end))
        for track, label in sorted(tracks.items()):
            named = f"{'repeat' if repeats else 'worker'} {row.worker}" + (f" · {label}" if track else "")
            tid = row.worker * TRACKS_PER_WORKER + track
            events.append({"ph": "M", "pid": PROCESS, "tid": tid, "name": "thread_name", "args": {"name": named}})
            events.append(
                {"ph": "M", "pid": PROCESS, "tid": tid, "name": "thread_sort_index", "args": {"sort_index": tid}}
            )
    if not repeats and capture.about.placement == "recorded":
        events += _releases(counted, ns, start)
    about = {
        "tick_source": capture.about.tick_source,
        "placement": capture.about.placement,
        "coverage": counted.coverage if counted.rows else None,
    }
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns", "otherData": about})


def _releases(counted: Account, ns: float, start: int) -> list[dict[str, Any]]:
    """Arrows from the last arriver to everyone whom it let go."""
    arrows = []
    waits = [wait for waits in Barriers(counted).waits.values() for wait in waits if wait.cause != wait.worker]
    for number, wait in enumerate(waits):
        shared = {
            "pid": PROCESS,
            "cat": "release",
            "name": counted.capture.schema.regions[wait.region].name,
            "id": number,
        }
        begin = {"ph": "s", "tid": wait.cause * TRACKS_PER_WORKER, "ts": (wait.released - start) * ns / 1000}
        end = {"ph": "f", "bp": "e", "tid": wait.worker * TRACKS_PER_WORKER, "ts": (wait.exit - start) * ns / 1000}
        arrows += [shared | begin, shared | end]
    return arrows
