"""Who ran which task when, as a picture that needs nothing else: one lane per worker, one colour per name."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from whet.errors import BadInput
from whet.graph.observe import Span

WIDTH, LANE, GAP, LEFT = 1000, 18, 4, 70
FINEST = 1500  # pieces of one worker; what lies closer together is drawn as one
COLOURS = ("#4878a8", "#d9822b", "#5a9e5a", "#b8504b", "#8a6fb0", "#8c6d54", "#c97fb1", "#6f7b80", "#a8a23c", "#45a3b0")


def fragment(spans: Sequence[Span]) -> str:
    """An SVG and a table of names, as HTML."""
    if not spans:
        raise BadInput("there are no tasks to draw", cure='make the runtime with trace="tasks" and wait first')
    begin, end = min(s.begin_ns for s in spans), max(s.end_ns for s in spans)
    scale = (WIDTH - LEFT) / max(1, end - begin)
    names = list(dict.fromkeys(s.name or "task" for s in sorted(spans, key=lambda s: s.begin_ns)))
    colour = {name: COLOURS[place % len(COLOURS)] for place, name in enumerate(names)}
    workers = sorted({s.worker for s in spans})
    height = len(workers) * (LANE + GAP) + 20
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {height}" width="100%" role="img" '
        f'aria-label="{len(spans)} tasks on {len(workers)} workers" font-size="11" fill="currentColor">'
    ]
    for lane, worker in enumerate(workers):
        top = lane * (LANE + GAP)
        parts.append(f'<text x="0" y="{top + 13}">worker {worker}</text>')
        for first, last, count in _pieces([s for s in spans if s.worker == worker], (end - begin) / FINEST):
            x, name = LEFT + (first.begin_ns - begin) * scale, first.name or "task"
            told = f"{name} {first.task}" if count == 1 else f"{count} × {name}, {first.task} to {last.task}"
            told += f": {(last.end_ns - first.begin_ns) / 1e3:.1f} µs from {(first.begin_ns - begin) / 1e3:.1f} µs on"
            parts.append(
                f'<rect x="{x:.2f}" y="{top}" width="{max(0.4, (last.end_ns - first.begin_ns) * scale):.2f}" '
                f'height="{LANE}" fill="{colour[name]}"><title>{escape(told)}</title></rect>'
            )
    parts.append(f'<text x="{LEFT}" y="{height - 6}">0</text>')
    parts.append(f'<text x="{WIDTH}" y="{height - 6}" text-anchor="end">{(end - begin) / 1e3:,.1f} µs</text></svg>')
    return "".join(parts) + _table(spans, names, colour)


def _pieces(spans: list[Span], finest_ns: float) -> list[tuple[Span, Span, int]]:
    """(first, last, how many): tasks of one name that follow each other too closely to be told apart are one piece."""
    pieces: list[tuple[Span, Span, int]] = []
    for span in sorted(spans, key=lambda s: s.begin_ns):
        if pieces:
            first, last, count = pieces[-1]
            if (
                first.name == span.name
                and span.begin_ns - last.end_ns < finest_ns
                and span.end_ns - first.begin_ns < 2 * finest_ns
            ):
                pieces[-1] = first, span, count + 1
                continue
        pieces.append((span, span, 1))
    return pieces


def _table(spans: Sequence[Span], names: list[str], colour: dict[str, str]) -> str:
    rows = []
    for name in names:
        own = [s.end_ns - s.begin_ns for s in spans if (s.name or "task") == name]
        rows.append(
            f'<tr><td><span style="color:{colour[name]}">■</span> {escape(name)}</td><td>{len(own):,}</td>'
            f"<td>{sum(own) / 1e3:,.1f}</td><td>{sum(own) / len(own) / 1e3:,.2f}</td></tr>"
        )
    head = "<tr><th>task</th><th>times</th><th>µs in all</th><th>µs each</th></tr>"
    return f"<table>{head}{''.join(rows)}</table>"


def read_trace(path: Path) -> list[Span]:
    """The tasks of a trace that `write_trace` or `whet graph trace` wrote."""
    try:
        events: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
        return [
            Span(int(e["args"]["task"]), str(e["name"]), int(e["tid"]) - 1, *_ends(e)) for e in events if e["ph"] == "X"
        ]
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}", cure="a file of `whet graph trace`") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadInput(f"{path} is no trace of tasks: {error!r}", cure="a file of `whet graph trace`") from None


def _ends(event: dict[str, Any]) -> tuple[int, int]:
    begin = round(float(event["ts"]) * 1e3)
    return begin, begin + round(float(event["dur"]) * 1e3)
