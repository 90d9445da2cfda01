"""Cases that an engine makes to break its variants, by the thousand: small, ready-made, each with its answer.

Every variant has a process of its own for all of them, which sees inputs and never an answer; nothing is timed.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, suppress
from random import Random

import msgspec
import numpy as np

from whet.errors import Cancelled, WhetError
from whet.evidence.agreement import disagreement
from whet.evidence.buffers import Arena, broken_guard, lay_out, packed, poison_word, views
from whet.evidence.messages import Attempt, Attempted, Load, Raised
from whet.evidence.readings import Red
from whet.evidence.record import Failure, Gate
from whet.evidence.rig import Plan
from whet.evidence.worker import Faults, ProcessEnded, Worker
from whet.protocol import HardCase, Variant


class _Standing:
    """One variant's process, and what it came to."""

    def __init__(self, plan: Plan, variant: Variant) -> None:
        self.plan, self.variant = plan, variant
        self.checks = 0
        self.failure: Failure | None = None
        self._worker = Worker("bench")
        self._worker.post(
            Load(
                ref="" if variant.file else plan.ref,
                variant=variant,
                device=plan.device,
                tree=plan.trees.get(variant.revision),
            )
        )

    def loaded(self) -> None:
        self._worker.greet()
        self._worker.loaded()

    def post(self, request: Attempt) -> None:
        with suppress(ProcessEnded):  # the answer will say so
            self._worker.post(request)

    def judge(self, hard: HardCase, arena: Arena) -> None:
        """Hears the answer to the last post; a red variant's process is ended."""
        self.checks += 1
        try:
            answer = self._worker.answer(self.plan.call_limit_s)
            if isinstance(answer, Raised):
                red: Red | None = Red("raised", answer.text)
            else:
                red = _wrong(self.plan, hard, arena, self._worker.must_be(Attempted, answer))
        except Faults as error:
            red = Red(error.reason, str(error))
        except WhetError as error:
            red = Red("device failed", str(error))
        if red:
            self.failure = _failure(self.plan, self.variant, hard, red)
            self.close()

    def close(self) -> None:
        self._worker.close()


def examine_hard(
    plan: Plan, gates: Sequence[Gate], numbers: range, show: Callable[[float, str], None]
) -> tuple[list[Gate], dict[str, int]]:
    """Puts every variant that is not red yet through the hard cases `numbers`; counts the cases by kind.

    Returns the gates with what was found added to them. A variant that fails is left out of the rest.
    """
    known = {gate.variant: gate for gate in gates}
    chosen = [v for v in plan.variants if str(v) not in known or known[str(v)].green]
    if not chosen or not numbers:
        return list(gates), {}
    kinds: Counter[str] = Counter()
    standings: list[_Standing] = []
    with ExitStack() as stack:
        try:
            for variant in chosen:
                standings.append(stack.enter_context(closing(_Standing(plan, variant))))
            for standing in standings:
                standing.loaded()
            for done, hard in enumerate(plan.engine.hard_cases(plan.seed, numbers)):
                alive = [standing for standing in standings if standing.failure is None]
                if not alive:
                    break
                request = _request(plan, hard)
                for standing in alive:
                    standing.post(request)
                for standing in alive:
                    standing.judge(hard, request.outputs)
                kinds[hard.kind] += 1
                show(done / len(numbers), f"{hard.number:,} {hard.kind}")
        except KeyboardInterrupt:
            red = sum(standing.failure is not None for standing in standings)
            raise Cancelled(
                f"interrupted after {kinds.total():,} hard cases; {red} of {len(chosen)} variants were red",
                cure=f"go on with --seed {plan.seed} --from {numbers.start + kinds.total()}",
            ) from None
    if kinds:
        known |= {str(one.variant): _merged(known.get(str(one.variant)), one) for one in standings}
    return [known[str(variant)] for variant in plan.variants if str(variant) in known], dict(sorted(kinds.items()))


def _request(plan: Plan, hard: HardCase) -> Attempt:
    return Attempt(
        case=hard.case,
        fixed=packed(hard.fixed),
        inputs=packed(hard.inputs),
        outputs=lay_out([plan.engine.outputs(hard.case)]),
        poison=poison_word(Random(hard.number)),
    )


def _merged(before: Gate | None, standing: _Standing) -> Gate:
    gate = before or Gate(variant=str(standing.variant), green=True, full_checks=0, digest_checks=0)
    return msgspec.structs.replace(
        gate,
        green=standing.failure is None,
        full_checks=gate.full_checks + standing.checks,
        failure=standing.failure,
    )


def _wrong(plan: Plan, hard: HardCase, arena: Arena, answer: Attempted) -> Red | None:
    """What is wrong with an answer; the process that gave it is not to be trusted."""
    if len(answer.arena) != arena.size_bytes:
        return Red("garbled answer", f"{len(answer.arena):,} bytes came back, not {arena.size_bytes:,}")
    memory = np.frombuffer(answer.arena, np.uint8)
    if broken := broken_guard(memory, arena):
        return Red("out of bounds", f"the variant wrote over {broken}")
    allowed = hard.tolerance or plan.engine.tolerance
    for name, output in views(memory, arena.groups[0]).items():
        if found := disagreement(name, output, np.asarray(hard.expected[name]), allowed):
            return Red(found.reason, found.detail, expected=found.expected, got=found.got)
    return None


def _failure(plan: Plan, variant: Variant, hard: HardCase, red: Red) -> Failure:
    again = ["whet", "check", plan.ref, str(variant), "--seed", str(plan.seed), "--hard-case", str(hard.number)]
    return Failure(
        reason=red.reason,
        detail=f"hard case {hard.number} ({hard.kind}): {red.detail}",
        case=hard.case,
        seed=plan.seed,
        fixed_seed=plan.seed,
        command=shlex.join(again),
        expected=red.expected,
        got=red.got,
    )
