"""`whet ab --command`: programs instead of variants, with the options that hyperfine's users know."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from whet.cli.budget import BudgetChoice
from whet.errors import BadInput

if TYPE_CHECKING:
    from whet.evidence.programs import Program
    from whet.evidence.record import Run

_OPTIONS = (
    click.option("--command", "as_programs", is_flag=True, help="The arguments are commands, the first the reference."),
    click.option("--input", "source", metavar="FILE", help="With --command: what each gets on stdin; nothing else."),
    click.option("--expect", metavar="FILE", help="With --command: the right output; else the first command's."),
    click.option("--filter", metavar="COMMAND", help="With --command: outputs go through it before they are compared."),
    click.option("--prepare", "-p", multiple=True, metavar="COMMAND", help="With --command: before each start."),
    click.option("--conclude", "-C", multiple=True, metavar="COMMAND", help="With --command: after each start."),
    click.option("--setup", "-s", metavar="COMMAND", help="With --command: once, before anything else."),
    click.option("--cleanup", "-c", multiple=True, metavar="COMMAND", help="With --command: once, at the end."),
    click.option("--warmup", "-w", type=click.IntRange(0), metavar="N", help="With --command: starts before any time."),
    click.option("--shell", "-S", metavar="SHELL", help="With --command: /bin/sh unless given; `none` starts it bare."),
    click.option("-N", "bare", is_flag=True, help="Short for --shell none."),
    click.option(
        "--ignore-failure",
        "-i",
        is_flag=False,
        flag_value="",
        metavar="[CODES]",
        help="With --command: any exit code that the reference has too, or these.",
    ),
    click.option("--command-name", "-n", "names", multiple=True, metavar="NAME", help="With --command: one for each."),
    click.option(
        "--parameter-list",
        "-L",
        "lists",
        nargs=2,
        multiple=True,
        metavar="NAME A,B,C",
        help="With --command: replaces {NAME} in commands and files.",
    ),
    click.option(
        "--parameter-scan",
        "-P",
        "scans",
        nargs=3,
        multiple=True,
        metavar="NAME MIN MAX",
        help="With --command: whole steps from MIN to MAX.",
    ),
    click.option("--parameter-step-size", "-D", "step", metavar="STEP", help="With --parameter-scan."),
)
NAMES = (
    *("source", "expect", "filter", "prepare", "conclude", "setup", "cleanup", "warmup", "shell", "bare"),
    *("ignore_failure", "names", "lists", "scans", "step"),
)


def program_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def given_for_programs(given: dict[str, Any]) -> dict[str, Any]:
    """Takes the options above out of `given`; without --command none of them may be there."""
    found = {name: given.pop(name) for name in NAMES}
    if not given.pop("as_programs"):
        if used := [name for name, value in found.items() if value not in (None, (), False)]:
            raise BadInput(f"--{used[0].replace('_', '-')} is for programs", cure="add --command")
        return {}
    return found


def compare_commands(
    commands: Sequence[str],
    *,
    budget: BudgetChoice,
    baseline: str | None,
    seed: int | None,
    call_limit_s: float,
    store_path: Path | None,
    **given: Any,
) -> list[Run]:
    from whet.cli.plan_options import shown_progress, typed_command
    from whet.cli.settings import open_store
    from whet.evidence import seeds
    from whet.evidence.programs import Setting, compare_programs, expand
    from whet.evidence.store_rescue import add_or_keep

    drawn = seeds.fresh() if seed is None else seed
    shell = "" if given["bare"] or given["shell"] in ("none", "") else given["shell"] or "/bin/sh"
    setting = Setting(
        shell=shell,
        source=given["source"] or os.devnull,
        setup=given["setup"] or "",
        filter=given["filter"] or "",
        expect=given["expect"] or "",
        warmup=given["warmup"] or 0,
        ignored_codes=_codes(given["ignore_failure"]),
        limit_s=call_limit_s,
    )
    trials = expand(_programs(commands, given), setting, _lists(given))
    runs: list[Run] = []
    with open_store(store_path) as store:
        for programs, one in trials:
            with shown_progress("programs") as show:
                run = compare_programs(
                    programs,
                    one,
                    budget=budget.budget(),
                    baseline=baseline or "",
                    effect=budget.effect,
                    judge=budget.judge,
                    seed=drawn,
                    command=typed_command(drawn),
                    on_progress=show,
                )
            add_or_keep(store, run)
            runs.append(run)
            if run.interrupted:
                break
    return runs


def _programs(commands: Sequence[str], given: dict[str, Any]) -> list[Program]:
    from whet.evidence.programs import Program

    each = {name: _each(name, given[name], len(commands)) for name in ("prepare", "conclude", "cleanup")}
    names = list(given["names"])
    if len(names) > len(commands):
        raise BadInput(f"{len(names)} names for {len(commands)} commands", cure="give at most one for each")
    names += commands[len(names) :]
    return [
        Program(name, command, **{step: each[step][at] for step in each})
        for at, (name, command) in enumerate(zip(names, commands, strict=True))
    ]


def _each(option: str, given: Sequence[str], count: int) -> list[str]:
    if len(given) not in (0, 1, count):
        raise BadInput(f"--{option} is given {len(given)} times for {count} commands", cure="once, or once for each")
    if option == "cleanup" and len(given) == 1:
        return [given[0], *[""] * (count - 1)]
    return list(given) if len(given) == count else list(given or ("",)) * count


def _codes(text: str | None) -> frozenset[int] | None:
    if text is None:
        return None
    try:
        return frozenset(int(code) for code in text.split(",") if code.strip() and code.strip() != "all-non-zero")
    except ValueError:
        raise BadInput(f"--ignore-failure {text!r} is no list of exit codes", cure="write 1,2 or nothing") from None


def _lists(given: dict[str, Any]) -> dict[str, list[str]]:
    found = {name: [value.strip() for value in values.split(",")] for name, values in given["lists"]}
    step = _number("--parameter-step-size", given["step"] or "1")
    for name, low, high in given["scans"]:
        least, most = _number("--parameter-scan", low), _number("--parameter-scan", high)
        if step <= 0 or most < least or (most - least) / step > 10_000:
            raise BadInput(
                f"--parameter-scan {name} {low} {high} has no end", cure="MIN below MAX, and a positive step"
            )
        found[name] = [f"{(least + step * at).normalize():f}" for at in range(int((most - least) / step) + 1)]
    if len(found) != len(given["lists"]) + len(given["scans"]):
        raise BadInput("a parameter is given twice", cure="give each once")
    return found


def _number(option: str, text: str) -> Decimal:
    try:
        value = Decimal(text)
    except InvalidOperation:
        value = Decimal("NaN")
    if not value.is_finite():
        raise BadInput(f"{option}: {text!r} is no number", cure="write 4 or 0.5")
    return value
