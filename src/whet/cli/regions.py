"""`whet regions`: region tables, whether they can be believed, and what a change could buy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from whet.cli.console import console, print_json
from whet.cli.options import as_json
from whet.cli.output import write_text
from whet.cli.regions_run import capture_command, tax_command
from whet.errors import BadInput, ExitCode

if TYPE_CHECKING:
    from whet.regions.accounting import Account
    from whet.regions.capture import Capture
    from whet.regions.checks import Check
    from whet.regions.trips import Loop
    from whet.regions.verdict import Override, RegionVerdict

FILE = click.Path(path_type=Path, dir_okay=False)


@click.group("regions")
def command() -> None:
    """Where the time goes, region by region, and whether the table can be believed."""


command.add_command(capture_command)
command.add_command(tax_command)


def pairs(values: tuple[str, ...], what: str) -> dict[str, str]:
    """Reads key=value,key=value; a key is given once."""
    found: dict[str, str] = {}
    for item in [part for value in values for part in value.split(",")]:
        key, equals, value = item.strip().partition("=")
        if not equals or not key or not value or key in found:
            raise BadInput(f"{item!r} is not key=value, or is given twice", cure=f"write {what}")
        found[key] = value
    return found


def reading(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say how a capture is to be read."""
    for option in (
        click.option("--schema", metavar="FILE", help="What the regions mean: .toml, .json or a built-in name."),
        click.option("--grid", multiple=True, metavar="K=V,...", help="Axes and parameters of the launch."),
        click.option("--slice-ctas", type=int, help="Axis bx of the built-in schemas."),
        click.option("--num-k-tiles", type=int, help="Axis by of the built-in schemas."),
        click.option("--num-seqs", type=int, help="Axis bz of the built-in schemas."),
        click.option("--tick-source", help="Clock of a capture that does not name its own."),
    ):
        function = option(function)
    return function


def open_capture(path: Path, options: dict[str, Any]) -> Capture:
    """Loads a capture as the reading options say."""
    from whet.protocol import parse_size
    from whet.regions.capture import load
    from whet.regions.schema import load_schema

    grid = {key: parse_size(value, what=key) for key, value in pairs(options["grid"], "--grid bx=8,by=8").items()}
    for name in ("slice_ctas", "num_k_tiles", "num_seqs"):
        value = options[name]
        if value is not None and grid.setdefault(name, value) != value:
            raise BadInput(f"{name} is given twice, differently", cure="give it once")
    schema = load_schema(options["schema"]) if options["schema"] else None
    return load(path, schema=schema, grid=grid, source=options["tick_source"])


@command.command("reduce", short_help="make the table of a capture and judge it")
@click.argument("path", metavar="CAPTURE", type=FILE)
@reading
@click.option("--total-us", type=float, help="Length of the launch by a clock outside the kernel.")
@click.option("--legacy", is_flag=True, help="The published columns and sum, to the byte; no preconditions.")
@click.option("--csv", "csv_path", type=FILE, help="Write the table as CSV.")
@click.option("--record", "record_path", type=FILE, help="Write table, checks and verdict as JSON.")
@click.option("--tag", help="The tag to judge; by default each one in the schema.")
@click.option("--thresholds", metavar="A,B,C", help="Lower bounds of STRONG GO, PROCEED and CONDITIONAL.")
@click.option("--min-coverage", type=float, default=0.95, show_default=True)
@click.option("--max-span-error", type=float, default=0.10, show_default=True)
@click.option("--launch", multiple=True, metavar="K=V,...", help="The launch that this capture should be of.")
@click.option("--override", metavar="BRACKET", help="A person's decision; kept beside the tool's verdict.")
@click.option("--override-by", metavar="WHO")
@click.option("--override-reason", metavar="WHY")
@as_json
def reduce_command(path: Path, legacy: bool, **options: Any) -> ExitCode:
    """Make the table of CAPTURE and judge it, or refuse to."""
    capture = open_capture(path, options)
    return _reduce_legacy(capture, options) if legacy else _reduce(capture, options)


