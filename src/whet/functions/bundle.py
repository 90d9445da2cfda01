"""Functions as files, so that other processes can load them: one folder, one pickle each.

A bench reads its own variant and the referee reads inputs and oracle; neither reads the other's. The folder is named
after what is in it and stays, so that the command that a run prints works tomorrow.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import shutil
import sys
import sysconfig
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from whet.errors import BadInput, WhetError
from whet.functions.engine import Description, FunctionEngine

SUFFIX = ".whet"
ABOUT = "about.json"
MOST_BYTES = 64 << 20
# So many sets of functions are kept; the ones used longest ago go first.
MOST_KEPT = 500
_BY_VALUE = threading.Lock()


class About(msgspec.Struct, frozen=True, kw_only=True):
    """The first file of a folder. `path` is where modules are found that the functions import."""

    description: Description
    path: list[str]
    python: str


def write(
    folder: Path,
    description: Description,
    variants: Mapping[str, Callable[..., Any]],
    inputs: Callable[..., Any],
    oracle: Callable[..., Any],
) -> Path:
    """Leaves the functions below `folder`; the path to load them by."""
    files = {"inputs.pickle": _pickled(inputs, "inputs"), "oracle.pickle": _pickled(oracle, "the oracle")}
    for number, (name, function) in enumerate(variants.items()):
        files[f"variant-{number}.pickle"] = _pickled(function, f"variant {name}")
    about = About(description=description, path=list(_users_path()), python=sys.version.split()[0])
    files[ABOUT] = msgspec.json.format(msgspec.json.encode(about), indent=2)
    place = folder / f"{description.name[:40].replace('/', '-')}-{_digest(files)[:16]}{SUFFIX}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not (place / ABOUT).is_file():
            _put(folder, place, files)
        os.utime(place)
        _prune(folder, place)
    except OSError as error:
        raise WhetError(f"the functions cannot be left in {folder}: {error.strerror}", cure="free some space") from None
    return place


def is_bundle(ref: str) -> bool:
    return ref.endswith(SUFFIX)


def load(ref: str) -> tuple[FunctionEngine, str]:
    """The engine and the hash of its functions. No function is loaded yet."""
    place = Path(ref)
    try:
        about = msgspec.json.decode((place / ABOUT).read_bytes(), type=About)
        digest = _digest({one.name: one.read_bytes() for one in place.glob("*.pickle")})
    except (OSError, msgspec.MsgspecError) as error:
        raise BadInput(f"{ref} does not hold functions: {error}", cure="run the script again that made it") from None
    return FunctionEngine(about.description, InFiles(place, about)), digest


class InFiles:
    """Each function is read when it is first asked for."""

    def __init__(self, place: Path, about: About) -> None:
        self._place, self._about = place, about
        self._loaded: dict[str, Callable[..., Any]] = {}

    def inputs(self) -> Callable[..., Any]:
        return self._load("inputs.pickle", "inputs")

    def oracle(self) -> Callable[..., Any]:
        return self._load("oracle.pickle", "the oracle")

    def variant(self, name: str) -> Callable[..., Any]:
        number = [one.name for one in self._about.description.variants].index(name)
        return self._load(f"variant-{number}.pickle", f"variant {name}")

    def _load(self, file: str, label: str) -> Callable[..., Any]:
        if file not in self._loaded:
            # Last, as for an engine's own folder: nothing there passes for an installed module.
            sys.path += [one for one in self._about.path if one not in sys.path]
            try:
                self._loaded[file] = pickle.loads((self._place / file).read_bytes())
            except Exception as error:
                raise BadInput(
                    f"{label} cannot be loaded in its own process: {type(error).__name__}: {error}",
                    cure="put what it needs into a module that can be imported, or inside the function",
                ) from error
        return self._loaded[file]


def _pickled(function: Callable[..., Any], label: str) -> bytes:
    """By value where it can be: a module of the user's need not be importable elsewhere, and its text is hashed."""
    import cloudpickle

    module = sys.modules.get(getattr(function, "__module__", None) or "")
    complaint: Exception | None = None
    for by_value in (True, False):
        try:
            with _taken_whole(module if by_value else None):
                content: bytes = cloudpickle.dumps(function)
        except (MemoryError, KeyboardInterrupt):
            raise
        except Exception as error:
            complaint = complaint or error
            continue
        if len(content) > MOST_BYTES:
            raise BadInput(
                f"{label} carries {len(content) >> 20} MiB with it", cure="let inputs() make large arrays, from a seed"
            )
        return content
    raise BadInput(
        f"{label} cannot be sent to another process: {type(complaint).__name__}: {complaint}",
        cure="open files, libraries, locks and devices inside the function, or put it into a module and import that",
    )


@contextlib.contextmanager
def _taken_whole(module: ModuleType | None) -> Iterator[None]:
    import cloudpickle

    with _BY_VALUE:
        wanted = module is not None and module.__name__ not in cloudpickle.list_registry_pickle_by_value()
        wanted = wanted and _is_users(module)
        if wanted:
            cloudpickle.register_pickle_by_value(module)
        try:
            yield
        finally:
            if wanted:
                cloudpickle.unregister_pickle_by_value(module)


def _is_users(module: ModuleType | None) -> bool:
    """Neither installed, nor Python's own, nor whet's."""
    file = getattr(module, "__file__", None)
    if module is None or not file or module.__name__ == "__main__" or module.__name__.partition(".")[0] == "whet":
        return False
    return not any(Path(file).is_relative_to(folder) for folder in _installed())


def _installed() -> set[str]:
    paths = sysconfig.get_paths()
    return {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}


def _users_path() -> Iterator[str]:
    for entry in sys.path:
        folder = str(Path(entry or ".").resolve())
        if Path(folder).is_dir() and folder not in _installed():
            yield folder


def _digest(files: Mapping[str, bytes]) -> str:
    state = hashlib.sha256()
    for name in sorted(files):
        state.update(name.encode() + len(files[name]).to_bytes(8, "little") + files[name])
    return state.hexdigest()


def _put(folder: Path, place: Path, files: Mapping[str, bytes]) -> None:
    """All of it or nothing; a second process that leaves the same is no conflict."""
    partial = Path(tempfile.mkdtemp(prefix=".partial-", dir=folder))
    try:
        for name, content in files.items():
            (partial / name).write_bytes(content)
        partial.chmod(0o755)
        try:
            partial.rename(place)
        except OSError:
            if not (place / ABOUT).is_file():
                raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _prune(folder: Path, mine: Path) -> None:
    with contextlib.suppress(OSError):
        kept = sorted((one for one in folder.glob(f"*{SUFFIX}") if one != mine), key=lambda one: one.stat().st_mtime)
        for old in kept[: max(0, len(kept) + 1 - MOST_KEPT)]:
            shutil.rmtree(old, ignore_errors=True)
