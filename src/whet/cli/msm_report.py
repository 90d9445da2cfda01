"""How `whet msm` prints a sum and the table of formats."""

from __future__ import annotations

import sys

from whet.cli.console import console, print_json
from whet.msm.points import FORMATS
from whet.msm.sum_inputs import Done


def print_result(done: Done, as_json: bool) -> None:
    timed, point = done.timed, done.timed.point
    rate = round(done.n * 1e9 / max(timed.compute_ns, 1))
    if as_json:
        print_json(
            {
                "point": {
                    "x": f"{point.x:#066x}",
                    "y": f"{point.y:#066x}",
                    "infinity": point.is_infinity,
                },
                "n": done.n,
                "source": done.source,
                "variant": timed.variant,
                "threads": done.threads,
                "device": timed.device,
                "fallback_reason": timed.fallback_reason,
                "prepare_ns": timed.prepare_ns,
                "compute_ns": timed.compute_ns,
                "cpu_ns": timed.cpu_ns,
                "points_per_second": rate,
                "check": {"kind": done.check.kind, "text": done.check.text},
            }
        )
        return
    given = ", ".join(f"{key} {value}" for key, value in done.source.items() if value not in (None, 0))
    threads = "" if done.threads is None else f", threads={done.threads}"
    unchecked = "unchecked: " if done.check.kind == "none" else ""
    took = f"{unchecked}{timed.compute_ns / 1e6:,.3f} ms ({timed.cpu_ns / 1e6:,.3f} ms CPU)"
    preparing = f"; {timed.prepare_ns / 1e6:,.1f} ms before that for the points" if timed.prepare_ns else ""
    rows = {
        "x": "infinity" if point.is_infinity else f"{point.x:#066x}",
        "y": "infinity" if point.is_infinity else f"{point.y:#066x}",
        "points": f"{done.n:,} ({given})",
        "variant": f"{timed.variant} on {timed.device}{threads}",
        "time": f"{took}, {rate:,} points per second{preparing}",
        "check": done.check.text,
    }
    if timed.fallback_reason is not None:
        rows["fallback"] = f"by the CPU: {timed.fallback_reason}"
    for name, value in rows.items():
        sys.stdout.write(f"{name:<9}{value}\n")


def print_formats(as_json: bool) -> None:
    if as_json:
        print_json(
            [
                {
                    "name": row.name,
                    "kind": row.kind,
                    "description": row.description,
                    "magic": row.magic.hex(),
                    "sections": row.sections,
                    "usual_name": row.usual_name,
                }
                for row in FORMATS
            ]
        )
        return
    from rich.table import Table

    for kind in ("points", "scalars"):
        table = Table(title=f"Formats of {kind}", title_justify="left", box=None, pad_edge=False)
        for column in ("format", "what it is", "found by auto", "sections", "usual name"):
            table.add_column(column, overflow="fold")
        for row in FORMATS:
            if row.kind == kind:
                sections = ", ".join(row.sections)
                table.add_row(row.name, row.description, "yes" if row.magic else "", sections, row.usual_name)
        console().print(table)
