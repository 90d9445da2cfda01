"""What an examination of a task found, and which of it is a weakness.

What counts, on every case that is no edge case (an axis of 0 or 1 where the engine has larger ones):

- A free answer that passes is a weakness: nothing has to be computed. There is one exception: a profile that is not the
  engine's usual one and has one answer whatever the seed, such as all scalars zero. It tests an edge and is told.
- A damaged answer that differs from the right one and passes is a weakness of the tolerance. Lost precision is told
  instead where the tolerance itself says as much: a relative one of at least the format's round-off.
- A damage that never changes anything is told: every answer is sorted, none is negative. Values that all fit into half
  precision are a weakness, because a kernel in half precision would be right.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from whet.evidence.cases import volume
from whet.evidence.free_answers import (
    HALF,
    ROUND_OFF,
    Known,
    damaged_answers,
    free_answers,
    passes,
    passing,
    same_bits,
    same_values,
    share_used,
)
from whet.protocol import Arrays, Case, Engine, Tolerance

# What was seen and what to do about it, with the cases.
Kept = dict[tuple[str, str, str], list[Case]]
# Fewer elements are sorted, or without a negative one, by chance.
LEAST_ELEMENTS = 8
UNCHANGED = {
    "the sorted answer": "every expected answer is sorted: right for a task that sorts, else the inputs are degenerate",
    "the first half of the answer": "the second half of every expected answer is zero: half of a kernel's work "
    "would not be missed",
    "the answer without signs": "no expected value is negative: a lost sign would not show",
}


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing about the task: a weakness, or a note. `strengthen` says what to do about it."""

    answer: str
    cases: list[Case]
    told: str
    strengthen: str = ""


class TaskReport(msgspec.Struct, frozen=True, kw_only=True):
    """What an examination of a task came to."""

    engine: str
    seed: int
    cases: list[Case]
    left_out: list[Case]
    tried: int
    weak: list[Finding]
    notes: list[Finding]

    @property
    def good(self) -> bool:
        return not self.weak


