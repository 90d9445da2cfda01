"""The growth table of a sweep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from whet.evidence.growth import fitted_exponent

if TYPE_CHECKING:
    from whet.evidence.record import Run


def show_growth(runs: Sequence[Run], stream: TextIO | None = None) -> None:
    from rich.table import Table

    from whet import units
    from whet.cli.console import console
    from whet.cli.run_view import show_failures
    from whet.evidence.cases import volume
    from whet.evidence.growth import growths
    from whet.evidence.remarks import tails_of, weaker_isolation

    out = console(stream)
    first = runs[0]
    out.print(f"{first.engine}  profile={first.case.profile}  device={first.where}  seed={first.seed}")
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in (
        "case",
        "variant",
        "time per call",
        "spread",
        f"ratio to {first.baseline}",
        "interval",
        "per element",
        "verdict",
    ):
        table.add_column(heading, justify="left" if heading in ("case", "variant", "verdict") else "right")
    points: dict[str, list[tuple[int, float]]] = {}
    for run in runs:
        verdicts = {verdict.candidate: verdict for verdict in run.verdicts}
        sizes = " ".join(f"{axis}={size}" for axis, size in run.case.sizes.items())
        for gate in run.gates:
            tails, verdict = tails_of(run, gate.variant), verdicts.get(gate.variant)
            said = verdict.outcome.value if verdict else "baseline"
            if not gate.green or tails is None:
                table.add_row(sizes, gate.variant, units.NOTHING, *[""] * 4, "REFUSED" if not gate.green else said)
                continue
            elements = volume(run.case)
            points.setdefault(gate.variant, []).append((elements, tails.median))
            ratio = interval = ""
            if verdict and verdict.ratio and verdict.low and verdict.high:
                ratio, interval = units.ratio(verdict.ratio), units.interval(verdict.low, verdict.high)
            time, each = units.duration(tails.median), units.duration(tails.median / elements)
            table.add_row(sizes, gate.variant, time, units.percent(tails.spread), ratio, interval, each, said)
        if run.control is not None:
            span = units.interval(run.control.low, run.control.high)
            table.add_row(
                sizes, f"{run.baseline} against itself", "", "", units.ratio(run.control.ratio), span, "", "noise floor"
            )
    out.print(table)
    for variant, pairs in points.items():
        exponent = fitted_exponent(pairs)
        if exponent is not None:
            out.print(f"{variant}: time grows as elements^{exponent:.2f}")
    for picture in growths(runs):
        for crossing in picture.crossings:
            out.print(crossing)
    for missing in dict.fromkeys(line for run in runs for line in weaker_isolation(run)):
        out.print(f"isolation weaker than usual: {missing}", style="yellow")
    for run in runs:
        show_failures(run.gates, stream)
