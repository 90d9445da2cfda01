"""Plain functions behind the engine's protocol.

`inputs` and `oracle` are called by the referee alone, a variant by its bench alone: the functions come from a source
that loads each when it is first asked for.
"""

from __future__ import annotations

import itertools
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec
import numpy as np

from whet.errors import BadInput, WhetError
from whet.functions.binding import CASE, INPUTS, OUT, OUTPUTS, Bound, asks_for, bind, name_of, takes_buffers
from whet.functions.values import is_number, lent, named_answer, named_inputs, out_of, store, unnamed
from whet.protocol import BY_DTYPE, Array, Arrays, Case, Engine, Output, Tolerance, Variant, VariantSpec

MOST_CASES = 1000
SHAPE_SEED = 0x5EED
DRAWN_FROM = ("seed", "rng")


class Offered(msgspec.Struct, frozen=True):
    """One variant on offer."""

    name: str
    summary: str = ""


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """All that can be said of a set of functions without loading one. `file` is where they were written."""

    name: str
    variants: list[Offered]
    sizes: dict[str, list[int]] = {}
    tolerance: Tolerance = BY_DTYPE
    file: str = ""
    cautions: list[str] = []


class Functions(Protocol):
    """Where the functions come from."""

    def inputs(self) -> Callable[..., Any]: ...
    def oracle(self) -> Callable[..., Any]: ...
    def variant(self, name: str) -> Callable[..., Any]: ...


