"""The small language that says which workers of a grid run a region: `bx == 0 and by < min(4, num_k_tiles)`.

    rule  := and-rule { "or" and-rule }            sum   := value { ("+" | "-") value }
    and   := unit { "and" unit }                   value := number | name | ("min" | "max") "(" sum "," sum ")"
    unit  := "all" | "not" unit | "(" rule ")"     list  := item { "," item }
           | sum compare sum | sum "in" list       item  := number | number ".." number        (both ends included)

A text is a rule or an error; nothing that fails to parse ever means "all".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from whet.errors import BadInput
from whet.regions.grid import MAX_NUMBER

Names = Mapping[str, Any]
Evaluate = Callable[[Names], Any]

MAX_LENGTH = 400
MAX_DEPTH = 16
TOKEN = re.compile(r"\s*(?:(\d+\.\.\d+)|(\d+)(?![\w.])|([A-Za-z_][A-Za-z0-9_]*)|(<=|>=|==|!=|[<>(),+-]))", re.ASCII)
ITEM = re.compile(r"(\d{1,10})(?:\.\.(\d{1,10}))?", re.ASCII)
COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}
RESERVED = frozenset({"all", "and", "or", "not", "in", "min", "max", "worker"})


@dataclass(frozen=True)
class Rule:
    """A parsed rule: which names it needs, and how to ask it."""

    text: str
    needs: frozenset[str]
    evaluate: Evaluate

    def mask(self, names: Names, workers: int) -> npt.NDArray[np.bool_]:
        """True for every worker that the rule includes."""
        return np.broadcast_to(np.asarray(self.evaluate(names), dtype=np.bool_), (workers,)).copy()


def parse_item(text: str) -> tuple[int, int]:
    """Reads `5` or `0..7`; both ends are included."""
    match = ITEM.fullmatch(text.strip())
    if match is None:
        raise BadInput(f"{text!r} is neither a number nor a range", cure="write 5 or 0..7 (both ends included)")
    low = int(match[1])
    high = int(match[2]) if match[2] is not None else low
    if high < low:
        raise BadInput(f"range {text!r} runs backwards", cure=f"write {high}..{low}")
    if high > MAX_NUMBER:
        raise BadInput(f"{text!r} is too large", cure=f"at most {MAX_NUMBER}")
    return low, high


def parse_ranges(text: str, limit: int) -> tuple[int, ...]:
    """Reads `0..7,12` as the numbers below `limit` that it names, or `all`. Anything else is BadInput."""
    if text == "all":
        return tuple(range(limit))
    chosen: set[int] = set()
    for item in text.split(","):
        low, high = parse_item(item)
        if high >= limit:
            raise BadInput(
                f"{item.strip()!r} goes beyond the last one, {limit - 1}", cure=f"stay within 0..{limit - 1}"
            )
        chosen.update(range(low, high + 1))
    return tuple(sorted(chosen))


def parse_rule(text: str) -> Rule:
    """Reads a rule, or raises BadInput that shows where it stops making sense."""
    parser = _Parser(text)
    evaluate = parser.rule(0)
    parser.end()
    return Rule(text, frozenset(parser.needs), evaluate)


def parse_number(text: str) -> Rule:
    """Reads an expression that is a number, such as a trip count."""
    parser = _Parser(text)
    evaluate = parser.sum(0)
    parser.end()
    return Rule(text, frozenset(parser.needs), evaluate)


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.needs: set[str] = set()
        if len(text) > MAX_LENGTH:
            raise BadInput(f"a rule of {len(text)} characters is too long", cure=f"at most {MAX_LENGTH}")
        self.tokens: list[tuple[str, int]] = []
        at = 0
        while text[at:].strip():
            match = TOKEN.match(text, at)
            if match is None:
                raise self._bad(at)
            self.tokens.append((match[match.lastindex or 0], match.start(match.lastindex or 0)))
            at = match.end()
        self.next = 0

    def _bad(self, at: int) -> BadInput:
        rest = self.text[at:].strip() or "the end"
        return BadInput(
            f"rule {self.text!r} makes no sense at {rest!r}",
            cure="write `all`, `bx == 0 and by < 4` or `worker in 0..7,12`",
        )

    def bad(self) -> BadInput:
        return self._bad(self.tokens[self.next][1] if self.next < len(self.tokens) else len(self.text))

    def peek(self) -> str:
        return self.tokens[self.next][0] if self.next < len(self.tokens) else ""

    def take(self, *wanted: str) -> str:
        token = self.peek()
        if token not in wanted:
            raise self.bad()
        self.next += 1
        return token

    def end(self) -> None:
        if self.next < len(self.tokens):
            raise self.bad()

    def rule(self, depth: int) -> Evaluate:
        if depth > MAX_DEPTH:
            raise BadInput(f"rule {self.text!r} is nested too deeply", cure=f"at most {MAX_DEPTH} levels")
        left = self.conjunction(depth)
        while self.peek() == "or":
            self.take("or")
            left = _either(left, self.conjunction(depth))
        return left

    def conjunction(self, depth: int) -> Evaluate:
        left = self.unit(depth)
        while self.peek() == "and":
            self.take("and")
            left = _both(left, self.unit(depth))
        return left

    def unit(self, depth: int) -> Evaluate:
        if depth > MAX_DEPTH:
            raise BadInput(f"rule {self.text!r} is nested too deeply", cure=f"at most {MAX_DEPTH} levels")
        if self.peek() == "all":
            self.take("all")
            return lambda names: True
        if self.peek() == "not":
            self.take("not")
            inner = self.unit(depth + 1)
            return lambda names: np.logical_not(inner(names))
        if self.peek() == "(":
            self.take("(")
            inner = self.rule(depth + 1)
            self.take(")")
            return inner
        left = self.sum(depth)
        if self.peek() == "in":
            self.take("in")
            return _member(left, self.items())
        compare = COMPARE[self.take(*COMPARE)]
        right = self.sum(depth)
        return lambda names: compare(left(names), right(names))

    def items(self) -> list[tuple[int, int]]:
        found = [self.item()]
        while self.peek() == ",":
            self.take(",")
            found.append(self.item())
        return found

    def item(self) -> tuple[int, int]:
        if not self.peek()[:1].isdigit():
            raise self.bad()
        self.next += 1
        return parse_item(self.tokens[self.next - 1][0])

    def sum(self, depth: int) -> Evaluate:
        left = self.value(depth)
        while self.peek() in ("+", "-"):
            sign = 1 if self.take("+", "-") == "+" else -1
            left = _add(left, self.value(depth), sign)
        return left

    def value(self, depth: int) -> Evaluate:
        if depth > MAX_DEPTH:
            raise BadInput(f"rule {self.text!r} is nested too deeply", cure=f"at most {MAX_DEPTH} levels")
        token = self.peek()
        if token in ("min", "max"):
            self.take(token)
            self.take("(")
            first = self.sum(depth + 1)
            self.take(",")
            second = self.sum(depth + 1)
            self.take(")")
            pick = np.minimum if token == "min" else np.maximum
            return lambda names: pick(first(names), second(names))
        if token.isdigit():
            self.next += 1
            number, _ = parse_item(token)
            return lambda names: number
        if not token or ".." in token or not (token[0].isalpha() or token[0] == "_") or token in RESERVED - {"worker"}:
            raise self.bad()
        self.next += 1
        self.needs.add(token)
        return lambda names: names[token]


def _either(a: Evaluate, b: Evaluate) -> Evaluate:
    return lambda names: np.logical_or(a(names), b(names))


def _both(a: Evaluate, b: Evaluate) -> Evaluate:
    return lambda names: np.logical_and(a(names), b(names))


def _add(a: Evaluate, b: Evaluate, sign: int) -> Evaluate:
    return lambda names: a(names) + sign * b(names)


def _member(value: Evaluate, items: list[tuple[int, int]]) -> Evaluate:
    def inside(names: Names) -> Any:
        number = np.asarray(value(names))
        found = np.zeros(number.shape, dtype=np.bool_)
        for low, high in items:
            found |= (number >= low) & (number <= high)
        return found

    return inside