class Notebook:
    """Collects what passes where, and says at the end which of it is a weakness."""

    def __init__(self, engine: Engine, asked: Sequence[Case]) -> None:
        self._engine, self._asked = engine, asked
        self._tolerance: Tolerance = engine.tolerance
        self._usual = max(engine.cases(), key=volume).profile
        self.seen: list[Case] = []
        self.tried = 0
        self._weak: Kept = {}
        self._notes: Kept = {}
        # By damage: cases of some size in which it changed nothing, and in which it did.
        self._unchanged: dict[str, list[Case]] = {}
        self._changed: set[str] = set()
        # By damage that passes: the largest share of the tolerance that it takes, and the cases.
        self._loose: dict[str, tuple[float, list[Case]]] = {}

    def is_edge(self, case: Case) -> bool:
        """An axis of 0 or 1 where there are larger ones: such a case may have an answer that costs nothing."""
        most = {axis: max(other.sizes.get(axis, 0) for other in self._asked) for axis in case.sizes}
        return any(size <= 1 < most[axis] for axis, size in case.sizes.items())

    def oracle(self, case: Case, changed: Sequence[str], steady: bool) -> None:
        self.seen.append(case)
        if changed:
            told = f"oracle() writes into its input {', '.join(map(repr, changed))}"
            self._note(self._weak, "the oracle's inputs", told, "let it work on copies", case)
        if not steady:
            told = "the oracle answers the same question in two ways"
            cure = "draw nothing in oracle() and keep nothing between its calls"
            self._note(self._weak, "the oracle's second answer", told, cure, case)

    def answers(self, known: Known, smaller: Known | None) -> None:
        if not any(want.size for want in known.expected[0].values()):
            return
        self._try_free(known, smaller)
        self._try_damaged(known)

    def report(self, seed: int, left_out: Sequence[Case]) -> TaskReport:
        for answer, cases in self._unchanged.items():
            if answer not in self._changed:
                self._never_changed(answer, cases)
        for answer, (share, cases) in self._loose.items():
            self._too_loose(answer, share, cases)
        return TaskReport(
            engine=self._engine.name,
            seed=seed,
            cases=self.seen,
            left_out=list(left_out),
            tried=self.tried,
            weak=_findings(self._weak),
            notes=_findings(self._notes),
        )

    def _try_free(self, known: Known, smaller: Known | None) -> None:
        found: dict[str, list[Arrays | None]] = {}
        for number in range(len(known.expected) - 1):
            expected = known.expected[number]
            for answer, offers in free_answers(known, number, smaller).items():
                self.tried += 1
                found.setdefault(answer, []).append(passing(offers, expected, self._tolerance))
        if self.is_edge(known.case):
            return
        for answer, offers_per_seed in found.items():
            if any(offer is None for offer in offers_per_seed):
                continue
            equal = all(
                offer is not None and same_values(offer, want)
                for offer, want in zip(offers_per_seed, known.expected, strict=False)
            )
            if known.one_answer and known.case.profile != self._usual:
                told = f"profile {known.case.profile} has one answer whatever the seed: an edge case"
                self._note(self._notes, "a remembered answer", told, "time another profile", known.case)
                return
            self._note(self._weak, answer, *self._why_free(known, equal=equal), known.case)

    def _why_free(self, known: Known, *, equal: bool) -> tuple[str, str]:
        if known.one_answer:
            return "outputs constant: the oracle gives one answer whatever the seed", (
                "let prepare() draw the inputs from its seed, and the oracle use all of them"
            )
        if equal:
            return "inputs degenerate: it equals the expected answer to the bit", (
                "draw inputs for which the answer has to be computed"
            )
        return f"tolerance too loose: {self._tolerance.in_words()} covers the difference", (
            "tighten the tolerance, or let the inputs make answers that differ by more"
        )

    def _try_damaged(self, known: Known) -> None:
        if self.is_edge(known.case):
            return
        large = all(want.size >= LEAST_ELEMENTS for want in known.expected[0].values())
        rows: dict[str, list[tuple[bool, bool, float]]] = {}
        for number in range(len(known.expected) - 1):
            expected = known.expected[number]
            for answer, offer in damaged_answers(expected).items():
                self.tried += 1
                row = same_bits(offer, expected), passes(offer, expected, self._tolerance)
                rows.setdefault(answer, []).append((*row, share_used(offer, expected, self._tolerance)))
        for answer, tries in rows.items():
            if all(unchanged for unchanged, _, _ in tries):
                if large:
                    self._unchanged.setdefault(answer, []).append(known.case)
                continue
            self._changed.add(answer)
            if all(passed for _, passed, _ in tries):
                before, cases = self._loose.get(answer, (0.0, []))
                self._loose[answer] = max(before, *(share for _, _, share in tries)), [*cases, known.case]

    def _too_loose(self, answer: str, share: float, cases: list[Case]) -> None:
        form = answer.rpartition(" ")[2]
        used = f"it takes {share:.0%} of the tolerance ({self._tolerance.in_words()})"
        if form in ROUND_OFF and (form not in HALF or self._tolerance.relative >= ROUND_OFF[form]):
            self._note(self._notes, answer, f"allowed: {used}", "", *cases)
            return
        cure = "tighten the tolerance, the absolute one below the size of the values"
        self._note(self._weak, answer, f"tolerance too loose: {used}", cure, *cases)

    def _never_changed(self, answer: str, cases: list[Case]) -> None:
        form = answer.rpartition(" ")[2]
        if form in HALF:
            told = f"inputs degenerate: every expected value is a {form} already"
            self._note(self._weak, answer, told, "draw inputs with all their digits", *cases)
        elif answer in UNCHANGED:
            self._note(self._notes, answer, UNCHANGED[answer], "", *cases)

    def _note(self, where: Kept, answer: str, told: str, cure: str, *cases: Case) -> None:
        where.setdefault((answer, told, cure), []).extend(cases)


def _findings(collected: Kept) -> list[Finding]:
    return [
        Finding(answer=answer, cases=sorted(cases, key=volume), told=told, strengthen=cure)
        for (answer, told, cure), cases in collected.items()
    ]