def _reduce_legacy(capture: Capture, options: dict[str, Any]) -> ExitCode:
    from whet.regions.legacy import CALIBRATED, legacy_csv, legacy_verdict, reduce_legacy
    from whet.regions.verdict import Thresholds, parse_thresholds
    from whet.units import percent

    rows = reduce_legacy(capture, options["total_us"])
    if options["csv_path"]:
        write_text(options["csv_path"], legacy_csv(rows))
    limits = parse_thresholds(options["thresholds"]) if options["thresholds"] else Thresholds()
    tag = _only(_tags(capture, options["tag"]), capture) or "k_reducible"
    if options["total_us"] is None or capture.about.tick_source != CALIBRATED:
        click.echo(legacy_csv(rows), nl=False)
        click.echo("\nUNSUPPORTED: no verdict without --total-us and globaltimer ticks")
        return ExitCode.REFUSED
    verdict = legacy_verdict(rows, capture.schema, tag=tag, thresholds=limits)
    if options["as_json"]:
        print_json({"rows": rows, "legacy_verdict": verdict})
        return ExitCode.OK
    click.echo(legacy_csv(rows), nl=False)
    click.echo(f"\n{verdict.bracket} {percent(verdict.fraction)}, dominant: {verdict.dominant}")
    click.echo("legacy sum: no precondition was checked; run without --legacy before believing it")
    return ExitCode.OK


def _reduce(capture: Capture, options: dict[str, Any]) -> ExitCode:
    from whet.regions.accounting import account
    from whet.regions.checks import Limits, preconditions
    from whet.regions.reducer import reduce, to_csv
    from whet.regions.terminal import render
    from whet.regions.verdict import Bracket, judge, parse_thresholds

    counted = account(capture)
    table = reduce(capture, total_us=options["total_us"], counted=counted)
    override = _override(options)
    tags = _tags(capture, options["tag"])
    if override is not None:
        _only(tags, capture)
    limits = Limits(options["min_coverage"], options["max_span_error"])
    launch = pairs(options["launch"], "--launch layer=3,seq_len=512")
    verdicts = [
        judge(
            capture,
            tag=tag,
            thresholds=parse_thresholds(options["thresholds"]) if options["thresholds"] else None,
            limits=limits,
            total_us=options["total_us"],
            launch=launch,
            override=override,
            counted=counted,
        )
        for tag in tags
    ]
    # What does not hang on a tag is the same for each.
    checks = (
        verdicts[0].checks
        if verdicts
        else preconditions(counted, limits=limits, total_us=options["total_us"], launch=launch)
    )
    if options["csv_path"]:
        write_text(options["csv_path"], to_csv(table))
    document = {"capture": capture.origin, "sha256": capture.digest, "table": table}
    # One tag has one verdict; of several none is the verdict.
    document |= {"verdict": verdicts[0] if len(verdicts) == 1 else None, "verdicts": verdicts}
    document |= {"preconditions": checks, "loop": _loop(counted)}
    if options["record_path"]:
        _write_json(options["record_path"], document)
    if options["as_json"]:
        print_json(document)
    else:
        console().print(render(table, counted))
        if not verdicts:
            _say_preconditions(checks)
        for verdict in verdicts:
            _say(verdict)
    unsupported = any(verdict.bracket is Bracket.UNSUPPORTED for verdict in verdicts)
    return ExitCode.REFUSED if unsupported else ExitCode.OK


def _loop(counted: Account) -> Loop | None:
    """The trips, where the launch has any and they can be ordered."""
    from whet.errors import WhetError
    from whet.regions.trips import find_loop

    try:
        return find_loop(counted)
    except WhetError:
        return None


def _tags(capture: Capture, given: str | None) -> list[str]:
    """The tags to judge, by name. None only where the schema has no tags at all and none was asked for."""
    if given is not None:
        capture.schema.tagged(given)
        return [given]
    return sorted({tag for region in capture.schema.regions for tag in region.tags})


def _only(tags: Sequence[str], capture: Capture) -> str | None:
    """For what can be said of one tag alone: the published sum, a person's decision."""
    if len(tags) > 1:
        raise BadInput(f"schema {capture.schema.name} has several tags: {', '.join(tags)}", cure="choose with --tag")
    return tags[0] if tags else None


