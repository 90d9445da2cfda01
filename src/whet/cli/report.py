"""`whet report`: runs as a page to read, or as data to work with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from whet.cli import options
from whet.cli.run_names import RunName
from whet.errors import BadInput

if TYPE_CHECKING:
    from whet.evidence.record import Decision, Export, Run

SUFFIXES = {".html": "html", ".htm": "html", ".json": "json", ".csv": "csv", ".md": "md"}
FORMATS = ("html", "json", "csv", "md", "pyperf", "hyperfine")


@click.command("report")
@click.argument("runs", type=RunName(), nargs=-1, required=True)
@click.option(
    "--format", "kind", type=click.Choice(FORMATS), help="Otherwise the ending of FILE decides; html without one."
)
@click.option(
    "-o", "--output", metavar="FILE", help="Where to; `-` is stdout. Otherwise report.html, or stdout for data."
)
@click.option(
    "--regions",
    "captures",
    multiple=True,
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="CAPTURE",
    help="Add the timeline of a region capture to the page; repeat for several.",
)
@click.option(
    "--tasks",
    "traces",
    multiple=True,
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="TRACE",
    help="Add the timeline of a file of `whet graph trace` to the page; repeat for several.",
)
@options.store_path
def command(
    *,
    runs: tuple[str, ...],
    kind: str | None,
    output: str | None,
    captures: tuple[Path, ...],
    traces: tuple[Path, ...],
    store_path: Path | None,
) -> None:
    """Write RUNS as one HTML page that opens offline, as JSON, CSV or Markdown, or as pyperf or hyperfine would.

    A run is an id, a unique beginning of one, `last`, `last-1`, or a .json file that this command wrote.
    """
    from whet.cli.run_names import find_export

    chosen = kind or (SUFFIXES.get(Path(output).suffix.lower(), "") if output not in (None, "-") else "html")
    if not chosen:
        raise BadInput(f"the ending of {output!r} names no format", cure=f"say --format {'|'.join(FORMATS)}")
    if (captures or traces) and chosen != "html":
        raise BadInput(f"a timeline has no place in {chosen}", cure="write html, or leave --regions and --tasks out")
    export = find_export(runs, store_path)
    if not export.runs:
        raise BadInput("there is no run in it", cure="whet runs lists what is stored")
    target = output or ("report.html" if chosen == "html" else "-")
    text = _render(export, chosen, _timelines(captures, traces))
    if target == "-":
        click.echo(text, nl=False)
    else:
        from whet.cli.output import write_text

        write_text(Path(target), text)
        click.echo(f"wrote {target}")


def write_report(runs: Sequence[Run], path: Path, decisions: Sequence[Decision] = ()) -> None:
    """The HTML page about `runs`, as a file."""
    from whet.cli.output import write_text
    from whet.evidence.record import Export

    write_text(path, _render(Export(runs=list(runs), decisions=list(decisions)), "html"))


def _render(export: Export, kind: str, timelines: dict[str, str] | None = None) -> str:
    from whet.evidence.report import export as data
    from whet.evidence.report.page import render_report

    if kind == "html":
        decided: dict[str, list[Decision]] = {}
        for decision in export.decisions:
            decided.setdefault(decision.run_id, []).append(decision)
        return render_report(export.runs, decided, timelines=timelines)
    from whet.evidence.foreign import as_hyperfine, as_pyperf

    writers = {"json": data.as_json, "csv": data.as_csv, "md": data.as_markdown}
    return (writers | {"pyperf": as_pyperf, "hyperfine": as_hyperfine})[kind](export)


def _timelines(captures: Sequence[Path], traces: Sequence[Path]) -> dict[str, str]:
    drawn: dict[str, str] = {}
    if captures:
        from whet.regions import load, timeline_fragment

        drawn |= {f"Regions of {path.name}": timeline_fragment(load(path)) for path in captures}
    if traces:
        from whet.graph.timeline import fragment, read_trace

        drawn |= {f"Tasks of {path.name}": fragment(read_trace(path)) for path in traces}
    return drawn
