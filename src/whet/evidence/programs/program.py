"""Programs as they are typed: commands with a name each, what happens around them, and lists of parameters."""

from __future__ import annotations

import itertools
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from whet.errors import BadInput

MOST_COMBINATIONS = 200


@dataclass(frozen=True)
class Program:
    """One command. `prepare` and `conclude` run before and after each of its turns, untimed."""

    name: str
    command: str
    prepare: str = ""
    conclude: str = ""
    cleanup: str = ""

    def words(self, shell: str) -> list[str]:
        """What is started: the shell with the command, or the command itself where there is no shell."""
        return shell_words(shell, self.command)


def shell_words(shell: str, command: str) -> list[str]:
    try:
        words = shlex.split(command) if not shell else [*shlex.split(shell), "-c", command]
    except ValueError as error:
        raise BadInput(f"{command!r} cannot be split into words: {error}", cure="close its quotes") from None
    if not words:
        raise BadInput("an empty command", cure="name a program")
    return words


@dataclass(frozen=True)
class Setting:
    """What all programs of a trial share. `expect` is a file with the right output; the first program's otherwise."""

    shell: str = "/bin/sh"
    source: str = os.devnull
    setup: str = ""
    filter: str = ""
    expect: str = ""
    warmup: int = 0
    # None: exit code 0 is asked for. Empty: any code, and the same one as the reference's. Else: these are fine too.
    ignored_codes: frozenset[int] | None = None
    limit_s: float = 60.0
    parameters: Mapping[str, str] = field(default_factory=dict)


def expand(
    programs: Sequence[Program], setting: Setting, lists: Mapping[str, Sequence[str]]
) -> list[tuple[list[Program], Setting]]:
    """One trial per combination of parameters; a single command is instead compared with itself at each of them."""
    combinations = list(itertools.islice(_combinations(lists), MOST_COMBINATIONS + 1))
    if len(combinations) > MOST_COMBINATIONS:
        raise BadInput(f"more than {MOST_COMBINATIONS} combinations of parameters", cure="give fewer values")
    if len(programs) == 1:
        grown = [_filled(programs[0], values) for values in combinations]
        return [(_distinct(grown), _filled_setting(setting, {}))]
    return [
        (_distinct([_filled(one, values) for one in programs]), _filled_setting(setting, values))
        for values in combinations
    ]


def _combinations(lists: Mapping[str, Sequence[str]]) -> Iterator[dict[str, str]]:
    for values in itertools.product(*lists.values()):
        yield dict(zip(lists, values, strict=True))


def _put(text: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def _filled(program: Program, values: Mapping[str, str]) -> Program:
    names = ("name", "command", "prepare", "conclude", "cleanup")
    return Program(**{name: _put(getattr(program, name), values) for name in names})


def _filled_setting(setting: Setting, values: Mapping[str, str]) -> Setting:
    texts = {name: _put(getattr(setting, name), values) for name in ("source", "setup", "filter", "expect")}
    for option, name in (("--input", "source"), ("--expect", "expect")):
        if texts[name] and not os.access(texts[name], os.R_OK):
            raise BadInput(f"{option} {texts[name]} cannot be read", cure="check the path and its permissions")
        texts[name] = str(Path(texts[name]).absolute()) if texts[name] else ""
    changed: dict[str, Any] = {**texts, "parameters": dict(values)}
    return replace(setting, **changed)


def _distinct(programs: list[Program]) -> list[Program]:
    """A name once: the second `a` is called `a #2`."""
    seen: dict[str, int] = {}
    found = []
    for program in programs:
        name = " ".join(program.name.split())
        seen[name] = number = seen.get(name, 0) + 1
        found.append(replace(program, name=name if number == 1 else f"{name} #{number}"))
    return found
