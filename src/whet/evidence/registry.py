"""Finds an engine: a registered name (entry point group `whet.engines`) or a path to a Python file.

`file.py:ClassName` picks one engine of a file that holds several. Whatever is wrong with a user's file comes out as
BadInput with the file, the line and a cure.
"""

from __future__ import annotations

import hashlib
import inspect
import sys
import traceback
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import whet.errors
from whet.errors import BadInput, Unsupported, WhetError
from whet.functions import bundle
from whet.functions import declared as declarations
from whet.protocol import Case, Engine, VariantSpec

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "whet.engines"
OWN_FOLDER = Path(whet.errors.__file__).parent


@dataclass(frozen=True)
class Loaded:
    """An engine with the reference that loads it again in another process, and the hash of its source."""

    engine: Engine
    ref: str
    sha256: str


def names() -> list[str]:
    """The registered engines, by name."""
    return sorted(_points())


def _points() -> dict[str, EntryPoint]:
    # Reading what is installed takes longer than all the rest, and a bench that runs a file needs none of it.
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=GROUP)}


def load(ref: str) -> Loaded:
    """Loads and checks one engine."""
    if bundle.is_bundle(ref):
        functions, digest = bundle.load(str(Path(ref).resolve()))
        return Loaded(functions, str(Path(ref).resolve()), digest)
    path_text, class_name = split_class(ref)
    if not path_text.endswith(".py"):
        points = _points()
        if ref in points:
            return _load_point(ref, points[ref])
        raise BadInput(
            f"no engine {ref!r}",
            cure=f"registered: {', '.join(sorted(points)) or 'none'}; or give a path to a .py file",
        )
    try:
        path = Path(path_text).resolve()
        source = path.read_bytes()
    except (OSError, ValueError) as error:
        raise BadInput(
            f"cannot read engine file {path_text!r}: {getattr(error, 'strerror', None) or error}", cure="check the path"
        ) from None
    module = import_file(path, source)
    try:
        declared = None if class_name else declarations.engine_of(module.__name__, path.stem)
    except BadInput as error:
        raise BadInput(f"{path}: {error.cause}", cure=error.cure) from None
    engine = declared or _instance(_engine_class(module, path, class_name), str(path))
    return Loaded(engine, f"{path}:{class_name}" if class_name else str(path), hashlib.sha256(source).hexdigest())


def source_file(loaded: Loaded) -> str:
    """The file that defines an engine, however it was named."""
    path = split_class(loaded.ref)[0]
    return path if path.endswith(".py") else inspect.getsourcefile(type(loaded.engine)) or path


def split_class(ref: str) -> tuple[str, str]:
    """`file.py:ClassName` as its two parts; the second is empty where there is none."""
    head, colon, tail = ref.rpartition(":")
    return (head, tail) if colon and head.endswith(".py") else (ref, "")


def _load_point(ref: str, point: EntryPoint) -> Loaded:
    try:
        found = point.load()
    except Exception as error:
        raise Unsupported(
            f"engine {ref!r} ({point.value}) cannot be loaded: {type(error).__name__}: {error}",
            cure="reinstall the package that provides it",
        ) from error
    if not (inspect.isclass(found) and issubclass(found, Engine)):
        raise BadInput(
            f"entry point {ref!r} is not an Engine class", cure="point it at a subclass of whet.protocol.Engine"
        )
    source = inspect.getsourcefile(found)
    digest = hashlib.sha256(Path(source).read_bytes()).hexdigest() if source else ""
    return Loaded(_instance(found, ref), ref, digest)


