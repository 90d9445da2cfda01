"""Cases that an engine makes to break its variants, by the thousand: small, ready-made, each with its answer.

Every variant has a process of its own for all of them, which sees inputs and never an answer; nothing is timed.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, suppress
from typing import Any

import msgspec
import numpy as np

from whet.errors import Cancelled
from whet.evidence.agreement import disagreement
from whet.evidence.buffers import packed, poison_word
from whet.evidence.claims import Red
from whet.evidence.gate import Plan
from whet.evidence.processes import ProcessEnded, ProcessSilent, Worker
from whet.evidence.record import Failure, Gate
from whet.protocol import HardCase, Variant


class _Standing:
    """One variant's process, and what it came to."""

    def __init__(self, plan: Plan, variant: Variant) -> None:
        self.plan, self.variant = plan, variant
        self.checks = 0
        self.failure: Failure | None = None
        self._worker = Worker("whet.evidence.bench", [])
        self._worker.post("load", ref=plan.ref, variant=msgspec.to_builtins(variant), device=plan.device)

    def loaded(self) -> None:
        self._worker.loaded()

    def post(self, request: dict[str, Any]) -> None:
        with suppress(ProcessEnded):  # the answer will say so
            self._worker.post("attempt", **request)

    def judge(self, hard: HardCase) -> None:
        """Hears the answer to the last post; a red variant's process is ended."""
        self.checks += 1
        try:
            answer = self._worker.answer(self.plan.call_limit_s)
            red = _wrong(self.plan, hard, answer)
        except (ProcessEnded, ProcessSilent) as error:
            red = Red(error.reason, str(error))
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
                request = _request(hard)
                for standing in alive:
                    standing.post(request)
                for standing in alive:
                    standing.judge(hard)
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


def _request(hard: HardCase) -> dict[str, Any]:
    return {
        "case": msgspec.to_builtins(hard.case),
        "fixed": packed(hard.fixed),
        "inputs": packed(hard.inputs),
        "poison": poison_word(hard.number),
    }


def _merged(before: Gate | None, standing: _Standing) -> Gate:
    gate = before or Gate(variant=str(standing.variant), green=True, full_checks=0, digest_checks=0)
    return msgspec.structs.replace(
        gate,
        green=standing.failure is None,
        full_checks=gate.full_checks + standing.checks,
        failure=standing.failure,
    )


def _wrong(plan: Plan, hard: HardCase, answer: dict[str, Any]) -> Red | None:
    """What is wrong with an answer; the process that gave it is not to be trusted."""
    if "raised" in answer:
        return Red("raised", str(answer["raised"]))
    for name, wanted in plan.engine.outputs(hard.case).items():
        try:
            output = np.frombuffer(answer["outputs"][name], wanted.dtype).reshape(wanted.shape)
        except (KeyError, TypeError, ValueError) as error:
            return Red("garbled answer", f"the variant's process answered with nonsense: {error}")
        allowed = hard.tolerance or plan.engine.tolerance
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
