"""Puts kernels together from `.wgsl` files. One assembler for every engine; a web page needs nothing but these rules.

A line that begins with `//#` is a directive, a comment to every other reader of WGSL:

    //# import NAME        the lines of NAME.wgsl, here, unless they are in the kernel already
    //# if KEY == VALUE    the lines up to `//# end`, or those between `//# else` and it
    //# each I < KEY       the lines up to `//# end` once for each number from 0 on
    //# let KEY = TEXT     what KEY stands for from here on

`${KEY}` anywhere else is what the caller or a `let` has given. Nothing has a default, so no choice is lost in silence.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NoReturn

from whet.errors import ShaderError

_DIRECTIVE = re.compile(r"\s*//#\s*(\w+)\s*(.*?)\s*$")
_KEY = re.compile(r"\$\{(\w+)\}")
_BINDING = re.compile(r"@group\(0\)\s*@binding\((\d+)\)\s*var\s*<[^>]*>\s*(\w+)")
_CONSTANT = re.compile(r"^const (\w+) = (\d+)u;", re.M)
_BLOCKS = ("if", "each")


@dataclass(frozen=True)
class Line:
    """A line of a file: what errors are told with."""

    file: str
    number: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}.wgsl:{self.number}"


@dataclass(frozen=True)
class Assembled:
    """A kernel's source; `lines` has for each of its lines the one in a file that it comes from."""

    source: str
    lines: tuple[Line, ...]

    def origin(self, number: int) -> Line:
        """Where line `number` of the source, counted from 1, was written."""
        return self.lines[number - 1]

    @property
    def bindings(self) -> tuple[str, ...]:
        """The names that are bound, in the order of @binding."""
        return bindings(self.source)


class Folder:
    """A folder of `.wgsl` files that import each other by their paths in it, without the ending."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def names(self) -> list[str]:
        """Every file of the folder."""
        return sorted(file.relative_to(self.path).with_suffix("").as_posix() for file in self.path.rglob("*.wgsl"))

    def lines(self, name: str) -> tuple[Line, ...]:
        """A file as it is written."""
        return _lines(self.path, name)

    def text(self, name: str) -> str:
        return "\n".join(line.text for line in self.lines(name))

    def assemble(self, name: str, **keys: str | int) -> Assembled:
        """The file and all that it imports, with every choice made."""
        made = _Assembly(self, {key: str(value) for key, value in keys.items()})
        made.file(name)
        source = "\n".join(text for text, _ in made.emitted)
        return Assembled(source + "\n", tuple(line for _, line in made.emitted))


def bindings(source: str) -> tuple[str, ...]:
    """The names that a kernel binds in group 0, in order. Places that are missing or taken twice are an error."""
    found = sorted((int(place), name) for place, name in _BINDING.findall(source))
    if [place for place, _ in found] != list(range(len(found))):
        raise ShaderError(f"the bindings are {found}", cure="number them from 0 on, each once")
    return tuple(name for _, name in found)


def constants(source: str) -> dict[str, int]:
    """The constants of a file that are plain numbers."""
    return {name: int(value) for name, value in _CONSTANT.findall(source)}


def fields(source: str, struct: str) -> tuple[str, ...]:
    """The members of a struct, in order."""
    found = re.search(rf"\bstruct {struct} \{{([^}}]*)\}}", re.sub(r"//.*", "", source))
    return tuple(re.findall(r"(?:^|,)\s*(\w+):", found.group(1))) if found else ()


@cache
def _lines(folder: Path, name: str) -> tuple[Line, ...]:
    texts = (folder / f"{name}.wgsl").read_text(encoding="utf-8").splitlines()
    return tuple(Line(name, number, text) for number, text in enumerate(texts, start=1))


class _Assembly:
    """The lines of one kernel so far, and what its keys stand for."""

    def __init__(self, folder: Folder, keys: dict[str, str]) -> None:
        self.folder = folder
        self.keys = keys
        self.imported: set[str] = set()
        self.emitted: list[tuple[str, Line]] = []

    def file(self, name: str, at: Line | None = None) -> None:
        if name in self.imported:
            return
        self.imported.add(name)
        try:
            lines = self.folder.lines(name)
        except OSError:
            _refuse(at, f"there is no {name}.wgsl in {self.folder.path}", cure="correct the import")
        self._block(lines)

    def _block(self, lines: Sequence[Line]) -> None:
        at = 0
        while at < len(lines):
            line = lines[at]
            at += 1
            if not (found := _DIRECTIVE.match(line.text)):
                self.emitted.append((self._filled(line.text, line), line))
                continue
            kind, rest = found.groups()
            if kind in _BLOCKS:
                first, second, at = _branches(lines, at)
                self._choose(kind, rest, line, first, second)
            else:
                self._single(kind, rest, line)

    def _single(self, kind: str, rest: str, line: Line) -> None:
        if kind == "import":
            self.file(self._filled(rest, line), line)
        elif kind == "let":
            key, equals, text = rest.partition(" = ")
            if not equals:
                _refuse(line, f"`{rest}` gives nothing a meaning", cure="write //# let KEY = TEXT")
            self.keys[key] = self._filled(text, line)
        else:
            _refuse(line, f"no directive `{kind}` is known or belongs here", cure="see whet.gpu.assembler")

    def _choose(self, kind: str, rest: str, line: Line, first: Sequence[Line], second: Sequence[Line]) -> None:
        if kind == "if":
            key, equals, value = rest.partition(" == ")
            if not equals:
                _refuse(line, f"`{rest}` is no condition", cure="write //# if KEY == VALUE")
            self._block(first if self._value(key, line) == value else second)
            return
        key, less, count = rest.partition(" < ")
        if not less or second:
            _refuse(line, f"`{rest}` counts nothing", cure="write //# each I < KEY, without //# else")
        for number in range(int(self._value(count, line))):
            self.keys[key] = str(number)
            self._block(first)
        self.keys.pop(key, None)

    def _value(self, key: str, line: Line) -> str:
        if key not in self.keys:
            _refuse(line, f"nothing says what {key} is", cure="give it to the assembler, or by //# let before")
        return self.keys[key]

    def _filled(self, text: str, line: Line) -> str:
        return _KEY.sub(lambda found: self._value(found.group(1), line), text)


def _branches(lines: Sequence[Line], start: int) -> tuple[Sequence[Line], Sequence[Line], int]:
    """The lines before and after the `else` of the block that begins at `start`, and where it has ended."""
    depth, middle = 0, None
    for at in range(start, len(lines)):
        found = _DIRECTIVE.match(lines[at].text)
        kind = found.group(1) if found else ""
        if kind in _BLOCKS:
            depth += 1
        elif kind == "else" and depth == 0 and middle is None:
            middle = at
        elif kind == "end":
            if depth == 0:
                split = at if middle is None else middle
                return lines[start:split], lines[split + 1 : at], at + 1
            depth -= 1
    _refuse(lines[start - 1], "this block has no end", cure="write //# end below it")


def _refuse(at: Line | None, cause: str, *, cure: str) -> NoReturn:
    raise ShaderError(f"{at}: {cause}" if at else cause, cure=cure, line=at.number if at else None)


# Kernels of the substrate itself: each asks a driver something, or plays one that is wrong.
PROBES = Folder(Path(__file__).parent / "wgsl")