def _override(options: dict[str, Any]) -> Override | None:
    from whet.regions.verdict import Bracket, Override

    given = [options[key] for key in ("override", "override_by", "override_reason")]
    if not any(given):
        return None
    if not all(given):
        raise BadInput(
            "an override says what, who and why", cure="give --override, --override-by and --override-reason"
        )
    if given[0] not in list(Bracket):
        raise BadInput(f"there is no bracket {given[0]!r}", cure=f"one of: {', '.join(Bracket)}")
    return Override(bracket=Bracket(given[0]), by=given[1], reason=given[2])


def _say_preconditions(checks: Sequence[Check]) -> None:
    click.echo()
    held = [check for check in checks if check.held]
    click.echo(f"{len(held)} of {len(checks)} preconditions of a verdict hold")
    for check in checks:
        click.echo(f"  {'+' if check.held else '-'} {check.name}: {check.detail}")
    click.echo(
        'no verdict: no region carries a tag; tag what you could make faster, such as {"sweep", "work", {"hot"}}'
    )


def _say(verdict: RegionVerdict) -> None:
    from collections import Counter

    from whet.units import percent

    click.echo()
    if verdict.share is None:
        click.echo(f"{verdict.bracket}: no verdict on {verdict.tag}, because")
        for reason in verdict.reasons:
            click.echo(f"  - {reason}")
    else:
        click.echo(f"{verdict.bracket} {percent(verdict.share)} of the critical path is {verdict.tag}")
        click.echo(f"  dominant: {verdict.dominant}")
        for name, share in verdict.shares.items():
            click.echo(f"  {name}: {percent(share)}")
    if verdict.trips:
        count = Counter(str(trip.bracket) for trip in verdict.trips)
        said = ", ".join(f"{bracket} {number}" for bracket, number in count.most_common())
        click.echo(f"  each trip as a launch of its own: {said} of {len(verdict.trips)}")
    if verdict.override:
        click.echo(f"overridden to {verdict.override.bracket} by {verdict.override.by}: {verdict.override.reason}")


