"""`whet ab`: gate, interleaved trial, verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from whet.cli import options
from whet.cli.budget import BudgetChoice, budget_options
from whet.cli.on_cluster import Away, on_options
from whet.cli.plan_options import (
    EngineName,
    VariantName,
    plan_options,
    run_and_store,
    shown_progress,
)
from whet.cli.programs import compare_commands, given_for_programs, program_options
from whet.errors import BadInput, ExitCode

if TYPE_CHECKING:
    from whet.evidence.record import Run


@click.command("ab", short_help="gate, interleaved trial, verdict")
@click.argument("engine", type=EngineName())
@click.argument("variants", nargs=-1, type=VariantName(), metavar="[VARIANT]...")
@plan_options
@program_options
@budget_options
@click.option(
    "--baseline", metavar="VARIANT", help="What the others are compared with; the first variant unless given."
)
@click.option("--against", metavar="REVISION", help="Compare each variant with itself in that revision of git.")
@click.option(
    "--fail-if-slower",
    type=options.Share(),
    is_flag=False,
    flag_value="",
    metavar="[SHARE]",
    help="Exit with 1 if any variant is SLOWER than the baseline; a share such as 3% is the --effect as well.",
)
@click.option(
    "--summary", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write Markdown for a review."
)
@click.option("--report", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write an HTML report.")
@click.option("--tails", is_flag=True, help="Show mean, 90th and 99th percentile as well.")
@on_options
@options.store_path
@options.as_json
def command(**given: Any) -> ExitCode:
    """Which variant should I ship, and how do I know?

    ENGINE is a registered name or a Python file. A VARIANT is one of its own, perhaps with knobs (name:knob=value), or
    a candidate from another file (candidate.py:name), which only its own process ever loads. Without any, all variants
    of the engine take part; one alone is measured until its median is known. Each is checked against the oracle on
    every repeat; one that is wrong is refused and has no time. The run is stored.

    \b
    whet ab kernels.py@main kernels.py horner     one variant of two revisions, in one trial
    whet ab msm affine --against main --build 'make setup'

    A VARIANT may have @REVISION behind it: that one is loaded from a tree of its own, in its own process. With two
    revisions of a file, or --against, there is one trial per variant, against itself; inputs and oracle are those of
    the working tree.

    \b
    whet ab --command 'sort -n big' './mysort big'     programs, by exit code and output

    \b
    whet ab msm affine pippenger --on 10.0.0.1:6379     on each kind of machine of a Ray cluster

    A kind is what the label whet.kind of a node says, else its processor, cores and GPU. Never two trials run on one
    machine at a time; each run comes home as soon as it is finished.

    Exit codes: 3 if any variant is refused; else 4 if --on has no run of some kind; else 1 if --fail-if-slower is given
    and one is SLOWER; else 2 if any is UNDECIDED; else 0. Ctrl-C in a trial stores what was measured and exits with
    130.
    """
    return compare(programs=given_for_programs(given), **given)


def compare(
    *,
    programs: dict[str, Any],
    engine: str,
    variants: tuple[str, ...],
    n: str | None,
    sizes: tuple[str, ...],
    profile: str | None,
    baseline: str | None,
    budget: BudgetChoice,
    away: Away | None,
    against: str | None,
    fail_if_slower: float | None,
    summary: Path | None,
    report: Path | None,
    tails: bool,
    store_path: Path | None,
    as_json: bool,
    **planned: Any,
) -> ExitCode:
    from whet.cli.check import runnable
    from whet.cli.console import print_json
    from whet.cli.on_cluster import as_records, exit_code_of, run_away, show_gathered
    from whet.cli.output import require_writable
    from whet.cli.run_view import exit_code
    from whet.cli.settings import open_store
    from whet.evidence import cases
    from whet.evidence.asked_variants import at_revisions, split_files
    from whet.evidence.comparison import baseline_of, make_plan
    from whet.evidence.registry import load

    if fail_if_slower:
        budget = replace(budget, effect=fail_if_slower)
    require_writable(report)
    require_writable(summary)
    if programs:
        about_engines = (away, n, sizes, profile, against, planned["device"], planned["build"])
        if any(about_engines) or planned["clock"] != "wall":
            raise BadInput(
                "programs have no sizes, devices or revisions, and stay on this machine",
                cure="-L puts parameters into a command",
            )
        limits = {"seed": planned["seed"], "call_limit_s": planned["call_limit_s"]}
        words = (engine, *variants)
        runs = compare_commands(words, budget=budget, baseline=baseline, store_path=store_path, **limits, **programs)
        tell(runs, tails=tails, as_json=as_json, report=report, summary=summary)
        return exit_code(runs, fail_if_slower=fail_if_slower is not None)
    engine, named, revisions = split_files(engine, variants)
    if against is not None:
        revisions = _only_revisions(revisions, against)
    loaded = load(engine)
    if away is not None:
        if revisions:
            raise BadInput("revisions are compared on this machine alone", cure="leave --on out")
        case = cases.choose(loaded.engine, cases.parse_sizes(sizes, n), profile)
        found = run_away(
            away, loaded, named, [case], budget=budget, planned=planned, store_path=store_path, baseline=baseline
        )
        if as_json:
            print_json(as_records(away.address, found))
        else:
            show_runs(found.runs, tails=tails)
            show_gathered(found)
        write_files(found.runs, report=report, summary=summary, quiet=as_json)
        return exit_code_of(found, exit_code(found.runs, fail_if_slower=fail_if_slower is not None))
    trials = [list(named or runnable(loaded.engine, planned["device"]))]
    if revisions:
        trials = [at_revisions(name, revisions) for name in trials[0]]
    plans = [make_plan(loaded, trial, **planned) for trial in trials]
    bases = [baseline_of(loaded, plan, baseline) for plan in plans]
    case = cases.choose(loaded.engine, cases.parse_sizes(sizes, n), profile)
    runs = []
    for plan, base in zip(plans, bases, strict=True):
        with open_store(store_path) as store, shown_progress(f"{loaded.engine.name} {case}") as show:
            runs.append(run_and_store(store, loaded, plan, case, budget=budget, baseline=base, show=show))
        # At once: a job that is ended at the next variant has shown what it found.
        show_runs([] if as_json else runs[-1:], tails=tails)
        if runs[-1].interrupted:
            break
    tell(runs, tails=tails, as_json=as_json, report=report, summary=summary, shown=True)
    return exit_code(runs, fail_if_slower=fail_if_slower is not None)


def _only_revisions(found: list[str], against: str) -> list[str]:
    if found:
        raise BadInput("two revisions of a file and --against exclude each other", cure="give one of them")
    if not against:
        raise BadInput("--against names no revision", cure="write a branch, a tag or a commit")
    return [against, ""]


def tell(
    runs: Sequence[Run],
    *,
    tails: bool,
    as_json: bool,
    report: Path | None = None,
    summary: Path | None = None,
    shown: bool = False,
) -> None:
    """What was found, on the terminal unless `shown` there already, and in the files that were asked for."""
    from whet.cli.console import print_json

    if as_json:
        print_json(runs[0] if len(runs) == 1 else {"runs": runs})
    elif not shown:
        show_runs(runs, tails=tails)
    write_files(runs, report=report, summary=summary, quiet=as_json)


def show_runs(runs: Sequence[Run], *, tails: bool) -> None:
    from whet.cli.run_view import show_run

    for run in runs:
        show_run(run, tails=tails)
        click.echo(f"run {run.id}; again: {run.command}")


def write_files(runs: Sequence[Run], *, report: Path | None, summary: Path | None, quiet: bool) -> None:
    from whet.cli.output import write_report, write_text

    write_report(report, runs, quiet=quiet)
    if summary is not None and runs:
        from whet.evidence.report.summary import as_summary

        write_text(summary, as_summary(runs))
