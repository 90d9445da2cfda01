"""The growth table of a sweep."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from whet.evidence.record import Run


def show_growth(runs: Sequence[Run]) -> None:
    import numpy as np
    from rich.table import Table

    from whet.cli.console import console
    from whet.cli.run_view import show_failures
    from whet.evidence.cases import volume
    from whet.evidence.trial import call_times
    from whet.units import duration

    out = console()
    first = runs[0]
    out.print(f"{first.engine}  profile={first.case.profile}  device={first.device}  seed={first.seed}")
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in (
        "case",
        "variant",
        "time per call",
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
            samples = [sample for sample in run.samples if sample.variant == gate.variant]
            verdict = verdicts.get(gate.variant)
            said = verdict.outcome.value if verdict else "baseline"
            if not samples:
                table.add_row(sizes, gate.variant, "-", "", "", "", "REFUSED" if not gate.green else said)
                continue
            median = float(np.median(call_times(samples, verdict.clock if verdict else "wall")))
            elements = volume(run.case)
            points.setdefault(gate.variant, []).append((elements, median))
            ratio = interval = ""
            if verdict and verdict.ratio and verdict.low and verdict.high:
                ratio, interval = f"{verdict.ratio:.3f}", f"{verdict.low:.3f} to {verdict.high:.3f}"
            table.add_row(sizes, gate.variant, duration(median), ratio, interval, duration(median / elements), said)
    out.print(table)
    for variant, pairs in points.items():
        exponent = fitted_exponent(pairs)
        if exponent is not None:
            out.print(f"{variant}: time grows as elements^{exponent:.2f}")
    for run in runs:
        show_failures(run.gates)


def fitted_exponent(pairs: Sequence[tuple[int, float]]) -> float | None:
    """Slope of log time over log elements, by least squares; None without two different sizes."""
    logs = [(math.log(elements), math.log(time)) for elements, time in pairs if elements > 0 and time > 0]
    mean_x = sum(x for x, _ in logs) / len(logs) if logs else 0.0
    spread = sum((x - mean_x) ** 2 for x, _ in logs)
    if spread == 0:
        return None
    return sum((x - mean_x) * y for x, y in logs) / spread
