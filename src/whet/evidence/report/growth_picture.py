"""The growth of a sweep, drawn: log-log, one line per variant with the middle half of its repeats as a band."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from markupsafe import Markup

from whet.evidence.growth import Line
from whet.evidence.report.draw import svg
from whet.evidence.report.scale import duration_marks, size_label
from whet.units import duration

HEIGHT = 320
TOP, BOTTOM = 14, 290
LEFT, RIGHT = 15, 985  # of a thousand
MOST_SIZES = 6
COLOURS = 6


def growth_picture(axis: str, lines: Sequence[Line]) -> Markup:
    """Curves are stretched to the width of the page; text and dots hang on percentages, so they keep their shape."""
    points = [point for line in lines for point in line.points]
    sizes = sorted({point.size for point in points})
    low_ns, high_ns = min(point.low_ns for point in points), max(point.high_ns for point in points)
    grow = max((high_ns / low_ns) ** 0.06, 1.02)
    low_ns, high_ns = low_ns / grow, high_ns * grow

    def x(size: int) -> float:
        span = math.log(sizes[-1] / sizes[0])
        return LEFT + (RIGHT - LEFT) * math.log(size / sizes[0]) / span

    def y(ns: float) -> float:
        return round(BOTTOM - (BOTTOM - TOP) * math.log(ns / low_ns) / math.log(high_ns / low_ns), 1)

    body = [*_times(low_ns, high_ns, y), *_sizes(axis, sizes, x)]
    curves, dots = [], []
    for number, line in enumerate(lines):
        kind = number % COLOURS
        upper = [f"{x(p.size):.0f} {y(p.high_ns)}" for p in line.points]
        lower = [f"{x(p.size):.0f} {y(p.low_ns)}" for p in reversed(line.points)]
        middle = [f"{x(p.size):.0f} {y(p.median_ns)}" for p in line.points]
        curves.append(
            Markup('<path class="band g{}" d="M{}Z"/><path class="curve g{} d{}" d="M{}"/>').format(
                kind, "L".join(upper + lower), kind, number // COLOURS, "L".join(middle)
            )
        )
        dots += [
            Markup('<circle class="g{}" cx="{:.2f}%" cy="{}" r="4"><title>{}</title></circle>').format(
                kind, x(p.size) / 10, y(p.median_ns), f"{line.variant}, {axis}={p.size:,}: {duration(p.median_ns)}"
            )
            for p in line.points
        ]
    stretched = Markup('<svg width="100%" height="{0}" viewBox="0 0 1000 {0}" preserveAspectRatio="none">{1}</svg>')
    body.append(stretched.format(HEIGHT, Markup("").join(curves)))
    return svg(f"Time per call over {axis}, both axes logarithmic", HEIGHT, [*body, *dots])


def _times(low_ns: float, high_ns: float, y: Callable[[float], float]) -> list[Markup]:
    mark = Markup(
        '<line class="grid" x1="0" x2="100%" y1="{0}" y2="{0}"/><text x="-8" y="{1}" text-anchor="end">{2}</text>'
    )
    return [mark.format(y(ns), y(ns) + 4, label) for ns, label in duration_marks(low_ns, high_ns)]


def _sizes(axis: str, sizes: Sequence[int], x: Callable[[int], float]) -> list[Markup]:
    every = math.ceil(len(sizes) / MOST_SIZES)
    mark = Markup('<line class="grid" x1="{0:.2f}%" x2="{0:.2f}%" y1="{1}" y2="{2}"/>')
    label = Markup('<text x="{:.2f}%" y="{}" text-anchor="{}">{}</text>')
    found = [mark.format(x(size) / 10, TOP, BOTTOM) for size in sizes]
    shown = sizes[::every]
    for size in shown:
        anchor = "end" if size == sizes[-1] else "middle"
        text = f"{axis}={size_label(size)}" if size == shown[0] else size_label(size)
        found.append(label.format(x(size) / 10, HEIGHT - 10, anchor, text))
    return found
