"""What a memory budget does to a sum on a GPU: batches over the windows, then scalars in slices."""

from __future__ import annotations

import time

from whet._native import curve
from whet.errors import BadInput, DeviceOutOfMemory
from whet.msm import inputs
from whet.msm.oracle import known_multiples, require_right
from whet.msm.webgpu.estimate import MODEL
from whet.msm.webgpu.frontier import Point, at, frontier
from whet.msm.webgpu.kernels import render
from whet.msm.webgpu.knobs import SPECS, Choice
from whet.msm.webgpu.memory import fit, memory_map
from whet.msm.webgpu.request import Request
from whet.protocol import BudgetFrontier, BudgetStep, Kernels, KernelSource, Variant, choose_variant

DEFAULT = "walker"
MEASURED_STEPS = 4
REPEATS = 3


def gpu_frontier(text: str | None, n: int, budget_bytes: int | None) -> BudgetFrontier:
    """From the closed-form map alone: no device is asked."""
    chosen = _chosen(text)
    request = Request(n, Choice.of(chosen.name, chosen.knobs), n, memory_budget=budget_bytes)
    points = frontier(request)
    try:
        point = at(request, fit(request))
    except DeviceOutOfMemory as error:
        raise BadInput(error.cause, cure=error.cure) from error
    return BudgetFrontier(
        variant=str(chosen),
        n=n,
        rows=memory_map(n, request.choice, memory_budget=budget_bytes),
        chosen=_step(point),
        steps=[_step(one) for one in points],
        floor_bytes=min(one.total_bytes for one in points),
        model=MODEL,
    )


def _step(point: Point) -> BudgetStep:
    several = "es" if point.batches > 1 else ""
    words = f"{point.batches} batch{several}, scalars {'sliced' if point.sliced else 'whole'}"
    facts = {"batches": point.batches, "scalars_sliced": point.sliced, "passes": point.passes}
    return BudgetStep(point.total_bytes, words, facts | {"estimated_ns": round(point.estimated_ns)})


def measure_gpu_frontier(made: BudgetFrontier) -> list[int | None]:
    """The best of three calls at a few steps, first and last among them; None at the others.

    Each call has fresh scalars and its sum is checked; one that is wrong and there are no times.
    """
    from whet.msm.api import Engine

    logs = inputs.logs("random", made.n, 1)
    table, known = curve.write_points(inputs.points_from_logs(logs)), inputs.to_ints(logs)
    vectors = [inputs.scalars("random", made.n, 2 + repeat) for repeat in range(REPEATS)]
    expected = [known_multiples(known, inputs.to_ints(scalars)) for scalars in vectors]
    last = len(made.steps) - 1
    every = max(1, last // (MEASURED_STEPS - 1))
    taken: list[int | None] = [None] * len(made.steps)
    for number in {*range(0, last, every), last}:
        budget = made.steps[number].total_bytes
        with Engine(table, check=False, device="webgpu", variant=made.variant, memory_budget=budget) as sums:
            sums.compute(vectors[0])
            spent = []
            for scalars, right in zip(vectors, expected, strict=True):
                start = time.monotonic_ns()
                answer = sums.compute(scalars)
                spent.append(time.monotonic_ns() - start)
                require_right(answer, right, f"{made.variant} within {budget} bytes")
        taken[number] = min(spent)
    return taken


def gpu_kernels(text: str | None) -> Kernels:
    """Every pass of a variant, rendered as a device would get it."""
    chosen = _chosen(text)
    rendered = render(Choice.of(chosen.name, chosen.knobs), chosen.knobs.get("multiply") == "wide", None)
    passes = {name: KernelSource(one.kernel.source, one.kernel.entry) for name, one in rendered.items()}
    return Kernels(str(chosen), passes)


def _chosen(text: str | None) -> Variant:
    return choose_variant("msm on a GPU", list(SPECS.values()), text or DEFAULT)
