"""`whet ab`: gate, interleaved trial, verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from whet.cli import options
from whet.cli.budget import BudgetChoice, budget_options
from whet.cli.plan_options import (
    EngineName,
    VariantName,
    plan_options,
    run_and_store,
    shown_progress,
)
from whet.errors import ExitCode


@click.command("ab", short_help="gate, interleaved trial, verdict")
@click.argument("engine", type=EngineName())
@click.argument("variants", nargs=-1, type=VariantName(), metavar="[VARIANT]...")
@plan_options
@budget_options
@click.option(
    "--baseline", metavar="VARIANT", help="What the others are compared with; the first variant unless given."
)
@click.option("--fail-if-slower", is_flag=True, help="Exit with 1 if any variant is SLOWER than the baseline.")
@click.option("--report", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write an HTML report.")
@click.option("--tails", is_flag=True, help="Show mean, 90th and 99th percentile as well.")
@options.store_path
@options.as_json
def command(**given: Any) -> ExitCode:
    """Which variant should I ship, and how do I know?

    ENGINE is a registered name or a Python file. A VARIANT is one of its own, perhaps with knobs (name:knob=value), or
    a candidate from another file (candidate.py:name), which only its own process ever loads. Without any, all variants
    of the engine take part. Each is checked against the oracle on every repeat; one that is wrong is refused and has
    no time. The run is stored.

    Exit codes: 3 if any variant is refused; else 1 if --fail-if-slower is given and one is SLOWER; else 2 if any is
    UNDECIDED; else 0. Ctrl-C in a trial stores what was measured and exits with 130.
    """
    return compare(**given)


def compare(
    *,
    engine: str,
    variants: tuple[str, ...],
    n: str | None,
    sizes: tuple[str, ...],
    profile: str | None,
    baseline: str | None,
    budget: BudgetChoice,
    fail_if_slower: bool,
    report: Path | None,
    tails: bool,
    store_path: Path | None,
    as_json: bool,
    **planned: Any,
) -> ExitCode:
    from whet.cli.check import runnable
    from whet.cli.console import print_json
    from whet.cli.output import require_writable, write_text
    from whet.cli.run_view import exit_code, show_run
    from whet.cli.settings import open_store
    from whet.evidence import cases
    from whet.evidence.comparison import baseline_of, make_plan
    from whet.evidence.registry import load

    loaded = load(engine)
    plan = make_plan(loaded, variants or runnable(loaded.engine, planned["device"]), **planned)
    base = baseline_of(loaded, plan, baseline)
    case = cases.choose(loaded.engine, cases.parse_sizes(sizes, n), profile)
    require_writable(report)
    with open_store(store_path) as store, shown_progress(f"{loaded.engine.name} {case}") as show:
        run = run_and_store(store, loaded, plan, case, budget=budget, baseline=base, show=show)
    if as_json:
        print_json(run)
    else:
        show_run(run, tails=tails)
        click.echo(f"run {run.id}; again: {run.command}")
    if report is not None:
        from whet.evidence.report import render_report

        write_text(report, render_report([run]))
        if not as_json:
            click.echo(f"report: {report}")
    return exit_code([run], fail_if_slower=fail_if_slower)
