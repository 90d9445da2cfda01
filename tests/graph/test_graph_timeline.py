"""The picture of who ran which task when: complete in itself, true to the spans, and in the report."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from whet.errors import BadInput
from whet.graph import InOut, Runtime, kernel
from whet.graph.observe import Span, write_trace
from whet.graph.timeline import fragment, read_trace


def traced() -> list[Span]:
    word = np.zeros(1)
    nap = np.array([200_000], np.uint64)
    with Runtime(workers=2, trace="tasks") as rt:
        for _ in range(5):
            rt.submit(kernel("spin").with_user(nap), InOut(word), name="a<b>&c")
        rt.submit(kernel("spin").with_user(nap), name="other")
        rt.wait()
        return rt.spans()


def test_a_trace_comes_back_as_it_was_and_is_drawn(tmp_path):
    spans = traced()
    write_trace(tmp_path / "trace.json", spans)
    again = read_trace(tmp_path / "trace.json")
    origin = min(s.begin_ns for s in spans)
    assert {(s.task, s.name, s.worker) for s in again} == {(s.task, s.name, s.worker) for s in spans}
    for span in again:
        (own,) = (s for s in spans if s.task == span.task)
        assert abs(own.begin_ns - origin - span.begin_ns) <= 1 and abs(own.end_ns - origin - span.end_ns) <= 2
    drawn = fragment(again)
    tree = ElementTree.fromstring(f"<div>{drawn}</div>")
    told = [title.text or "" for title in tree.iter("title")]
    assert sum("a<b>&c" in text for text in told) >= 1 and sum("other" in text for text in told) == 1
    assert "script" not in drawn and "http" not in drawn


def test_pieces_lie_where_the_tasks_were():
    spans = [Span(0, "x", 0, 1000, 2000), Span(1, "y", 1, 2000, 5000), Span(2, "x", 0, 4000, 5000)]
    places = re.findall(r'<rect x="([0-9.]+)" y="(\d+)" width="([0-9.]+)"', fragment(spans))
    assert [(float(x), int(y), float(w)) for x, y, w in places] == [
        (70.0, 0, 232.5),
        (767.5, 0, 232.5),
        (302.5, 22, 697.5),
    ]


def test_many_short_tasks_make_few_pieces():
    spans = [Span(n, "x", n % 2, 100 * n + 1, 100 * n + 90) for n in range(50_000)]
    drawn = fragment(spans)
    assert drawn.count("<rect") <= 2 * 1600
    assert "50,000" in drawn


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"traceEvents": [{"ph": "X"}]}', '{"traceEvents": [3]}'])
def test_what_is_no_trace_is_refused(tmp_path, text):
    path = tmp_path / "trace.json"
    path.write_text(text)
    with pytest.raises(BadInput, match="no trace"):
        read_trace(path)
    with pytest.raises(BadInput, match="cannot be read"):
        read_trace(tmp_path / "missing.json")
    with pytest.raises(BadInput, match="no tasks"):
        fragment([])
