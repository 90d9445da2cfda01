"""What the decode tests on a GPU share: the distance that is allowed, and a step held against float64."""

from __future__ import annotations

import numpy as np

from whet.decode.oracle import LEAST_HIDDEN, MAX_ULP, accuracy, reference


def distance_ulp(trial, result):
    """From float64, in ULP; infinite where anything is not finite, zero for layers that float64 does not judge."""
    if not np.isfinite(result.out).all():
        return np.inf
    if trial.shape.hidden < LEAST_HIDDEN:
        return 0.0
    want = reference(trial.shape, trial.matrices, trial.norms, **trial.inputs())
    return accuracy(result.out, want).max_ulp


def run_on(device, trial, schedule=None, *, timed=False):
    layer = trial.layer(device=device)
    try:
        return trial.run(layer, schedule, timed=timed)
    finally:
        layer.close()


def close_to(got, want, ulp=MAX_ULP):
    """Element by element, at the size of the element or of the whole."""
    size = np.maximum(np.abs(want), np.sqrt(np.mean(want.astype(np.float64) ** 2)) if want.size else 0.0)
    return bool((np.abs(got - want) <= ulp * np.spacing(size.astype(np.float32))).all())
