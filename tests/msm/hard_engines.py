"""Engines that go wrong on hard cases, each in its own way; loaded by `file:class`, in benches too."""

from __future__ import annotations

import os
import signal
import time

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
