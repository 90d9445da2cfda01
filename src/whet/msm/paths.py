"""The ways into the fast engine other than a prepared call, for the gate: the knob `path` of `affine` there.

Each gives one answer to the scalars of a case, so the oracle that judges prepared calls judges these as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from whet.msm.affine import Event, Progress
from whet.msm.api import msm
from whet.msm.inputs import to_ints, to_limbs
from whet.msm.point import Point, R
from whet.msm.validate import Limbs
from whet.msm.variants import TABLE, AffineSums, Answer, Prepared, prepare
from whet.protocol import Knob, KnobValue, Variant, VariantSpec

PATH = Knob("path", "prepared", choices=("prepared", "one-shot", "batch"), help="how the sum is asked for")


class OneShot:
    """A call of `msm` each time: nothing is prepared. Points are read and checked anew."""

    def __init__(self, points: Limbs, backend: str, threads: int | None) -> None:
        self._points = points
        self._backend, self._threads = backend, threads

    def compute(
        self, scalars: Limbs, offset: int, *, cancel: Event | None = None, progress: Progress | None = None
    ) -> Answer:
        points = self._points[offset : offset + len(scalars)]
        got = msm(points, scalars, points_montgomery=True, backend=self._backend, threads=self._threads)
        return Answer(np.frombuffer(got.to_bytes(), np.uint64))

    def close(self) -> None:
        pass


class Batched:
    """Five sums in one batch, one of them over nothing but zeros, whose weighted total is the sum asked for.

    Weights are 1, 2, 4, 8, 16 by position: an answer that is wrong, missing or another's makes the total wrong. The
    vectors that matter are the scalars as they are, whole and every other one; the first makes up the rest.
    """

    def __init__(self, sums: AffineSums) -> None:
        self._sums = sums

    def compute(
        self, scalars: Limbs, offset: int, *, cancel: Event | None = None, progress: Progress | None = None
    ) -> Answer:
        answers = self._sums.batch(cut(scalars), offset)
        return Answer(np.frombuffer(weighted_total(answers).to_bytes(), np.uint64))

    def close(self) -> None:
        self._sums.close()


def cut(scalars: Limbs) -> list[Limbs]:
    """Five vectors v with v0 + 2 v1 + 4 v2 + 8 v3 + 16 v4 = scalars modulo r."""
    even, odd, zeros = scalars.copy(), scalars.copy(), np.zeros_like(scalars)
    even[1::2], odd[::2] = 0, 0
    # What twice the odd ones, four times all and 16 times the even ones leave.
    rest = [(1 - 4 - (2 if i % 2 else 16)) * s % R for i, s in enumerate(to_ints(scalars))]
    return [to_limbs(rest), odd, scalars, zeros, even]


def weighted_total(answers: list[Answer]) -> Point:
    """The sum of 2^i answers[i], by additions of `Point`, which has no code in common with the engine."""
    total = Point.infinity()
    for answer in reversed(answers):
        total = total + total + Point.from_bytes(answer.limbs.tobytes())
    return total


def gate_spec(spec: VariantSpec) -> VariantSpec:
    """A variant as the gate offers it."""
    return replace(spec, knobs=(*spec.knobs, PATH), constraint=_constraint) if spec.name == "affine" else spec


def _constraint(knobs: Mapping[str, KnobValue]) -> str | None:
    """A call that prepares nothing has nothing for these to act on."""
    defaults = {knob.name: knob.default for knob in TABLE["affine"].spec.knobs}
    given = [name for name in ("windows", "memory_budget", "precompute") if knobs[name] != defaults[name]]
    return f"path=one-shot has no {given[0]}" if knobs[PATH.name] == "one-shot" and given else None


def prepare_path(variant: Variant, points: Limbs) -> Prepared:
    """Points in Montgomery form to something that computes, by the path that the variant names."""
    path = variant.knobs.get(PATH.name, PATH.default)
    if path == "one-shot":
        return OneShot(points, str(variant.knobs.get("backend", "auto")), int(variant.knobs.get("threads", 0)) or None)
    prepared = prepare(variant, points)
    return Batched(prepared) if path == "batch" and isinstance(prepared, AffineSums) else prepared