def _write_json(path: Path, document: Any) -> None:
    import msgspec

    write_text(path, msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n")


@command.command("show", short_help="a capture as a tree, a timeline page or a trace")
@click.argument("path", metavar="CAPTURE", type=FILE)
@reading
@click.option("--total-us", type=float, help="Length of the launch by a clock outside the kernel.")
@click.option("--html", type=FILE, help="Write the timeline as a page that opens offline.")
@click.option("--trace", type=FILE, help="Write a Chrome trace, which Perfetto opens.")
@click.option("--trips", is_flag=True, help="A line for each trip of the loop that a barrier closes.")
@click.option("--workers", default="all", show_default=True, metavar="RANGE", help="Rows of the page, such as 0..7,12.")
@as_json
def show_command(path: Path, **options: Any) -> None:
    """Show CAPTURE as a tree with bars, a timeline page or a trace."""
    from whet.regions.accounting import account
    from whet.regions.reducer import reduce
    from whet.regions.rules import parse_ranges
    from whet.regions.terminal import render, render_trips
    from whet.regions.timeline import page
    from whet.regions.trace import to_trace
    from whet.regions.trips import find_loop

    capture = open_capture(path, options)
    rows = parse_ranges(options["workers"], capture.workers)
    counted = account(capture)
    table = reduce(capture, total_us=options["total_us"], counted=counted)
    if options["html"]:
        title = f"Regions of {path.name}"
        write_text(options["html"], page(counted, table, title=title, workers=frozenset(rows)))
    if options["trace"]:
        write_text(options["trace"], to_trace(counted))
    if options["as_json"]:
        print_json({"capture": capture.origin, "sha256": capture.digest, "table": table, "loop": _loop(counted)})
    elif options["trips"]:
        console().print(render_trips(find_loop(counted), counted))
    elif not (options["html"] or options["trace"]):
        console().print(render(table, counted))
    else:
        for written in filter(None, (options["html"], options["trace"])):
            click.echo(f"wrote {written}")


@command.command("predict", short_help="what a change could buy, and whether it did")
@click.argument("paths", metavar="CAPTURE | BEFORE AFTER", type=FILE, nargs=-1, required=True)
@reading
@click.option("--change", "changes", multiple=True, metavar='"region=NAME factor=8"', help="A region made faster.")
@click.option("--check", is_flag=True, help="Compare BEFORE and AFTER with the prediction made for BEFORE.")
@click.option("--prediction", "prediction_path", type=FILE, help="Its file; by default CAPTURE.prediction.json.")
@click.option(
    "--tolerance",
    type=float,
    default=0.05,
    show_default=True,
    help="Share of the span by which it may miss, at most half of the stated gain.",
)
@as_json
def predict_command(paths: tuple[Path, ...], check: bool, changes: tuple[str, ...], **options: Any) -> ExitCode:
    """State what a change could buy before it is made, and check it afterwards."""
    if len(paths) != (2 if check else 1) or bool(changes) == check:
        usage = 'CAPTURE --change "region=NAME factor=8", or --check BEFORE AFTER'
        raise BadInput("predict takes one capture and a change, or two captures to check", cure=f"predict {usage}")
    target: Path = options["prediction_path"] or Path(f"{paths[0]}.prediction.json")
    if check:
        return _check_prediction(paths, target, options)
    from whet.regions.prediction import predict
    from whet.regions.ticks import tick_time
    from whet.units import percent

    made = predict(open_capture(paths[0], options), list(changes))
    _write_json(target, made)
    if options["as_json"]:
        print_json(made)
        return ExitCode.OK
    before = tick_time(made.span_ticks, made.tick_source)
    after = tick_time(made.predicted_span_ticks, made.tick_source)
    click.echo(f"{', '.join(made.changes)}")
    click.echo(f"predicted: {before} -> {after}, {percent(made.predicted_gain)} less")
    click.echo(f"ceiling:   {percent(made.ceiling)}, if it took no time at all")
    for wait in made.waits:
        causes = sorted(wait.cause_regions.items(), key=lambda item: -item[1])[:2]
        doing = ", ".join(f"{name} {tick_time(ticks, made.tick_source)}" for name, ticks in causes)
        length = tick_time(wait.median_ticks, made.tick_source)
        click.echo(f"{wait.wait} ({length}) is the wait for worker {wait.cause_worker} ({doing}): not added to it")
    if made.coverage < 0.95:
        click.echo(f"coverage is {made.coverage:.3f}: what no region explains is taken to stay as it is")
    click.echo(f"wrote {target}")
    return ExitCode.OK


def _check_prediction(paths: tuple[Path, ...], target: Path, options: dict[str, Any]) -> ExitCode:
    from whet.regions.prediction import Outcome, check_prediction, load_prediction
    from whet.units import percent

    made = load_prediction(target)
    before, after = (open_capture(path, options) for path in paths)
    result = check_prediction(made, before, after, tolerance=options["tolerance"])
    if options["as_json"]:
        print_json(result)
    else:
        said = f"predicted {percent(result.predicted_gain)}, ceiling {percent(result.ceiling)}"
        click.echo(
            f"{result.outcome}: measured {result.measured_gain:.1%} less; {said}, tolerance {result.tolerance:.0%}"
        )
    codes = {Outcome.HELD: ExitCode.OK, Outcome.SHORT: ExitCode.SLOWER, Outcome.ABOVE_CEILING: ExitCode.UNDECIDED}
    return codes[result.outcome]


@command.command("schema", short_help="list the built-in schemas, or print one")
@click.argument("name", required=False)
@as_json
def schema_command(name: str | None, as_json: bool) -> None:
    """List the built-in schemas, or print one as a start for your own."""
    from whet.regions.schema import BUILTIN, builtin, builtin_text, load_schema

    if name is not None and as_json:
        print_json(load_schema(name))
    elif name is not None:
        click.echo(builtin_text(name), nl=False)
    elif as_json:
        print_json({"schemas": {known: len(builtin(known).regions) for known in BUILTIN}})
    else:
        for known in BUILTIN:
            click.echo(f"{known}: {len(builtin(known).regions)} regions")
