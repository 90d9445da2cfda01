"""The root command: a table of commands, each imported only when it is called.

A command module holds one `click.Command` (usually named `command`). It returns None or an `ExitCode`, raises
`WhetError` for what a user can mend, and never prints an error itself.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

import click

from whet import __version__
from whet.cli.failure import explain
from whet.errors import ExitCode

# Name, where the click command lives, and its line in `whet --help`, in the order in which they are shown.
COMMANDS: dict[str, tuple[str, str]] = {
    "doctor": ("whet.cli.doctor:command", "devices, drivers, the store, what is missing and how to get it"),
    "msm": ("whet.cli.msm:command", "compute one multi-scalar multiplication, check it, print the point"),
    "graph": ("whet.cli.graph:command", "task-graph workloads: run, bench, trace"),
    "check": ("whet.cli.check:command", "the gate alone: oracle against variants"),
    "ab": ("whet.cli.ab:command", "gate, interleaved trial, verdict"),
    "sweep": ("whet.cli.sweep:command", "the same over axes, as a growth table"),
    "memory": ("whet.cli.memory:command", "the memory map, the budget lever, the frontier"),
    "occupancy": ("whet.cli.occupancy:command", "registers of a variant against GPU profiles: a model"),
    "regions": ("whet.cli.regions:command", "region tables, coverage, verdict, predicted gains, traces"),
    "runs": ("whet.cli.runs:command", "list stored runs"),
    "compare": ("whet.cli.compare:command", "what changed between two runs"),
    "report": ("whet.cli.report:command", "runs as an HTML page, JSON, CSV or Markdown"),
    "decide": ("whet.cli.decide:command", "keep what you decided about a run, and why"),
    "tune": ("whet.cli.tune:command", "measure this machine once; `auto` then means the measured choice"),
    "lab": ("whet.cli.lab:command", "phones and laptops as devices, through a browser"),
    "cluster": ("whet.cli.cluster:command", "machines and workers of a Ray: who holds what"),
    "completion": ("whet.cli.completion:command", "print the completion script of your shell"),
}
COMPLETE_VARIABLE = "_WHET_COMPLETE"
EPILOG = (
    "Exit codes: 0 fine, 1 slower than asked, 2 undecided, 3 refused by the gate, 4 device or environment failure, "
    "64 usage, 70 a fault in whet itself, 130 interrupted."
)


class Root(click.Group):
    """A group whose help needs no command module."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command), f"{module}:{attribute} is not a click command"
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = str(args[0])
        if name not in COMMANDS and not name.startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(name, COMMANDS, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise click.UsageError(f"no command {name!r}{hint}", ctx)
        return super().resolve_command(ctx, args)


def _print_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        click.echo(f"whet {__version__}")
        ctx.exit()


root = Root(
    "whet",
    help="Sharpens parallel kernels and proves the edge: gated, interleaved, region by region.",
    epilog=EPILOG,
    no_args_is_help=False,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    params=[
        click.Option(
            ["--version"],
            is_flag=True,
            expose_value=False,
            is_eager=True,
            callback=_print_version,
            help="Show the version and exit.",
        )
    ],
)


def invoke(arguments: Sequence[str]) -> int:
    """Runs one command line and returns its exit code. Errors pass through."""
    try:
        with root.make_context("whet", list(arguments)) as ctx:
            if not arguments:
                click.echo(root.get_help(ctx))
                return ExitCode.OK
            result = root.invoke(ctx)
    except click.exceptions.Exit as end:
        return end.exit_code
    return int(result) if isinstance(result, int) else ExitCode.OK


def run(arguments: Sequence[str] | None = None) -> NoReturn:
    """Entry point of the `whet` script, and the one place where an error becomes text and an exit code."""
    _prepare_streams()
    try:
        if instruction := os.environ.get(COMPLETE_VARIABLE):
            from click.shell_completion import shell_complete

            code: int = shell_complete(root, {}, "whet", COMPLETE_VARIABLE, instruction)
        else:
            code = invoke(sys.argv[1:] if arguments is None else arguments)
        sys.stdout.flush()
    except BaseException as error:
        code = explain(error)
    sys.exit(code)


def _prepare_streams() -> None:
    """A stream that the caller closed swallows what it gets; a terminal without Unicode shows escapes."""
    sys.stdout = sys.stdout or io.StringIO()
    sys.stderr = sys.stderr or io.StringIO()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
