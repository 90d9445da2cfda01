"""The fixture `ab`: a gated comparison inside a test, one at a time on this machine, and a table after the tests.

    def test_horner(ab):
        ab(powers, horner, inputs=make, oracle=exact, sizes={"n": 2**14}).assert_faster(by=0.1)

Quick unless `--whet-budget` or `budget=` says otherwise. Nothing of whet is imported before a test asks for it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from whet.api.result import Result

# The name under which a test's lines travel from a worker of xdist to the one who prints.
LINES = "whet:line"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("whet")
    group.addoption(
        "--whet-budget",
        default="quick",
        metavar="NAME",
        help="how long the fixture `ab` may take: quick (the default), default or rigorous",
    )
    group.addoption("--whet-store", action="store_true", help="keep the runs of the fixture `ab` in the run store")
    group.addoption("--whet-report", metavar="FOLDER", help="leave an HTML report of each comparison in FOLDER")


@pytest.fixture
def ab(request: pytest.FixtureRequest, record_property: Callable[[str, object], None]) -> Callable[..., Result]:
    """`whet.ab`, quick and not stored unless asked; waits until nobody else measures on this machine."""
    config, counted = request.config, iter(range(1, 1_000_000))

    def compare(*variants: Any, **given: Any) -> Result:
        import whet
        from whet.evidence.alone import alone

        words = {"budget": config.getoption("whet_budget"), "store": bool(config.getoption("whet_store")), **given}
        with alone():
            result = whet.ab(*variants, **words)
        number = next(counted)
        for line in lines_of(result):
            record_property(LINES, [request.node.name, *line])
        if folder := config.getoption("whet_report"):
            leave_report(Path(str(folder)), request.node.nodeid, number, result)
        return result

    return compare


def lines_of(result: Result) -> list[list[str]]:
    """A row per variant: name, time, ratio, interval, verdict."""
    from whet import units

    rows, medians = [], result.medians_ns
    for gate in result.gates:
        said = result.verdicts.get(gate.variant)
        cells = [gate.variant, units.duration(medians.get(gate.variant)) if gate.green else units.NOTHING, "", ""]
        if gate.green and said is not None and said.ratio and said.low and said.high:
            cells[2:] = [units.ratio(said.ratio), units.interval(said.low, said.high)]
        verdict = str(said.outcome) if said is not None else "baseline" if gate.green else "REFUSED"
        if gate.failure is not None:
            verdict += f": {gate.failure.reason} at {gate.failure.case}"
        rows.append([*cells, verdict])
    return rows


def leave_report(folder: Path, nodeid: str, number: int, result: Result) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    name = "".join(c if c.isalnum() or c in "-_." else "-" for c in nodeid)[-150:]
    result.save(folder / f"{name}-{number}.html")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """One table of all comparisons, in the order in which their tests ended."""
    rows = [
        [str(cell) for cell in value]
        for outcome in ("passed", "failed")
        for report in terminalreporter.getreports(outcome)
        if report.when == "call"
        for name, value in report.user_properties
        if name == LINES
    ]
    if not rows:
        return
    headings = ["test", "variant", "time per call", "ratio", "interval", "verdict"]
    widths = [max(len(row[column]) for row in [headings, *rows]) for column in range(len(headings) - 1)]
    terminalreporter.section("whet")
    shown = ""
    for row in [headings, *rows]:
        cells = ["" if row[0] == shown else row[0], *row[1:]]
        shown = row[0]
        padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=False))
        terminalreporter.write_line("  ".join([*padded, cells[-1]]).rstrip())
