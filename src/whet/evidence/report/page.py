"""The HTML page: a template, a style sheet and the drawings, put into one file that asks nothing of any network."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from whet import __version__
from whet.errors import BadInput
from whet.evidence.growth import growths
from whet.evidence.record import Decision, Run
from whet.evidence.report.across import across
from whet.evidence.report.figures import MARKS, figures, interval_text
from whet.evidence.report.growth_picture import growth_picture
from whet.evidence.report.matrix import matrices

FOLDER = Path(__file__).parent


def render_report(
    runs: Sequence[Run],
    decisions: Mapping[str, Sequence[Decision]] | None = None,
    *,
    timelines: Mapping[str, str] | None = None,
    brief: bool = False,
) -> str:
    """One HTML document about `runs`. `decisions` holds, by run id, what people decided.

    `timelines` are timelines by title, as `whet.regions.timeline_fragment` makes them: trusted HTML.
    `brief` leaves it at the verdict, the times and the gate, for a page inside another.
    """
    if not runs:
        raise BadInput("a report needs at least one run", cure="whet runs lists what is stored")
    decided = decisions or {}
    return template("page.html").render(
        across=across(runs),
        growth=growths(runs),
        matrices=matrices(runs),
        pages=[figures(run, list(decided.get(run.id, ()))) for run in runs],
        style=Markup((FOLDER / "style.css").read_text(encoding="utf-8")),
        timelines={title: Markup(html) for title, html in (timelines or {}).items()},
        marks=MARKS,
        version=__version__,
        brief=brief,
    )


@lru_cache(maxsize=4)
def template(name: str) -> Template:
    """One of the pages in this folder."""
    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["brief"] = _brief
    environment.filters["interval"] = interval_text
    environment.filters["growth_picture"] = lambda lines, axis: growth_picture(axis, lines)
    environment.filters["breakable"] = _breakable
    environment.filters["moment"] = _moment
    return environment.get_template(name)


def _brief(value: object, most: int = 600) -> str:
    """Evidence can be large; the page shows its beginning."""
    text = str(value)
    return text if len(text) <= most else f"{text[:most]}… ({len(text):,} characters)"


def _breakable(spelling: str) -> Markup:
    """A long variant breaks between its knobs, not inside a word."""
    parts = re.split(r"(?<=[:,/])", spelling)
    return Markup("<wbr>").join(escape(part) for part in parts)


def _moment(stamp: str) -> str:
    """2026-03-02T12:01:07+00:00 as 2026-03-02 12:01 UTC; anything else as it is."""
    try:
        return datetime.datetime.fromisoformat(stamp).astimezone(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (ValueError, OverflowError):
        return stamp
