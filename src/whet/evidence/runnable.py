"""One variant as a bench runs it: a variant of the task, a candidate from a file of its own, or nothing at all."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import msgspec
import numpy as np

from whet.errors import BadInput, DeviceError, Unsupported
from whet.evidence.messages import Described, Load
from whet.evidence.registry import import_file, load
from whet.evidence.revision_path import moved, take_modules_from
from whet.functions.engine import Call
from whet.protocol import Array, Arrays, Case, Engine, PortableProgram, Timing, Variant


class Runnable(Protocol):
    """What a bench needs. `source` is the file that is named when something in it raises."""

    source: Path

    def setup(self, case: Case, fixed: Arrays) -> Any: ...
    def run(self, state: Any, inputs: Arrays, outputs: Arrays) -> None: ...
    def timing(self, state: Any) -> Timing | None: ...
    def close(self, state: Any) -> None: ...


class TaskVariant:
    """A variant that the task's own file offers."""

    def __init__(self, engine: Engine, variant: Variant, device: str) -> None:
        self._engine, self._variant, self._device = engine, variant, device
        self.source = engine.source
        call = engine.run

        def run(state: Any, inputs: Arrays, outputs: Arrays) -> None:
            call(variant, state, inputs, outputs)

        self.run = run

    def setup(self, case: Case, fixed: Arrays) -> Any:
        return self._engine.setup(self._variant, case, fixed, self._device)

    def timing(self, state: Any) -> Timing | None:
        return self._engine.timing(state)

    def close(self, state: Any) -> None:
        self._engine.close(state)


class Portable:
    """A variant of the task whose program runs elsewhere: here it is described, fed and finished."""

    def __init__(self, engine: Engine, variant: Variant) -> None:
        self._engine, self._variant = engine, variant
        self.source = engine.source

    def setup(self, case: Case, fixed: Arrays) -> PortableProgram:
        return self._engine.portable(self._variant, case, fixed)

    def describe(self, work: PortableProgram, warm: Arrays) -> Described:
        """The program without the bytes of its buffers, and those by name: what stays, and a call to warm up on."""
        from whet.gpu.portable import encode

        fed, parts = self._fed(work, warm), dict[str, bytes]()

        def keep(data: Array) -> str:
            parts[key := str(len(parts))] = np.ascontiguousarray(data).tobytes()
            return key

        request = encode(work.program, {**work.kept, **fed}, list(work.outputs), carry=keep)
        named = {**request.pop("contents"), **request.pop("uploads")}
        return Described(
            program=msgspec.json.encode(request),
            kept={name: parts[key] for name, key in named.items() if name not in fed},
            warm={name: parts[named[name]] for name in fed},
        )

    def feed(self, work: PortableProgram, inputs: Arrays) -> dict[str, bytes]:
        return {name: np.ascontiguousarray(data).tobytes() for name, data in self._fed(work, inputs).items()}

    def finish(self, work: PortableProgram, read: Mapping[str, bytes], outputs: Arrays) -> None:
        sizes = work.program.buffers
        if {name: len(data) for name, data in read.items()} != {name: sizes[name] for name in work.outputs}:
            raise DeviceError("the device gave other buffers than it was asked for", cure="connect it again")
        work.finish({name: np.frombuffer(data, np.uint32) for name, data in read.items()}, outputs)

    def run(self, state: PortableProgram, inputs: Arrays, outputs: Arrays) -> None:
        raise Unsupported("this program runs elsewhere", cure="ask a device for it")

    def timing(self, state: PortableProgram) -> Timing | None:
        return None

    def close(self, state: PortableProgram) -> None:
        return None

    def _fed(self, work: PortableProgram, inputs: Arrays) -> dict[str, Array]:
        return {str(name): np.asarray(data) for name, data in work.feed(inputs).items()}


class Candidate:
    """A function, by the names of its parameters or as `(inputs, outputs)`; or a class made of (case, fixed, device)
    with `run(inputs, outputs)`."""

    def __init__(self, path: Path, name: str, device: str) -> None:
        self.source, self._device = path, device
        found = getattr(import_file(path), name, None)
        if not callable(found):
            raise BadInput(
                f"{path.name} has no candidate {name!r}",
                cure=f"define {name}(inputs, outputs), or a class {name} with run(self, inputs, outputs)",
            )
        self._name, self._found, self._is_class = name, found, inspect.isclass(found)
        if self._is_class:

            def run(state: Any, inputs: Arrays, outputs: Arrays) -> None:
                state.run(inputs, outputs)
        else:

            def run(state: Any, inputs: Arrays, outputs: Arrays) -> None:
                state(inputs, outputs)

        self.run = run

    def setup(self, case: Case, fixed: Arrays) -> Any:
        if self._is_class:
            return self._found(case, fixed, self._device)
        return Call(self._found, f"{self._name}()", case)

    def timing(self, state: Any) -> Timing | None:
        """A stranger's own clock is not asked for."""
        return None

    def close(self, state: Any) -> None:
        if self._is_class and hasattr(state, "close"):
            state.close()


class Empty:
    """Does nothing, through the same turn: what is left is the cost of a turn itself."""

    source = Path(__file__)

    def setup(self, case: Case, fixed: Arrays) -> Any:
        return None

    def run(self, state: Any, inputs: Arrays, outputs: Arrays) -> None:
        return None

    def timing(self, state: Any) -> Timing | None:
        return None

    def close(self, state: Any) -> None:
        return None


def runnable(asked: Load) -> Runnable:
    """Loads what the message names, and nothing else."""
    if asked.variant is None:
        return Empty()
    # What a variant computes does not hang on where it came from.
    variant = msgspec.structs.replace(asked.variant, revision="")
    if asked.elsewhere:
        return Portable(engine_of(asked), variant)
    if variant.file:
        file = variant.file
        if asked.tree is not None:
            take_modules_from(asked.tree)
            file = moved(file, asked.tree)
        return Candidate(Path(file), variant.name, asked.device)
    return TaskVariant(engine_of(asked), variant, asked.device)


def engine_of(asked: Load) -> Engine:
    """The engine that a message names, as it is in the message's revision."""
    if asked.tree is None:
        return load(asked.ref).engine
    take_modules_from(asked.tree)
    path, py, wanted = asked.ref.partition(".py")
    return load(moved(f"{path}.py", asked.tree) + wanted if py else asked.ref).engine
