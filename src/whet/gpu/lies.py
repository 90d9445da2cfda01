"""A driver that answers wrongly without an error, for tests: work that is not done, memory that is not what it was.

A lie is told once, in the next submission or write after it was planned. The choice of where hangs on the generator
that it is given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from whet.errors import BadInput
from whet.gpu.assembler import PROBES
from whet.gpu.program import Clear, Kernel, Pass, Span, Step

LIES = ("dropped dispatch", "stale buffer", "wrong limb")
STALE_WRITES = 4  # of this many writes and clears one is not done


class Liar:
    """One lie. `told` says what was done, empty until then."""

    def __init__(self, kind: str, rng: np.random.Generator) -> None:
        if kind not in LIES:
            raise BadInput(f"no lie {kind!r}", cure=f"lies: {', '.join(LIES)}")
        self.told = ""
        self._kind = kind
        self._rng = rng
        self._before_stale = int(rng.integers(STALE_WRITES))

    def drops_write(self, name: str) -> bool:
        """Whether this write is the one that is not done."""
        if self.told or self._kind != "stale buffer":
            return False
        self._before_stale -= 1
        if self._before_stale >= 0:
            return False
        self.told = f"{name} was not written"
        return True

    def bent(self, steps: Sequence[Step], sizes: Mapping[str, int]) -> Sequence[Step]:
        """The steps as this driver does them; `sizes` are the bytes of every buffer."""
        passes = [i for i, step in enumerate(steps) if isinstance(step, Pass)]
        if self.told or not passes:
            return steps
        if self._kind == "stale buffer":
            return [step for step in steps if not (isinstance(step, Clear) and self.drops_write(step.buffer))]
        at = int(self._rng.choice(passes))
        chosen = steps[at]
        assert isinstance(chosen, Pass)
        if self._kind == "dropped dispatch":
            self.told = f"{chosen.name} was not run"
            return [*steps[:at], replace(chosen, workgroups=(0, 0, 0), indirect=None), *steps[at + 1 :]]
        whole = [binding for binding in chosen.bindings if not isinstance(binding, Span)]
        target = str(self._rng.choice(whole))
        return [*steps[: at + 1], self._wrong_limb(target, sizes[target] // 4, chosen.name), *steps[at + 1 :]]

    def _wrong_limb(self, target: str, words: int, after: str) -> Pass:
        """Flips one bit of one word, or as likely any of them."""
        word = int(self._rng.integers(words))
        mask = int(self._rng.choice([1 << int(self._rng.integers(32)), int(self._rng.integers(1, 2**32))]))
        self.told = f"word {word:,} of {target} was changed by {mask:#x} after {after}"
        kernel = Kernel.of(PROBES.assemble("wrong_limb"), "wrong_limb", (("word", word), ("mask", mask)))
        return Pass("wrong_limb", kernel, (target,), (1, 1, 1))
