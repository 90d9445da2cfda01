"""How many 32-bit words of a kernel are alive at once, estimated from its WGSL. A model, not a compiler.

Calls count as if they were inlined, as drivers do. A name is alive from its declaration to its last mention; a name
from outside a loop that the loop mentions, to the end of the loop. Arrays that a thread owns are counted apart: drivers
keep them in registers only if every index is known when they compile. Temporaries of one expression are not counted,
and no driver schedules exactly in the order of the source, so the true figure lies some words around it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

SCALARS = {"u32": 1, "i32": 1, "f32": 1, "bool": 1, "f16": 1, "u64": 2, "i64": 2, "f64": 2}
COMPONENTS = frozenset("xyzwrgba")
_FUNCTION = re.compile(r"\bfn\s+(\w+)\s*\(")
_DECLARATION = re.compile(r"\b(?:let|var)\s+(\w+)\s*(?::\s*([^=;]+?))?\s*(?:=\s*([^;]+))?;")
_LOOP = re.compile(r"\b(?:for|while|loop)\b")
_CALL = re.compile(r"\b(\w+)\s*\(")


@dataclass(frozen=True)
class Footprint:
    """Of one thread: words in registers and in its own arrays; of a workgroup: bytes and threads."""

    live_words: int
    array_words: int
    workgroup_bytes: int
    workgroup_threads: int


@dataclass(frozen=True)
class _Name:
    start: int
    end: int
    words: int
    name: str


@dataclass(frozen=True)
class _Function:
    name: str
    parameters: dict[str, str]
    returns: str
    body: str


def footprint(source: str, entry: str) -> Footprint:
    """The estimate for one entry point."""
    return _Module(source).footprint(entry)


class _Module:
    def __init__(self, source: str) -> None:
        self.text = re.sub(r"//[^\n]*", "", source)
        pairs = re.findall(r"\b(?:const|override)\s+(\w+)(?:\s*:\s*\w+)?\s*=\s*([^;]+);", self.text)
        self.constants: dict[str, int] = {}
        for name, value in pairs:
            if (number := self._number(value)) is not None:
                self.constants[name] = number
        self.structs = {
            name: dict(_fields(fields)) for name, fields in re.findall(r"\bstruct\s+(\w+)\s*\{([^}]*)\}", self.text)
        }
        owned = re.findall(r"\bvar\s*<\s*(\w+)[^>]*>\s*(\w+)\s*:\s*([^;=]+)", self.text)
        self.module_names = {name: kind.strip() for _, name, kind in owned}
        self.private = [kind.strip() for space, _, kind in owned if space == "private"]
        self.shared = [kind.strip() for space, _, kind in owned if space == "workgroup"]
        self._peaks: dict[str, tuple[int, int]] = {}

    def footprint(self, entry: str) -> Footprint:
        words, arrays = self.peak(entry)
        for kind in self.private:
            if kind.startswith("array"):
                arrays += self.words(kind)
            else:
                words += self.words(kind)
        sizes = re.search(r"@workgroup_size\(([^)]*)\)(?:\s*@\w+(?:\([^)]*\))?)*\s*fn\s+" + entry + r"\b", self.text)
        threads = 1
        for part in (sizes.group(1) if sizes else "1").split(","):
            threads *= self._number(part) or 1
        return Footprint(words, arrays, 4 * sum(map(self.words, self.shared)), threads)

    def peak(self, name: str) -> tuple[int, int]:
        """The most words alive in a function and what it calls, and the words of its arrays."""
        if name not in self._peaks:
            self._peaks[name] = (0, 0)  # WGSL has no recursion; this ends a malformed one
            function = self.functions[name]
            names, arrays = self._lives(function)
            calls = list(self._calls(function))
            points = {one.start for one in names} | {at for at, *_ in calls} | {0}
            best = 0
            for at in points:
                best = max(best, sum(one.words for one in names if one.start <= at <= one.end))
            for at, callee, plain in calls:
                inner, inner_arrays = self.peak(callee)
                # What is passed by its name is the callee's parameter, not a second copy.
                outside = sum(one.words for one in names if one.start <= at < one.end and one.name not in plain)
                best = max(best, outside + inner)
                arrays = max(arrays, sum(self.words(t) for t in self._local_arrays(function)) + inner_arrays)
            self._peaks[name] = (best, arrays)
        return self._peaks[name]

    @cached_property
    def functions(self) -> Mapping[str, _Function]:
        found = {}
        for match in _FUNCTION.finditer(self.text):
            close = _matching(self.text, match.end() - 1, "()")
            opening = self.text.index("{", close)
            head = self.text[close + 1 : opening]
            returns = re.sub(r"@\w+(\([^)]*\))?", "", head.partition("->")[2]).strip()
            parameters = re.sub(r"@\w+(\([^)]*\))?", "", self.text[match.end() : close])
            body = self.text[opening + 1 : _matching(self.text, opening, "{}")]
            found[match.group(1)] = _Function(match.group(1), dict(_fields(parameters)), returns, body)
        return found

    def words(self, kind: str) -> int:
        kind = kind.strip()
        if kind in SCALARS:
            return SCALARS[kind]
        if kind in self.structs:
            return sum(self.words(part) for part in self.structs[kind].values())
        if vector := re.fullmatch(r"vec(\d)(?:<\s*(\w+)\s*>|[uif])", kind):
            return int(vector.group(1)) * SCALARS.get(vector.group(2) or "u32", 1)
        if kind.startswith("atomic"):
            return 1
        if kind.startswith("array"):
            element, _, count = kind[kind.index("<") + 1 : kind.rindex(">")].rpartition(",")
            return self.words(element) * (self._number(count) or 0) if element else 0
        return 0 if kind.startswith("ptr") else 1

    def _lives(self, function: _Function) -> tuple[list[_Name], int]:
        body = function.body
        loops = [(match.start(), _block_end(body, match.start())) for match in _LOOP.finditer(body)]
        kinds = dict(function.parameters)
        names = [self._alive(name, kind, 0, body, loops) for name, kind in function.parameters.items()]
        arrays = 0
        for match in _DECLARATION.finditer(body):
            name, kind = match.group(1), (match.group(2) or "").strip()
            kind = kind or self._inferred(match.group(3) or "", kinds)
            kinds[name] = kind
            if kind.startswith("array"):
                arrays += self.words(kind)
            else:
                names.append(self._alive(name, kind, match.end(), body, loops))
        return names, arrays

    def _local_arrays(self, function: _Function) -> list[str]:
        kinds = [(match.group(2) or "").strip() for match in _DECLARATION.finditer(function.body)]
        return [kind for kind in kinds if kind.startswith("array")]

    def _alive(self, name: str, kind: str, start: int, body: str, loops: list[tuple[int, int]]) -> _Name:
        mentions = [match.start() for match in re.finditer(rf"\b{name}\b", body[start:])]
        end = start + mentions[-1] if mentions else start
        again = re.search(rf"\b(?:let|var)\s+{name}\b", body[start:])
        if again:  # a name of its own in another block: the earlier one ends before it
            end = max((start + at for at in mentions if at < again.start()), default=start)
        for first, last in loops:
            if start < first <= end < last:
                end = last
        return _Name(start, end, self.words(kind), name)

    def _calls(self, function: _Function) -> Iterator[tuple[int, str, set[str]]]:
        for match in _CALL.finditer(function.body):
            if match.group(1) in self.functions:
                inside = function.body[match.end() : _matching(function.body, match.end() - 1, "()")]
                # A pointer (&name) is not passed by value: what it points to stays the caller's.
                plain = {one.strip() for one in _split(inside)}
                yield match.start(), match.group(1), {one for one in plain if re.fullmatch(r"\w+", one)}

    def _inferred(self, expression: str, kinds: Mapping[str, str]) -> str:
        """The type of an initialiser, from its first operand; a scalar where nothing else is known."""
        text = re.sub(r"\(\s*\*\s*(\w+)\s*\)", r"\1", expression).strip().lstrip("(-~!&* ")
        constructed = re.match(r"(vec\d(?:<[^>]*>|[uif])|array<.*?>\s*(?=\()|\w+)\s*\(", text)
        if constructed:
            called = constructed.group(1).strip()
            if called in ("select", "min", "max", "clamp", "countOneBits"):
                return self._inferred(text[constructed.end() :], kinds)
            if called in self.functions:
                return self.functions[called].returns or "u32"
            return called if called in self.structs or called.startswith(("vec", "array")) else "u32"
        start = re.match(r"\w+", text)
        if not start:
            return "u32"
        kind = kinds.get(start.group()) or self.module_names.get(start.group()) or ""
        if pointed := re.fullmatch(r"ptr<\s*\w+\s*,\s*(.+)>", kind):
            kind = pointed.group(1)
        if not kind and (constant := re.search(rf"\bconst\s+{start.group()}\s*=\s*(\w+)\(", self.text)):
            kind = constant.group(1)
        for member in _members(text[start.end() :]):
            kind = self._part(kind, member)
        return kind or "u32"

    def _part(self, kind: str, member: str) -> str:
        if member and kind in self.structs:
            return self.structs[kind].get(member, "u32")
        if member and set(member) <= COMPONENTS:
            return "u32" if len(member) == 1 else f"vec{len(member)}<u32>"
        if kind.startswith("array"):
            inner = kind[kind.index("<") + 1 : kind.rindex(">")]
            return inner.rpartition(",")[0].strip() or inner.strip()
        return "u32"

    def _number(self, text: str) -> int | None:
        """The value of a product or sum of whole numbers and named constants."""
        known = re.sub(r"\b[A-Za-z_]\w*\b", lambda m: str(self.constants.get(m.group(), "?")), text)
        plain = re.sub(r"(?<=\d)[ui]\b", "", known)
        if not re.fullmatch(r"[\d\s*+()-]+", plain) or not re.search(r"\d", plain):
            return None
        total = 0
        for term in plain.replace("(", "").replace(")", "").split("+"):
            product = 1
            for factor in term.split("*"):
                if not factor.strip().isdigit():
                    return None
                product *= int(factor)
            total += product
        return total


def _fields(text: str) -> Iterator[tuple[str, str]]:
    for part in _split(text):
        name, colon, kind = re.sub(r"@\w+(\([^)]*\))?", "", part).partition(":")
        if colon:
            yield name.strip(), kind.strip()


def _members(text: str) -> Iterator[str]:
    """The members and indices at the start of what follows a name: `.lo`, `[i + j[0]]`. An index is an empty name."""
    while found := re.match(r"\s*\.\s*(\w+)|\s*\[", text):
        yield found.group(1) or ""
        text = text[found.end() :] if found.group(1) else text[_matching(text, found.end() - 1, "[]") + 1 :]


def _split(text: str) -> list[str]:
    """At commas outside of brackets."""
    parts, depth, start = [], 0, 0
    for at, character in enumerate(text):
        depth += (character in "<([") - (character in ">)]")
        if character == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    return [*parts, text[start:]]


def _matching(text: str, opening: int, pair: str) -> int:
    depth = 0
    for at in range(opening, len(text)):
        depth += (text[at] == pair[0]) - (text[at] == pair[1])
        if depth == 0:
            return at
    return len(text)


def _block_end(body: str, loop: int) -> int:
    opening = body.find("{", loop)
    return _matching(body, opening, "{}") if opening >= 0 else len(body)
