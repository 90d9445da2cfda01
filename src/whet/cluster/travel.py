"""Which files of a user's engine travel to another machine: the engine's, its candidates', and what they import.

Nothing is run to find that out: a candidate is loaded by its own process alone, so imports are read from the source.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from whet.cluster.trial_messages import Sent
from whet.errors import BadInput
from whet.evidence.asked_variants import read_variant, split_revision
from whet.evidence.registry import Loaded, split_class
from whet.functions import bundle

MOST_FILES = 2000
MOST_BYTES = 64 << 20


@dataclass(frozen=True)
class Luggage:
    """Engine and variants as they are called over there, and the files with the folder here that holds them all.

    `names` has the name over there of each variant as it was typed.
    """

    engine: str
    variants: list[str]
    root: Path
    files: list[Sent]
    names: dict[str, str]


def pack(loaded: Loaded, variants: Sequence[str], more: Iterable[Path] = ()) -> Luggage:
    """An engine that is registered by a name has to be installed over there; only files travel."""
    if bundle.is_bundle(loaded.ref):
        raise BadInput("functions that were left in a folder do not travel", cure="put them into a file: @whet.variant")
    engine_file, class_name = split_class(loaded.ref)
    candidates: dict[str, tuple[Path, str]] = {}
    for text in variants:
        if split_revision(text)[1]:
            raise BadInput(f"{text!r}: revisions are compared on this machine alone", cure="leave --on out")
        variant = read_variant(loaded.engine, text)
        if variant.file:
            candidates[text] = (Path(variant.file), variant.name)
    starts = [path for path, _ in candidates.values()]
    if engine_file.endswith(".py"):
        starts.append(Path(engine_file))
    found = {*_with_imports(starts), *_below(more)}
    if not found:
        return Luggage(loaded.ref, list(variants), Path.cwd(), [], {})
    root = Path(os.path.commonpath([path.parent for path in found]))

    def there(path: Path, name: str) -> str:
        return f"{path.relative_to(root).as_posix()}:{name}" if name else path.relative_to(root).as_posix()

    engine = there(Path(engine_file), class_name) if engine_file.endswith(".py") else loaded.ref
    names = {text: there(*candidates[text]) if text in candidates else text for text in variants}
    return Luggage(engine, [names[text] for text in variants], root, list(_read(sorted(found), root)), names)


def unpack(files: Sequence[Sent], folder: Path) -> None:
    """Puts the files below `folder`, and none anywhere else."""
    for sent in files:
        place = (folder / sent.path).resolve()
        if not place.is_relative_to(folder.resolve()):
            raise BadInput(f"{sent.path!r} leads out of the folder", cure="send files below one folder")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(sent.content)


def _with_imports(starts: Iterable[Path]) -> set[Path]:
    """The files, and the modules and packages beside them that they import, and so on."""
    found: set[Path] = set()
    waiting = [(path, path.parent) for path in starts]
    while waiting:
        path, folder = waiting.pop()
        if path in found:
            continue
        found.add(path)
        for name in _imports(path):
            module, package = folder / f"{name}.py", folder / name
            beside = [module] if module.is_file() else sorted(package.rglob("*.py")) if package.is_dir() else []
            waiting += [(one, folder) for one in beside]
            _limit(len(found) + len(waiting))
    return found


def _imports(path: Path) -> set[str]:
    """First names of what a file imports; what is wrong with the file its own process says."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return set()
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module.partition(".")[0])
    return names


def _below(more: Iterable[Path]) -> set[Path]:
    found: set[Path] = set()
    for path in more:
        place = path.resolve()
        if not place.exists():
            raise BadInput(f"--send {path}: there is no such file", cure="check the path")
        found |= {one for one in place.rglob("*") if one.is_file()} if place.is_dir() else {place}
        _limit(len(found))
    return found


def _limit(count: int) -> None:
    if count > MOST_FILES:
        raise BadInput(f"more than {MOST_FILES} files would travel", cure="install what they belong to over there")


def _read(paths: Sequence[Path], root: Path) -> Iterator[Sent]:
    total = 0
    for path in paths:
        try:
            content = path.read_bytes()
        except OSError as error:
            raise BadInput(f"cannot read {path}: {error.strerror}", cure="check its permissions") from None
        total += len(content)
        if total > MOST_BYTES:
            raise BadInput(
                f"more than {MOST_BYTES >> 20} MiB would travel",
                cure="put large files where the machines can read them",
            )
        yield Sent(path=path.relative_to(root).as_posix(), content=content)
