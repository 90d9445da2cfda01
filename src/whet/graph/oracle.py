"""What the workloads with real bodies must give: the same answers by numpy and LAPACK, in double precision."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from whet.errors import Unsupported
from whet.graph.batch import Dependencies
from whet.graph.computations import (
    Computation,
    batched_product,
    from_bfloat16,
    paged_attention,
    tiled_cholesky,
    untile_lower,
)
from whet.graph.workloads import attention, matrix
from whet.graph.workloads.workload import Workload

Doubles = npt.NDArray[np.float64]

# The probabilities are rounded to bfloat16 (8 bits): that is the whole error to expect.
ATTENTION_TOLERANCE = 2e-3
PRODUCT_TOLERANCE = 1e-4
CHOLESKY_TOLERANCE = 1e-10


@dataclass(frozen=True)
class Checkable:
    """A computation, the answer it must give, and how near."""

    computation: Computation
    expected: Doubles
    tolerance: float
    answer: Callable[[], npt.NDArray[Any]]

    def distance(self) -> float:
        """The largest error over the largest number of the answer; infinite where something is not finite."""
        got = self.answer().astype(np.float64)
        if not np.isfinite(got).all():
            return float("inf")
        return float(np.abs(got - self.expected).max() / max(1.0, np.abs(self.expected).max()))


def checkable(work: Workload, *, seed: int, dependencies: Dependencies) -> Checkable:
    """The workload with real bodies on drawn inputs, beside its answer."""
    if work.kinds == attention.KINDS:
        done = paged_attention(work, seed=seed)
        wanted = attention_by_numpy(done.inputs, work.parameters["context"])
        return Checkable(done, wanted, ATTENTION_TOLERANCE, lambda: done.answer)
    if work.kinds == ("gemm", "add"):
        done = batched_product(work, seed=seed)
        wanted = (done.inputs["a"].astype(np.float64) @ done.inputs["b"].astype(np.float64)).sum(axis=1)
        return Checkable(done, wanted, PRODUCT_TOLERANCE, lambda: done.answer)
    if work.kinds == matrix.CHOLESKY_KINDS:
        side = work.parameters["tiles"] * work.parameters["tile"]
        root = np.random.default_rng(seed).standard_normal((side, side))
        positive = root @ root.T + side * np.eye(side)
        done = tiled_cholesky(work, positive, dependencies=dependencies)
        wanted = np.linalg.cholesky(positive).astype(np.float64)
        return Checkable(done, wanted, CHOLESKY_TOLERANCE, lambda: untile_lower(done.answer))
    raise Unsupported(
        f"{work.name} has no bodies that compute", cure="pa:…, bgemm:… and cholesky do; leave --bodies out"
    )


def attention_by_numpy(inputs: dict[str, npt.NDArray[Any]], context: int) -> Doubles:
    """Plain softmax over the gathered context."""
    query, keys, values = (from_bfloat16(inputs[name]).astype(np.float64) for name in ("query", "keys", "values"))
    answer = []
    for sequence, blocks in enumerate(inputs["table"]):
        k = keys[blocks].reshape(-1, keys.shape[-1])[:context]
        v = values[blocks].reshape(-1, values.shape[-1])[:context]
        scores = query[sequence] @ k.T
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        answer.append(weights @ v / weights.sum(axis=1, keepdims=True))
    return np.array(answer)