class FunctionEngine(Engine):
    """An engine made of functions. Nothing of it is called before it is needed."""

    def __init__(self, about: Description, functions: Functions) -> None:
        self.name, self.tolerance = about.name, about.tolerance
        self._about, self._functions = about, functions
        self._shapes: dict[str, dict[str, tuple[int, ...]]] = {}
        # The oracle may be slow, and is asked for the shapes of a case each time that the case is opened.
        self._outputs: dict[str, dict[str, Output]] = {}

    @property
    def source(self) -> Path:
        return Path(self._about.file or self.name)

    def cautions(self) -> Sequence[str]:
        return self._about.cautions

    def cases(self) -> Sequence[Case]:
        axes = list(self._about.sizes)
        combined = itertools.islice(itertools.product(*self._about.sizes.values()), MOST_CASES)
        return [Case(sizes=dict(zip(axes, sizes, strict=True))) for sizes in combined]

    def variants(self) -> Sequence[VariantSpec]:
        return [VariantSpec(one.name, one.summary) for one in self._about.variants]

    def outputs(self, case: Case) -> Mapping[str, Output]:
        """As the oracle answers. Floats no wider than the widest float that goes in: oracles like to be exact."""
        if str(case) in self._outputs:
            return self._outputs[str(case)]
        given = self.prepare(case, SHAPE_SEED)
        before = {name: value.copy() for name, value in given.items()}
        answer = self._answer(case, given)
        for name, value in given.items():
            if value.tobytes() != before[name].tobytes():  # the flag does not stop C
                raise self._writes(name)
        widths = [value.dtype for name, value in given.items() if value.dtype.kind in "fc" and not is_number(name)]
        found = {name: Output(value.shape, _narrowed(value.dtype, widths)) for name, value in answer.items()}
        return self._outputs.setdefault(str(case), found)

    def prepare(self, case: Case, seed: int) -> dict[str, Array]:
        make = self._functions.inputs()
        label = f"{name_of(make) or 'inputs'}()"
        offered = {**case.sizes, "sizes": dict(case.sizes), CASE: case, "profile": case.profile, "seed": seed}
        bound = bind(make, label, [*offered, "rng"])
        if "rng" in bound.names:
            offered["rng"] = np.random.default_rng(seed)
        return named_inputs(self._called(label, lambda: bound.call(make, offered)), label)

    def setup(self, variant: Variant, case: Case, fixed: Arrays, device: str) -> Call:
        return Call(self._functions.variant(variant.name), f"{variant.name}()", case)

    def run(self, variant: Variant, state: Call, inputs: Arrays, outputs: Arrays) -> None:
        state(inputs, outputs)

    def oracle(self, case: Case, fixed_seed: int, seed: int, inputs: Arrays) -> dict[str, Array]:
        return self._answer(case, inputs)

    def _answer(self, case: Case, inputs: Arrays) -> dict[str, Array]:
        function = self._functions.oracle()
        label = f"{name_of(function) or 'oracle'}()"
        for buffer in inputs.values():
            buffer.flags.writeable = False
        values, _ = lent(inputs)
        offered = {**case.sizes, CASE: case, **values}
        bound = bind(function, label, [name for name in offered if not name.isdigit()], unnamed(values))
        answer = named_answer(self._called(label, lambda: bound.call(function, offered)), label)
        shapes = {name: value.shape for name, value in answer.items()}
        known = self._shapes.setdefault(str(case), shapes)
        if known != shapes:
            raise BadInput(
                f"the oracle's answer changes its shape with the seed: {_spelled(known)}, then {_spelled(shapes)}",
                cure="let shapes depend on the sizes alone; pad the answer, and return its length beside it",
            )
        return answer

    def _called(self, label: str, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except WhetError:
            raise
        except Exception as error:
            if isinstance(error, ValueError) and "read-only" in str(error):
                raise self._writes("") from error
            frames = traceback.extract_tb(error.__traceback__)
            where = f"{frames[-1].filename}:{frames[-1].lineno}"
            raise BadInput(
                f"{where}: {label} raised {type(error).__name__}: {error}", cure="mend it, or choose another size"
            ) from error

    def _writes(self, name: str) -> BadInput:
        label = f"{name_of(self._functions.oracle()) or 'oracle'}()"
        what = f"its input {name.partition(':')[0]!r}" if name and not name.isdigit() else "its inputs"
        return BadInput(f"the oracle {label} writes to {what}", cure="let it work on a copy: x = x.copy()")


class Call:
    """One variant on one case. Arguments are put together once for each set of buffers."""

    def __init__(self, function: Callable[..., Any], label: str, case: Case) -> None:
        self._function, self._label, self._case = function, label, case
        self._writes_out = asks_for(function, OUT)
        self._kept: dict[int, tuple[Arrays, Callable[[], Any]]] = {}
        # Reading a signature takes tens of microseconds; the untimed warm-up call has done it.
        self._bound: dict[tuple[str, ...], Bound] = {}

    def __call__(self, inputs: Arrays, outputs: Arrays) -> None:
        kept = self._kept.get(id(inputs))
        call = kept[1] if kept is not None and kept[0] is inputs else self._prepared(inputs, outputs)
        answer = call()
        if not self._writes_out:
            store(answer, outputs, self._label)

    def _prepared(self, inputs: Arrays, outputs: Arrays) -> Callable[[], Any]:
        function = self._function
        values, keep = lent(inputs)
        tensors = any(name.endswith(":torch") for name in inputs)
        offered = {**self._case.sizes, CASE: self._case, **values}
        if self._writes_out:
            offered[OUT] = out_of(outputs, tensors=tensors)
        names = tuple(offered)
        if names not in self._bound:
            named_ones = [name for name in names if not name.isdigit()]
            if takes_buffers(function, named_ones, unnamed(values)):
                self._writes_out = True
                self._bound[names] = Bound((INPUTS, OUTPUTS))
            else:
                self._bound[names] = bind(function, self._label, named_ones, unnamed(values))
        bound = self._bound[names]
        if bound.names == (INPUTS, OUTPUTS):
            offered |= {INPUTS: inputs if values.keys() == inputs.keys() else values, OUTPUTS: outputs}
        arguments = [offered[name] for name in bound.by_position]
        named = {name: offered[name] for name in bound.by_keyword}

        def call() -> Any:
            return function(*arguments, **named)

        if keep:
            self._kept[id(inputs)] = inputs, call
        return call


def _narrowed(dtype: np.dtype[Any], inputs: Sequence[np.dtype[Any]]) -> np.dtype[Any]:
    """A float64 answer to float32 inputs is a float32 one, exactly known."""
    if dtype.kind not in "fc" or not inputs:
        return dtype
    width = max(one.itemsize // (2 if one.kind == "c" else 1) for one in inputs) * (2 if dtype.kind == "c" else 1)
    return np.dtype(f"{dtype.kind}{width}") if width < dtype.itemsize else dtype


def _spelled(shapes: Mapping[str, tuple[int, ...]]) -> str:
    return ", ".join(f"{name} {shape}" for name, shape in shapes.items())
