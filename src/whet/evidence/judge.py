"""The process that compares. It imports no user code: what it holds against each other are bytes and shapes.

It copies the outputs of a frozen bench into memory that no bench ever maps and judges the copy.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from whet.evidence import buffers, messages
from whet.evidence.agreement import disagreement, finite, largest_error
from whet.evidence.messages import Done, Evict, Judge, Judged, Judgement, Layout, Poison, Save
from whet.evidence.serving import answer_requests, map_bytes
from whet.evidence.system import Granted
from whet.protocol import Array, Arrays, Tolerance

# Twice the last-level cache of any machine met so far.
EVICTED_BYTES = 96 << 20


class Bailiff:
    """Owns every outputs arena and reads what the referee expects."""

    def __init__(self) -> None:
        self._words: dict[int, int] = {}
        self._copies: dict[int, Array] = {}

    def open(self, layout: Layout, fds: list[int]) -> Done:
        """`fds`: fixed inputs, expected values, then inputs and outputs of each arm."""
        self._layout = layout
        self._fixed = map_bytes(fds[0], layout.fixed.size_bytes, writeable=False)
        self._expected = map_bytes(fds[1], layout.outputs.size_bytes, writeable=False)
        self._inputs = [map_bytes(fd, layout.inputs.size_bytes, writeable=False) for fd in fds[2::2]]
        self._outputs = [map_bytes(fd, layout.outputs.size_bytes, writeable=True) for fd in fds[3::2]]
        self._copies = {}
        return Done()

    def poison(self, asked: Poison) -> Done:
        for arm, word in asked.words.items():
            memory = self._outputs[arm]
            buffers.set_guards(memory, self._layout.outputs)
            for group in self._layout.outputs.groups:
                for field in group:
                    buffers.fill(buffers.bytes_of(memory, field), word)
        self._words = dict(asked.words)
        return Done()

    def judge(self, asked: Judge) -> Judged:
        self._calls = asked.calls
        self._copies = {arm: self._outputs[arm].copy() for arm in asked.calls}
        reports = {arm: self._report(arm, asked) for arm in asked.calls}
        return Judged(reports=reports | self._dissent(asked, reports))

    def save(self, asked: Save) -> Done:
        """Inputs, expected and got of one slot of the last judgement, for later study."""
        parts: dict[str, Array] = {}
        for label, memory, fields in (
            ("input", self._fixed, self._layout.fixed.groups[0]),
            ("input", self._inputs[asked.arm], self._layout.inputs.groups[asked.slot]),
            ("expected", self._expected, self._layout.outputs.groups[asked.slot]),
            ("got", self._copies[asked.arm], self._layout.outputs.groups[asked.slot]),
        ):
            parts |= {f"{label}_{name}": value for name, value in buffers.views(memory, fields).items()}
        with open(asked.path, "wb") as file:  # noqa: PTH123  (savez would append a suffix to a path)
            np.savez_compressed(file, allow_pickle=False, **parts)
        return Done()

    def evict(self, asked: Evict) -> Done:
        mine = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
        waste = np.empty(EVICTED_BYTES, np.uint8)
        for core in asked.cores:
            if mine is not None:
                os.sched_setaffinity(0, {core})
            waste += 1
        if mine is not None:
            os.sched_setaffinity(0, mine)
        return Done()

    def _report(self, arm: int, asked: Judge) -> Judgement:
        if broken := buffers.broken_guard(self._copies[arm], self._layout.outputs):
            return self._red(arm, "out of bounds", f"the variant wrote over {broken}")
        error = 0.0
        for slot in (slot for slot in asked.expected if slot < asked.calls[arm]):
            expected = buffers.views(self._expected, self._layout.outputs.groups[slot])
            if found := self._wrong(arm, slot, expected, asked.tolerance):
                return found
            got = self._got(arm, slot)
            error = max([error, *(largest_error(got[name], expected[name], asked.tolerance) for name in got)])
        return Judgement(digest=self._digest(arm), error=error)

    def _wrong(
        self, arm: int, slot: int, expected: Arrays, tolerance: Tolerance, *, slack: float = 1.0
    ) -> Judgement | None:
        for name, got in self._got(arm, slot).items():
            found = disagreement(name, got, expected[name], tolerance, slack=slack)
            if found is None:
                continue
            reason, detail = found.reason, found.detail
            if unwritten := self._unwritten(arm, slot, name):
                reason, detail = "not written", f"{unwritten:.0%} of {name!r} was not written; {detail}"
            found_in = {"expected": found.expected, "got": found.got}
            return msgspec.structs.replace(self._red(arm, reason, detail, slot), **found_in)
        return None

    def _dissent(self, asked: Judge, reports: Mapping[int, Judgement]) -> dict[int, Judgement]:
        """Where the oracle was not asked: everything written, and every arm agrees with the first on what both ran.

        What is not finite may be what is left of the poison, so it agrees with nothing.
        """
        calls = {arm: count for arm, count in asked.calls.items() if not reports[arm].reason}
        unseen = [slot for slot in range(max(calls.values(), default=0)) if slot not in asked.expected]
        found: dict[int, Judgement] = {}
        for arm, slot in ((arm, slot) for arm in calls for slot in unseen if slot < calls[arm]):
            for name, got in self._got(arm, slot).items():
                if arm not in found and self._unwritten(arm, slot, name):
                    found[arm] = self._red(arm, "not written", f"some of {name!r} was not written", slot)
                elif arm not in found and not finite(got).all():
                    found[arm] = self._red(arm, "disputed", f"some of {name!r} is not finite", slot)
        first, *others = calls or [0]
        for other in others:
            for slot in (slot for slot in unseen if slot < min(calls[first], calls[other])):
                if self._wrong(other, slot, self._got(first, slot), asked.tolerance, slack=2.0):
                    return {arm: found.get(arm) or self._red(arm, "disputed", "they disagree") for arm in calls}
        return found

    def _red(self, arm: int, reason: str, detail: str, slot: int = 0) -> Judgement:
        return Judgement(digest=self._digest(arm), reason=reason, detail=detail, slot=slot)

    def _digest(self, arm: int) -> str:
        fields = [field for group in self._layout.outputs.groups[: self._calls[arm]] for field in group]
        return buffers.digest(buffers.bytes_of(self._copies[arm], field) for field in fields)

    def _unwritten(self, arm: int, slot: int, name: str) -> float:
        field = next(field for field in self._layout.outputs.groups[slot] if field.name == name)
        return buffers.share_filled_with(buffers.bytes_of(self._copies[arm], field), self._words[arm])

    def _got(self, arm: int, slot: int) -> dict[str, Array]:
        return buffers.views(self._copies[arm], self._layout.outputs.groups[slot])


def serve(channel_fd: int, pid: int, granted: Granted) -> None:
    bailiff = Bailiff()
    handlers: dict[type[messages.Request], Any] = {
        Layout: bailiff.open,
        Poison: bailiff.poison,
        Judge: bailiff.judge,
        Save: bailiff.save,
        Evict: bailiff.evict,
    }
    answer_requests(channel_fd, messages.ToJudge, handlers, pid, granted)
