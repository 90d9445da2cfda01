"""Is the task any good? Answers that cost nothing are held against the oracle, by the comparison that judges variants.

The oracle must answer one question the same way twice and leave its inputs alone.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import closing

import numpy as np

from whet.errors import BadInput
from whet.evidence import buffers, seeds, system
from whet.evidence.cases import volume
from whet.evidence.free_answers import Known, same_bits
from whet.evidence.officials import OfficialLost, Officials
from whet.evidence.serving import map_bytes
from whet.evidence.task_findings import Notebook, TaskReport
from whet.protocol import Arrays, Case, Engine

# One more than are asked about: each has another answer beside it. So many must all pass, or it was chance.
SEEDS = 4
SECONDS = 60.0
MOST_BYTES = 1 << 30


class Questions:
    """The oracle in its own process. Inputs and answers come back as copies; nothing of the task runs here."""

    def __init__(self, officials: Officials, seed: int) -> None:
        self._officials, self._seed = officials, seed

    def ask(self, case: Case) -> tuple[Known, list[str], bool]:
        """The case, what the oracle wrote into, and whether it repeats itself. Known is empty for a case too large."""
        layout = self._officials.measure(
            case,
            fixed_seed=seeds.derive(self._seed, "fixed"),
            probe_seed=seeds.derive(self._seed, "probe"),
            slots=SEEDS,
        )
        sizes = [layout.fixed.size_bytes, layout.outputs.size_bytes, layout.inputs.size_bytes]
        if sum(sizes) > MOST_BYTES:
            return Known(case, [], []), [], True
        fds = [system.host().make_memory("task", size) for size in (*sizes, layout.outputs.size_bytes)]
        try:
            fixed, expected, inputs = (
                map_bytes(os.dup(fd), size, writeable=False) for fd, size in zip(fds, sizes, strict=False)
            )
            self._officials.map(layout, fds[0], fds[1], [(fds[2], fds[3])])
        finally:
            for fd in fds:
                os.close(fd)
        drawn = [seeds.derive(self._seed, "task", number) for number in range(SEEDS)]
        # Backwards first: what an oracle keeps between questions shows when they are asked in another order.
        self._officials.draw(drawn[::-1])
        changed = self._officials.written_by_oracle(list(range(SEEDS)))
        groups = layout.outputs.groups[:SEEDS]
        before = [_copied(buffers.views(expected, group)) for group in groups][::-1]
        self._officials.draw(drawn)
        self._officials.reveal(0, range(SEEDS))
        self._officials.expect(list(range(SEEDS)))
        after = [_copied(buffers.views(expected, group)) for group in groups]
        constant = buffers.views(fixed, layout.fixed.groups[0])
        given = [_copied({**constant, **buffers.views(inputs, group)}) for group in layout.inputs.groups[:SEEDS]]
        steady = all(same_bits(one, other) for one, other in zip(before, after, strict=True))
        return Known(case, given, after), changed, steady


def examine_task(
    engine: Engine,
    ref: str,
    *,
    seed: int,
    chosen: Sequence[Case] = (),
    seconds: float = SECONDS,
    call_limit_s: float = 60.0,
    show: Callable[[float, str], None] = lambda share, note: None,
) -> TaskReport:
    """Every case of the engine, or those `chosen`, within about so many seconds."""
    asked = sorted(chosen or every_case(engine), key=volume)
    notebook = Notebook(engine, asked)
    deadline = time.monotonic() + seconds
    left_out: list[Case] = []
    officials = Officials(ref, call_limit_s=call_limit_s)
    try:
        with closing(officials):
            officials.start()
            questions = Questions(officials, seed)
            smaller: dict[str, Known] = {}
            # The largest ones matter most, so time that runs out is missed in the middle.
            for number, case in enumerate(_ends_first(asked)):
                if time.monotonic() > deadline:
                    left_out.append(case)
                    continue
                show(number / len(asked), str(case))
                known, changed, steady = questions.ask(case)
                if not known.expected:
                    left_out.append(case)
                    continue
                notebook.oracle(case, changed, steady)
                before = smaller.get(case.profile)
                notebook.answers(known, before if before and volume(before.case) < volume(case) else None)
                if not notebook.is_edge(case):
                    smaller[case.profile] = known
    except OfficialLost as lost:
        raise lost.fault from None
    if not notebook.seen:
        raise BadInput("no case could be examined", cure="offer a case below 1 GB of inputs and outputs")
    return notebook.report(seed, left_out)


def every_case(engine: Engine) -> list[Case]:
    """The engine's own cases; a profile that they leave out is tried at the sizes of the largest."""
    own = list(engine.cases())
    largest = max(own, key=volume)
    missing = [name for name in engine.profiles() if name not in {case.profile for case in own}]
    return own + [Case(sizes=dict(largest.sizes), profile=profile) for profile in missing]


def _ends_first(cases: Sequence[Case]) -> list[Case]:
    """Smallest first, but the largest right after the first few."""
    return [*cases[:2], *cases[-1:], *cases[2:-1]] if len(cases) > 3 else list(cases)


def _copied(arrays: Arrays) -> Arrays:
    return {name: np.array(value) for name, value in arrays.items()}
