"""What there is to see of a runtime: ring peaks with advice, tasks that are not done, spans for a swimlane, DOT."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from whet.errors import BadInput


class Peak(msgspec.Struct, frozen=True):
    """Occupancy of one ring. `blocked` counts how often a submission had to wait for it."""

    option: str
    now: int
    peak: int
    capacity: int
    blocked: int

    @property
    def share(self) -> float:
        return self.peak / self.capacity if self.capacity else 0.0

    @property
    def advice(self) -> str:
        if self.blocked and self.share > 0.9:
            return f"full {self.blocked} times: try {self.option}={self.capacity * 2}"
        small = max(4, 1 << (2 * self.peak - 1).bit_length()) if self.peak else 4
        if self.peak and self.share < 0.1 and small < self.capacity:
            return f"mostly empty: {self.option}={small} would do"
        return "fits"


class Stuck(msgspec.Struct, frozen=True):
    """One task that is not done."""

    task: int
    name: str
    running: bool
    worker: int
    running_s: float
    waits_for: list[int]

    def __str__(self) -> str:
        label = f"task {self.task} ({self.name})" if self.name else f"task {self.task}"
        if self.running:
            return f"{label} runs on worker {self.worker} for {self.running_s:.1f} s"
        if not self.waits_for:
            return f"{label} is ready"
        return f"{label} waits for {', '.join(str(t) for t in self.waits_for)}"


class Span(msgspec.Struct, frozen=True):
    """One task on one worker's lane."""

    task: int
    name: str
    worker: int
    begin_ns: int
    end_ns: int


def peaks_of(native: dict[str, Any]) -> dict[str, Peak]:
    return {option: Peak(option, *numbers) for option, numbers in native.items() if isinstance(numbers, tuple)}


def stuck_tasks(native: Iterable[tuple[Any, ...]]) -> list[Stuck]:
    return [
        Stuck(task, name, running, worker, ns / 1e9, list(unmet)) for task, name, running, worker, ns, unmet in native
    ]


def spans_of(worker: int, native: Iterable[tuple[Any, ...]]) -> list[Span]:
    return [Span(task, name, worker, begin, end) for task, name, _, begin, end in native]


def chrome_trace(spans: Sequence[Span], edges: Iterable[tuple[int, int]] = ()) -> dict[str, Any]:
    """The trace-event form that Perfetto and chrome://tracing open: one lane per worker, arrows along the edges."""
    origin = min((s.begin_ns for s in spans), default=0)
    events: list[dict[str, Any]] = [
        {"ph": "M", "pid": 1, "tid": 0, "name": "process_name", "args": {"name": "whet.graph"}}
    ]
    for worker in sorted({s.worker for s in spans}):
        lane = {"pid": 1, "tid": worker + 1}
        events.append({"ph": "M", **lane, "name": "thread_name", "args": {"name": f"worker {worker}"}})
        events.append({"ph": "M", **lane, "name": "thread_sort_index", "args": {"sort_index": worker}})
    for span in spans:
        events.append(
            {
                "ph": "X",
                "pid": 1,
                "tid": span.worker + 1,
                "ts": (span.begin_ns - origin) / 1e3,
                "dur": (span.end_ns - span.begin_ns) / 1e3,
                "name": span.name or "task",
                "cat": "task",
                "args": {"task": span.task},
            }
        )
    by_task = {s.task: s for s in spans}
    for number, (producer, consumer) in enumerate(edges):
        source, target = by_task.get(producer), by_task.get(consumer)
        if source is None or target is None:
            continue
        arrow = {"pid": 1, "name": "edge", "cat": "edge", "id": number}
        events.append({"ph": "s", **arrow, "tid": source.worker + 1, "ts": (source.begin_ns - origin) / 1e3})
        end = {"ph": "f", "bp": "e", **arrow, "tid": target.worker + 1, "ts": (target.begin_ns - origin) / 1e3}
        events.append(end)
    return {"traceEvents": events, "displayTimeUnit": "ns"}


def write_trace(path: Path, spans: Sequence[Span], edges: Iterable[tuple[int, int]] = ()) -> None:
    if not spans:
        raise BadInput("there are no spans to write", cure='make the runtime with trace="tasks" and wait first')
    path.write_text(json.dumps(chrome_trace(spans, edges)))


STYLES = {"owner": "dashed", "data": "solid", "given": "bold"}


def dot(names: dict[int, str], edges: Iterable[tuple[int, int, str]]) -> str:
    """The graph in DOT: solid edges come from data, dashed ones from who allocated, bold ones were given."""
    lines = ["digraph tasks {", "  rankdir=LR;", "  node [shape=box, fontname=monospace];"]
    for task, name in sorted(names.items()):
        text = name.replace("\\", "\\\\").replace('"', '\\"')
        lines.append(f'  t{task} [label="{text} {task}"];')
    lines += [f"  t{a} -> t{b} [style={STYLES.get(how, 'solid')}];" for a, b, how in edges]
    return "\n".join([*lines, "}", ""])
