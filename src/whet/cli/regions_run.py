"""`whet regions capture` and `whet regions tax`: the commands that run something."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from whet.cli.console import console, print_json
from whet.cli.options import as_json
from whet.cli.plan_options import shown_progress
from whet.errors import BadInput, ExitCode, OracleMismatch

if TYPE_CHECKING:
    from whet.regions.capture import Capture

OUT = click.Path(path_type=Path, dir_okay=False)


@click.command("capture", short_help="run something and keep its regions")
@click.argument("target", metavar="FILE.py | ENGINE | FILE.py:ENGINE")
@click.argument("arguments", nargs=-1, metavar="[ARG... | VARIANT]")
@click.option("--size", "sizes", multiple=True, metavar="AXIS=N", help="Sizes of the engine's case, such as n=2^10.")
@click.option("--n", "n", help="Short for --size n=...")
@click.option("--profile", metavar="NAME", help="Input profile; the engine's first unless given.")
@click.option("--device", metavar="NAME", help="Where the engine runs; its first device unless given.")
@click.option("--repeats", type=int, default=7, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--out", type=OUT, help="Where to keep the capture; by default regions.npz.")
@as_json
def capture_command(target: str, arguments: tuple[str, ...], out: Path | None, as_json: bool, **options: Any) -> None:
    """Run a script under `regions.record`, or an engine under its own clock, and keep the capture.

    An engine that has a sheet of its workers gives that of one call, else its stage times over all calls. A variant
    runs behind the gate: every call is checked, and one that is wrong gives exit code 3, no table.

    \b
    whet regions capture -- FILE.py ARG...
    whet regions capture msm pippenger --n 2^10
    whet regions capture mine.py:Engine VARIANT
    """
    from whet.regions.accounting import account
    from whet.regions.capture import save
    from whet.regions.reducer import reduce
    from whet.regions.terminal import render

    kept = out or Path("regions.npz")
    if kept.suffix != ".npz":
        raise BadInput(f"{kept}: a capture is kept as .npz", cure="give --out FILE.npz")
    # A capture that fails must not leave an older one to be read in its place.
    kept.unlink(missing_ok=True)
    captured = _script(Path(target), arguments) if target.endswith(".py") else _engine(target, arguments, options)
    save(captured, kept)
    counted = account(captured)
    table = reduce(captured, counted=counted)
    if as_json:
        print_json({"capture": str(kept), "table": table})
        return
    console().print(render(table, counted))
    click.echo(f"wrote {kept}")


def _script(path: Path, arguments: tuple[str, ...]) -> Capture:
    from whet.regions.recorder import recording

    if not path.is_file():
        raise BadInput(f"{path}: there is no such script", cure="give a Python file")
    before = sys.argv
    sys.argv = [str(path), *arguments]
    try:
        with recording(path.stem, script=path.name, arguments=" ".join(arguments)) as made:
            runpy.run_path(str(path), run_name="__main__")
    except SystemExit as end:
        if end.code:
            raise BadInput(f"{path} ended with {end.code!r}", cure="make it run by itself first") from None
    except Exception as problem:
        raise BadInput(
            f"{path} failed: {type(problem).__name__}: {problem}", cure="make it run by itself first"
        ) from problem
    finally:
        sys.argv = before
    return made.capture()


def _engine(name: str, arguments: tuple[str, ...], options: dict[str, Any]) -> Capture:
    from whet.evidence.cases import choose, parse_sizes
    from whet.evidence.registry import load
    from whet.protocol import parse_variant
    from whet.regions.engine_run import capture_engine

    loaded = load(name)
    engine = loaded.engine
    if len(arguments) > 1:
        raise BadInput(f"an engine runs one variant, not {len(arguments)}", cure="name one variant")
    variant = parse_variant(engine, arguments[0] if arguments else engine.variants()[0].name)
    case = choose(engine, parse_sizes(options["sizes"], options["n"]), options["profile"])
    device = options["device"] or engine.devices[0]
    if device not in engine.devices:
        raise BadInput(f"engine {engine.name} does not run on {device!r}", cure=f"devices: {', '.join(engine.devices)}")
    repeats, seed = options["repeats"], options["seed"]
    with shown_progress(f"{engine.name} {case}") as show:
        return capture_engine(loaded, variant, case, repeats=repeats, seed=seed, device=device, on_progress=show)


@click.command("tax", short_help="what recording costs, off and on side by side")
@click.argument("target", metavar="FILE.py:FUNCTION")
@click.option("--rounds", type=int, default=15, show_default=True)
@as_json
def tax_command(target: str, rounds: int, as_json: bool) -> ExitCode:
    """Run FUNCTION with recording off and on, side by side: equal to the bit, and what it costs.

    FUNCTION takes nothing, uses `regions.record` inside and returns what it computed.
    """
    from whet.regions.tax import recorder_tax

    try:
        tax = recorder_tax(_function(target), rounds=rounds)
    except OracleMismatch as problem:
        problem.evidence = target
        raise
    if as_json:
        print_json(tax)
        return ExitCode.OK
    verb = "within" if tax.within_spread else "beyond"
    click.echo(f"tax {tax.tax:+.2%}, {verb} the run-to-run spread of {tax.spread:.2%} ({tax.rounds} rounds, CPU time)")
    click.echo(f"outputs equal to the bit in {tax.outputs_compared} runs, on and off")
    return ExitCode.OK


def _function(target: str) -> Callable[[], Any]:
    path, colon, name = target.rpartition(":")
    if not colon or not path.endswith(".py") or not Path(path).is_file():
        raise BadInput(f"{target!r} is not FILE.py:FUNCTION", cure="name a Python file and a function in it")
    try:
        found = runpy.run_path(path).get(name)
    except Exception as problem:
        raise BadInput(f"{path} failed: {type(problem).__name__}: {problem}", cure="make it importable") from problem
    if not callable(found):
        raise BadInput(f"{path} has no function {name!r}", cure="name a function of no arguments")
    work: Callable[[], Any] = found
    return work
