"""One case over time: which runs belong together, what is marked, what the page shows."""

from __future__ import annotations

import random

import msgspec
import pytest

from scripted_runs import blocked_run
from whet.errors import BadInput
from whet.evidence.history import histories
from whet.evidence.record import IMPORTED
from whet.evidence.report.history_picture import render_history


def over_time(factors: list[float]) -> list:
    """Runs of one code on successive days, each as slow as its factor says; the code changes with the factor."""
    runs = []
    for day, factor in enumerate(factors):
        run = blocked_run(40 + day)
        own = random.Random(day)
        samples = [
            msgspec.structs.replace(s, wall_ns=round(1e6 * factor * own.uniform(0.99, 1.01)) * s.calls)
            for s in run.samples
        ]
        runs.append(
            msgspec.structs.replace(
                run,
                created=f"2026-03-{day + 1:02}T12:00:00+00:00",
                samples=samples,
                tails={},
                case=blocked_run(40).case,
                engine_sha256=f"{factor:064}",
            )
        )
    return runs


def test_a_slowdown_is_marked_where_it_happened():
    runs = over_time([1, 1, 1, 1, 2, 2, 2])
    (history,) = histories(list(reversed(runs)))
    assert [stop.created for stop in history.stops] == [run.created for run in runs]
    for moments in history.lines.values():
        said = [moment.outcome for moment in moments]
        assert said[4] == "SLOWER" and "SLOWER" not in said[:4] + said[5:] and "FASTER" not in said
    assert [bool(stop.changed) for stop in history.stops] == [False] * 4 + [True] + [False] * 2
    assert len(history.changes) == 1 and "the engine's code changed" in history.changes[0]
    page = render_history("msm", [history])
    assert page.count('class="change"') == 1 and page.count("<circle") == 7 * len(history.lines)
    assert "▲" in page and "<script" not in page


def test_what_has_no_history():
    runs = over_time([1, 1])
    other = msgspec.structs.replace(runs[1], device="webgpu")
    imported = msgspec.structs.replace(runs[1], budget=IMPORTED)
    assert histories([runs[0], other, imported]) == []
    with pytest.raises(BadInput, match="no case of msm has two runs"):
        render_history("msm", [])
