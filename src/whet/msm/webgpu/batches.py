"""What a memory budget does to a sum on a GPU: batches over the windows, scalars in slices, points in pieces."""

from __future__ import annotations

from dataclasses import replace

from whet.errors import BadInput, DeviceOutOfMemory
from whet.msm.options import within
from whet.msm.webgpu.estimate import MODEL
from whet.msm.webgpu.frontier import Point
from whet.msm.webgpu.kernels import render
from whet.msm.webgpu.knobs import COMPRESSED, SPECS, Choice
from whet.msm.webgpu.pieces import map_of, place, whole_frontier
from whet.msm.webgpu.request import Request
from whet.protocol import BudgetFrontier, BudgetStep, Kernels, KernelSource, Variant, choose_variant

DEFAULT = "walker"
MEASURED_STEPS = 4


def gpu_frontier(text: str | None, n: int, budget_bytes: int | None) -> BudgetFrontier:
    """From the closed-form map alone: no device is asked."""
    chosen = _chosen(text)
    request = Request(n, Choice.of(chosen.name, chosen.knobs), n, memory_budget=budget_bytes)
    points = whole_frontier(request)
    try:
        placement = place(request)
    except DeviceOutOfMemory as error:
        raise BadInput(error.cause, cure=error.cure) from error
    return BudgetFrontier(
        variant=str(chosen),
        n=n,
        rows=map_of(request),
        chosen=_step(placement.point),
        steps=_worth_timing([_step(one) for one in points], chosen),
        floor_bytes=min(one.total_bytes for one in points),
        model=MODEL,
    )


def _step(point: Point) -> BudgetStep:
    several = "es" if point.batches > 1 else ""
    words = f"{point.batches} batch{several}, scalars {'sliced' if point.sliced else 'whole'}"
    if point.points == COMPRESSED:
        words = f"x and signs stay, y in {point.pieces} piece{'s' if point.pieces > 1 else ''}, each {words}"
    elif point.pieces > 1:
        words = f"points in {point.pieces} pieces, each {words}"
    facts = {
        "pieces": point.pieces,
        "compressed": point.points == COMPRESSED,
        "batches": point.batches,
        "scalars_sliced": point.sliced,
        "passes": point.passes,
    }
    return BudgetStep(point.total_bytes, words, facts | {"estimated_ns": round(point.estimated_ns)})


def _worth_timing(steps: list[BudgetStep], variant: Variant) -> list[BudgetStep]:
    """A few of them, first and last among them, get the variant that runs like that."""
    last = len(steps) - 1
    timed = {*range(0, last, max(1, last // (MEASURED_STEPS - 1))), last}
    return [
        replace(step, variant=within(variant, step.total_bytes)) if number in timed else step
        for number, step in enumerate(steps)
    ]


def gpu_kernels(text: str | None) -> Kernels:
    """Every pass of a variant, rendered as a device would get it."""
    chosen = _chosen(text)
    rendered = render(Choice.of(chosen.name, chosen.knobs), chosen.knobs.get("multiply") == "wide", None)
    passes = {name: KernelSource(one.kernel.source, one.kernel.entry) for name, one in rendered.items()}
    return Kernels(str(chosen), passes)


def _chosen(text: str | None) -> Variant:
    return choose_variant("msm on a GPU", list(SPECS.values()), text or DEFAULT)
