"""Times of one case over runs, drawn: runs evenly spaced, time logarithmic, a mark where something changed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from markupsafe import Markup

from whet.errors import BadInput
from whet.evidence.history import History
from whet.evidence.report.draw import svg
from whet.evidence.report.scale import duration_marks
from whet.units import duration

HEIGHT, TOP, BOTTOM = 300, 18, 262
LEFT, RIGHT = 15, 985  # of a thousand
MOST_DATES = 3
COLOURS = 6
MARKS = {"FASTER": "▼", "SLOWER": "▲"}


def history_picture(history: History) -> Markup:
    moments = [moment for some in history.lines.values() for moment in some]
    low_ns, high_ns = min(m.low_ns for m in moments), max(m.high_ns for m in moments)
    grow = max((high_ns / low_ns) ** 0.08, 1.03)
    low_ns, high_ns = low_ns / grow, high_ns * grow

    def x(at: int) -> float:
        return LEFT + (RIGHT - LEFT) * at / max(1, len(history.stops) - 1)

    def y(ns: float) -> float:
        return round(BOTTOM - (BOTTOM - TOP) * math.log(ns / low_ns) / math.log(high_ns / low_ns), 1)

    line = Markup(
        '<line class="grid" x1="0" x2="100%" y1="{}" y2="{}"/><text x="-8" y="{}" text-anchor="end">{}</text>'
    )
    body = [line.format(y(ns), y(ns), y(ns) + 4, label) for ns, label in _marks(low_ns, high_ns)]
    mark = Markup('<line class="change" x1="{0:.2f}%" x2="{0:.2f}%" y1="{1}" y2="{2}"><title>{3}</title></line>')
    for at, stop in enumerate(history.stops):
        if stop.changed:
            body.append(mark.format(x(at) / 10, TOP, BOTTOM, f"{stop.created[:16]}: {'; '.join(stop.changed)}"))
    body += _dates(history, x)
    curves, dots = [], []
    for number, (name, some) in enumerate(history.lines.items()):
        kind = number % COLOURS
        upper = [f"{x(m.at):.0f} {y(m.high_ns)}" for m in some]
        lower = [f"{x(m.at):.0f} {y(m.low_ns)}" for m in reversed(some)]
        middle = [f"{x(m.at):.0f} {y(m.median_ns)}" for m in some]
        curves.append(
            Markup('<path class="band g{}" d="M{}Z"/><path class="curve g{}" d="M{}"/>').format(
                kind, "L".join(upper + lower), kind, "L".join(middle)
            )
        )
        dot = Markup('<circle class="g{}" cx="{:.2f}%" cy="{}" r="4"><title>{}</title></circle>')
        sign = Markup('<text class="sign" x="{:.2f}%" y="{}" text-anchor="middle">{}<title>{}</title></text>')
        for m in some:
            told = f"{name}, {history.stops[m.at].created[:16]}: {duration(m.median_ns)} {m.outcome}".strip()
            dots.append(dot.format(kind, x(m.at) / 10, y(m.median_ns), told))
            if m.outcome in MARKS:
                dots.append(sign.format(x(m.at) / 10, max(TOP, y(m.median_ns) - 9), MARKS[m.outcome], told))
    stretched = Markup('<svg width="100%" height="{0}" viewBox="0 0 1000 {0}" preserveAspectRatio="none">{1}</svg>')
    body.append(stretched.format(HEIGHT, Markup("").join(curves)))
    return svg(f"Times of {history.title} over runs", HEIGHT, [*body, *dots])


def _marks(low_ns: float, high_ns: float) -> list[tuple[float, str]]:
    """Round times; where the axis is so short that it has but one, three of two digits."""
    found = duration_marks(low_ns, high_ns)
    if len(found) > 1:
        return found
    span = math.log(high_ns / low_ns)
    places = [float(f"{low_ns * math.exp(share * span):.2g}") for share in (0.1, 0.5, 0.9)]
    return [(ns, duration(ns)) for ns in dict.fromkeys(places) if low_ns <= ns <= high_ns]


def _dates(history: History, x: Callable[[int], float]) -> list[Markup]:
    stops = history.stops
    label = Markup('<text x="{:.2f}%" y="{}" text-anchor="{}">{}</text>')
    step = max(1, math.ceil((len(stops) - 1) / (MOST_DATES - 1)))
    places = sorted({*range(0, len(stops), step), len(stops) - 1})
    if len(places) > 1 and places[-1] - places[-2] < step / 2:
        del places[-2]
    shown = []
    for at in places:
        anchor = "end" if at == len(stops) - 1 else "start" if at == 0 else "middle"
        shown.append(
            label.format(
                x(at) / 10, HEIGHT - 12, anchor, stops[at].created[:10] if at == 0 else stops[at].created[5:10]
            )
        )
    return shown


def render_history(engine: str, found: Sequence[History]) -> str:
    """One HTML document, complete in itself."""
    from whet import __version__
    from whet.evidence.report.page import FOLDER, template

    if not found:
        raise BadInput(f"no case of {engine} has two runs", cure="a history begins with the second run of a case")
    return template("history.html").render(
        engine=engine,
        histories=[(one, history_picture(one)) for one in found],
        style=Markup((FOLDER / "style.css").read_text(encoding="utf-8")),
        version=__version__,
    )