def import_file(path: Path, source: bytes | None = None) -> ModuleType:
    """Runs a user's file as a module. Its folder comes last on the path: nothing in it passes for an installed one."""
    source = path.read_bytes() if source is None else source
    name = f"whet_engine_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    spec = spec_from_file_location(name, path)
    if spec is None:
        raise BadInput(f"{path} is not a Python file", cure="give a file that ends in .py")
    try:
        code = compile(source, str(path), "exec")
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None) or 1
        raise BadInput(f"{path}:{line}: {type(error).__name__}: {error}", cure="mend the file") from None
    module = module_from_spec(spec)
    sys.modules[name] = module
    declarations.forget(name)
    folder = str(path.parent)
    if folder not in sys.path:
        sys.path.append(folder)
    try:
        exec(code, module.__dict__)
    except WhetError:
        raise
    except (Exception, SystemExit) as error:
        raise BadInput(
            f"{where(error, path)}: {type(error).__name__}: {error}", cure="the file must import without an error"
        ) from error
    return module


def where(error: BaseException, path: Path | str) -> str:
    """`file:line` of the innermost frame that belongs to `path`, else of the innermost one that is not whet's own."""
    frames = traceback.extract_tb(error.__traceback__)
    foreign = [frame for frame in frames if not Path(frame.filename).is_relative_to(OWN_FOLDER)]
    mine = [frame for frame in frames if frame.filename == str(path)] or foreign
    return f"{mine[-1].filename}:{mine[-1].lineno}" if mine else str(path)


def _engine_class(module: ModuleType, path: Path, wanted: str) -> type[Engine]:
    own = [
        value
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, Engine) and value.__module__ == module.__name__
    ]
    if wanted:
        own = [value for value in own if value.__name__ == wanted]
    whole = [value for value in own if not inspect.isabstract(value)]
    if len(whole) == 1:
        return whole[0]
    if whole:
        offer = ", ".join(value.__name__ for value in whole)
        raise BadInput(f"{path} holds {len(whole)} engines: {offer}", cure=f"pick one: {path.name}:{whole[0].__name__}")
    if own:
        missing = ", ".join(sorted(own[0].__abstractmethods__))
        raise BadInput(f"{path}: engine {own[0].__name__} lacks {missing}", cure="define what is missing")
    what = f"no engine {wanted!r}" if wanted else "neither functions under @whet.variant nor a subclass of Engine"
    raise BadInput(f"{path} holds {what}", cure="see examples/declared.py, or examples/horner_numpy.py for a class")


def _instance(cls: type[Engine], origin: str) -> Engine:
    try:
        engine = cls()
        if not isinstance(getattr(engine, "name", None), str) or not engine.name:
            line = inspect.getsourcelines(cls)[1] if inspect.getsourcefile(cls) else 1
            cure = f'write name = "{cls.__name__.lower()}" in it'
            raise BadInput(f"{origin}:{line}: engine {cls.__name__} has no name", cure=cure)
        cases, variants = list(engine.cases()), list(engine.variants())
        profiles, tolerance = list(engine.profiles()), engine.tolerance
        sound = bool(tolerance.relative >= 0 and tolerance.absolute >= 0)
    except WhetError:
        raise
    except Exception as error:
        raise BadInput(
            f"{where(error, origin)}: engine {cls.__name__} cannot describe itself: {type(error).__name__}: {error}",
            cure="name, cases(), profiles(), variants() and tolerance must work without a device",
        ) from error
    complaint = _complaint(cases, variants, profiles)
    if complaint or not sound:
        raise BadInput(
            f"{origin}: engine {cls.__name__}: {complaint or 'its tolerance is negative'}", cure="mend the file"
        )
    return engine


def _complaint(cases: list[Any], variants: list[Any], profiles: list[Any]) -> str | None:
    if not cases or not all(isinstance(case, Case) and case.sizes for case in cases):
        return "cases() must give at least one Case with sizes"
    if any(not isinstance(size, int) or size < 0 for case in cases for size in case.sizes.values()):
        return "cases() has a size that is not a whole number"
    if not variants or not all(isinstance(spec, VariantSpec) for spec in variants):
        return "variants() must give at least one VariantSpec"
    spelled = [spec.name for spec in variants]
    if len(set(spelled)) != len(spelled):
        return "variants() names a variant twice"
    if not profiles or not all(isinstance(profile, str) for profile in profiles):
        return "profiles() must give at least one name"
    return None
