"""`whet check TASK --task`: does any answer that costs nothing pass the oracle?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from whet.cli.plan_options import shown_progress
from whet.errors import BadInput, ExitCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from whet.evidence.task_findings import Finding, TaskReport
    from whet.protocol import Case

MOST_SHOWN = 3


def check_task(
    *,
    engine: str,
    variants: tuple[str, ...],
    n: str | None,
    sizes: tuple[str, ...],
    profile: str | None,
    seed: int | None,
    call_limit_s: float,
    hard_case: int | None,
    first_hard: int | None,
    as_json: bool,
    **_: Any,
) -> ExitCode:
    from whet.cli.console import print_json
    from whet.cli.settings import store_place
    from whet.evidence import cases, seeds
    from whet.evidence.examined import remember
    from whet.evidence.registry import load
    from whet.evidence.task_check import examine_task

    if variants or hard_case is not None or first_hard is not None:
        raise BadInput("--task checks oracle and inputs, no variant", cure="leave out variants, --hard-case and --from")
    loaded = load(engine)
    asked = cases.parse_sizes(sizes, n)
    chosen = [cases.choose(loaded.engine, asked, profile)] if asked or profile else []
    with shown_progress(f"task {loaded.engine.name}") as show:
        report = examine_task(
            loaded.engine,
            loaded.ref,
            seed=seeds.fresh() if seed is None else seed,
            chosen=chosen,
            call_limit_s=call_limit_s,
            show=show,
        )
    if not chosen:
        remember(store_place().parent, loaded, good=report.good)
    if as_json:
        print_json({"good": report.good, "report": report})
    else:
        _show(report)
    return ExitCode.OK if report.good else ExitCode.REFUSED


def _show(report: TaskReport) -> None:
    from rich.text import Text

    from whet.cli.console import console

    out = console()
    out.print(f"{report.engine}  {len(report.cases)} cases  {report.tried:,} answers tried  seed={report.seed}")
    for finding in report.weak:
        out.print(Text("weak ", style="bold red") + Text(_line(finding)))
        out.print(f"  strengthen: {finding.strengthen}")
    for finding in report.notes:
        advice = f" ({finding.strengthen})" if finding.strengthen else ""
        out.print(Text("note ", style="yellow") + Text(_line(finding) + advice))
    if report.left_out:
        out.print(f"left out for time or memory: {_named(report.left_out)}")
    if report.good:
        out.print("good: no answer that costs nothing passes")


def _line(finding: Finding) -> str:
    return f"{finding.answer} at {_named(finding.cases)}: {finding.told}"


def _named(cases: Sequence[Case]) -> str:
    """The largest ones by name."""
    shown = "; ".join(str(case) for case in list(cases)[-MOST_SHOWN:])
    return shown + (f" and {len(cases) - MOST_SHOWN} more" if len(cases) > MOST_SHOWN else "")
