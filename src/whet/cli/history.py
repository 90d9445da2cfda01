"""`whet runs --history`: one case over time, on the terminal and as a page."""

from __future__ import annotations

from pathlib import Path

import click

from whet.errors import BadInput

BARS = "▁▂▃▄▅▆▇█"


def show_history(
    engine: str, *, variant: str | None, device: str | None, limit: int, output: Path | None, store_path: Path | None
) -> None:
    """The newest `limit` runs of the engine; a page where FILE is given, history.html says where."""
    from whet import units
    from whet.cli.console import console
    from whet.cli.output import require_writable, write_text
    from whet.cli.settings import open_store
    from whet.evidence.history import histories
    from whet.evidence.report.history_picture import render_history

    require_writable(output)
    with open_store(store_path, read_only=True) as store:
        runs = [store.get(one.id) for one in store.list(engine=engine, variant=variant, device=device, limit=limit)]
    found = histories(runs)
    if not found:
        raise BadInput(
            f"no case of {engine} has two runs among the newest {limit}", cure="give --limit more, or run it again"
        )
    out = console()
    for one in found:
        first, last = one.stops[0].created[:10], one.stops[-1].created[:10]
        out.print(f"{one.title}: {len(one.stops)} runs, {first} to {last}", style="bold")
        for name, moments in one.lines.items():
            medians = [moment.median_ns for moment in moments]
            ends = f"{units.duration(medians[0])} → {units.duration(medians[-1])}"
            out.print(f"  {name:<24} {bars(medians)}  {ends}")
        for change in one.changes:
            out.print(f"    {change}")
    if output is not None:
        write_text(output, render_history(engine, found))
        click.echo(f"wrote {output}")


def bars(values: list[float]) -> str:
    """One character per value, the lowest to the highest."""
    low, high = min(values), max(values)
    if high <= low * 1.001:
        return BARS[0] * len(values)
    return "".join(BARS[round((len(BARS) - 1) * (value - low) / (high - low))] for value in values)
