"""Cases that an engine makes to break its variants, by the thousand: small, ready-made, each with its answer.

They run in this process, because a process of its own for each would cost more than the case; nothing is timed.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from whet.errors import Cancelled
from whet.evidence.agreement import disagreement
from whet.evidence.gate import Plan
from whet.evidence.record import Failure, Gate
from whet.protocol import Engine, HardCase, Variant

POISON = 0xA5


@dataclass
class _Standing:
    variant: Variant
    checks: int = 0
    failure: Failure | None = None


def examine_hard(
    plan: Plan, gates: Sequence[Gate], numbers: range, show: Callable[[float, str], None]
) -> tuple[list[Gate], dict[str, int]]:
    """Puts every variant that is not red yet through the hard cases `numbers`; counts the cases by kind.

    Returns the gates with what was found added to them. A variant that fails is left out of the rest.
    """
    known = {gate.variant: gate for gate in gates}
    standings = [_Standing(v) for v in plan.variants if str(v) not in known or known[str(v)].green]
    kinds: Counter[str] = Counter()
    if not standings:
        return list(gates), {}
    try:
        for done, hard in enumerate(plan.engine.hard_cases(plan.seed, numbers)):
            for standing in standings:
                if standing.failure is None:
                    standing.checks += 1
                    standing.failure = _failure(plan, standing.variant, hard)
            kinds[hard.kind] += 1
            if all(standing.failure for standing in standings):
                break
            show(done / len(numbers), f"{hard.number:,} {hard.kind}")
    except KeyboardInterrupt:
        red = sum(standing.failure is not None for standing in standings)
        raise Cancelled(
            f"interrupted after {kinds.total():,} hard cases; {red} of {len(standings)} variants were red",
            cure=f"go on with --seed {plan.seed} --from {numbers.start + kinds.total()}",
        ) from None
    if kinds:
        known |= {str(one.variant): _merged(known.get(str(one.variant)), one) for one in standings}
    return [known[str(variant)] for variant in plan.variants if str(variant) in known], dict(sorted(kinds.items()))


def _merged(before: Gate | None, standing: _Standing) -> Gate:
    gate = before or Gate(variant=str(standing.variant), green=True, full_checks=0, digest_checks=0)
    return msgspec.structs.replace(
        gate,
        green=standing.failure is None,
        full_checks=gate.full_checks + standing.checks,
        failure=standing.failure,
    )


def _failure(plan: Plan, variant: Variant, hard: HardCase) -> Failure | None:
    reason, detail, expected, got = "", "", {}, {}
    try:
        outputs = _run(plan.engine, variant, hard, plan.device)
    except Exception as error:
        reason, detail = "raised", f"{type(error).__name__}: {error}"
    else:
        for name, output in outputs.items():
            if found := disagreement(name, output, np.asarray(hard.expected[name]), plan.engine.tolerance):
                reason, detail, expected, got = found.reason, found.detail, found.expected, found.got
                break
        if not reason:
            return None
    again = ["whet", "check", plan.ref, str(variant), "--seed", str(plan.seed), "--hard-case", str(hard.number)]
    return Failure(
        reason=reason,
        detail=f"hard case {hard.number} ({hard.kind}): {detail}",
        case=hard.case,
        seed=plan.seed,
        fixed_seed=plan.seed,
        command=shlex.join(again),
        expected=expected,
        got=got,
    )


def _run(engine: Engine, variant: Variant, hard: HardCase, device: str) -> dict[str, np.ndarray]:
    outputs = {}
    for name, wanted in engine.outputs(hard.case).items():
        outputs[name] = np.empty(wanted.shape, wanted.dtype)
        outputs[name].reshape(-1).view(np.uint8)[:] = POISON
    state = engine.setup(variant, hard.case, hard.fixed, device)
    try:
        engine.run(variant, state, hard.inputs, outputs)
    finally:
        engine.close(state)
    return outputs
