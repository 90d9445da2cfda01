"""Engines that go wrong on hard cases, each in its own way; loaded by `file:class`, in benches too."""

from __future__ import annotations

import os
import signal
import time

from whet._native import msm as native

from whet.msm import affine, variants
from whet.msm.engine import MsmEngine


class Forgetful(MsmEngine):
    """Wrong exactly when there is more than one point: it forgets the last."""

    def run(self, variant, state, inputs, outputs):
        scalars = inputs["scalars"].copy()
        if len(scalars) > 1:
            scalars[-1] = 0
        super().run(variant, state, {**inputs, "scalars": scalars}, outputs)


class Raises(MsmEngine):
    def run(self, variant, state, inputs, outputs):
        raise RuntimeError("no sum today")


class Lazy(MsmEngine):
    """Writes nothing: the poison in the output must not pass for an answer."""

    def run(self, variant, state, inputs, outputs):
        pass


class Crashes(MsmEngine):
    """A stray pointer in native code, as the parent sees it; in one of the variants."""

    def run(self, variant, state, inputs, outputs):
        if variant.name == "pippenger" and len(inputs["scalars"]) > 1:
            os.kill(os.getpid(), signal.SIGSEGV)
        super().run(variant, state, inputs, outputs)


class Sleeps(MsmEngine):
    def run(self, variant, state, inputs, outputs):
        time.sleep(60)


class Scribbles(MsmEngine):
    """Would make its inputs agree with its answer."""

    def run(self, variant, state, inputs, outputs):
        inputs["scalars"][...] = 0
        super().run(variant, state, inputs, outputs)


class Planted(MsmEngine):
    """A fault beneath one path into the fast engine, set before anything is prepared. The others stay right."""

    def setup(self, variant, case, fixed, device):
        self.plant()
        return super().setup(variant, case, fixed, device)


class OneShotLosesAPoint(Planted):
    """Where nothing is prepared, the last of a few points does not count."""

    small_sum = staticmethod(native.small_sum)

    def plant(self):
        native.small_sum = lambda points, scalars, kernel: self.small_sum(points[:-1], scalars[:-1], kernel)


class BatchMixesAnswers(Planted):
    """Two neighbours of a batch get each other's answer."""

    batch = variants.AffineSums.batch

    def plant(self):
        def mixed(sums, vectors, offset):
            first, second, *rest = type(self).batch(sums, vectors, offset)
            return [second, first, *rest]

        variants.AffineSums.batch = mixed


class BatchLosesASum(Planted):
    """The last sum of a batch is forgotten: infinity."""

    batch = variants.AffineSums.batch

    def plant(self):
        def forgetful(sums, vectors, offset):
            return type(self).batch(sums, [*vectors[:-1], vectors[-1] * 0], offset)

        variants.AffineSums.batch = forgetful


class MultiplesLackAPoint(Planted):
    """Where multiples are kept, the last point is taken for infinity."""

    prepared = staticmethod(affine.Affine.prepared)

    def plant(self):
        def lacking(points, backend, threads, windows, precompute):
            if precompute > 1:
                points = points.copy()
                points[-1:] = 0
            return self.prepared(points, backend, threads, windows, precompute)

        affine.Affine.prepared = staticmethod(lacking)
