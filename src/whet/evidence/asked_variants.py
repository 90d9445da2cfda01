"""A variant as it is typed: one of the engine's own, or `file.py:name`, a candidate from a file of its own."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from whet.errors import BadInput

if TYPE_CHECKING:
    from whet.protocol import Engine, Variant


def read_variant(engine: Engine, text: str) -> Variant:
    """A candidate's file has to be there, and is never imported in this process: only its bench runs it."""
    from whet.protocol import Variant, parse_variant

    text, revision = split_revision(text)
    if ".py:" not in text:
        return msgspec.structs.replace(parse_variant(engine, text), revision=revision)
    stem, _, name = text.rpartition(".py:")
    if not name.isidentifier():
        cure = "write file.py:name, the name of one variant; a candidate has no knobs"
        raise BadInput(f"{text!r} does not name a candidate", cure=cure)
    # A file of another revision need not be in the working tree.
    file = Path(f"{stem}.py").resolve() if revision else _readable(f"{stem}.py")
    return Variant(name=name, file=str(file), revision=revision)


def split_revision(text: str) -> tuple[str, str]:
    """`horner@main`, `candidate.py:fast@HEAD~2` or `kernels.py@v1`: what is before the sign, and the revision.

    A folder may have the sign in its name: behind `.py` it counts, and so does the first one of what is no file.
    """
    stem, py, rest = text.rpartition(".py") if ".py" in text else ("", "", text)
    spelled, at, revision = rest.partition("@")
    if at and not revision:
        raise BadInput(f"{text!r} names no revision", cure="write a branch, a tag or a commit behind the @")
    return f"{stem}{py}{spelled}", revision


def split_files(engine: str, variants: Sequence[str]) -> tuple[str, list[str], list[str]]:
    """`kernels.py@main kernels.py horner` is kernels.py, its variant horner, and the revisions "main" and "".

    No revisions where the words do not name one file twice.
    """
    file, before = split_revision(engine)
    if not before:
        return engine, list(variants), []
    other, after = split_revision(variants[0]) if variants else ("", "")
    if not file.endswith(".py") and ".py:" not in file:
        raise BadInput(f"{engine!r} is no file of a revision", cure=f"write {file} --against {before}")
    if not variants or Path(other).resolve() != Path(file).resolve():
        raise BadInput(
            f"{engine!r} is compared with nothing", cure=f"name the file twice: {file}@{before} {file} [VARIANT]..."
        )
    return file, list(variants[1:]), [before, after]


def at_revisions(variant: str, revisions: Sequence[str]) -> list[str]:
    """One variant once per revision; the empty one is the working tree."""
    return [f"{variant}@{revision}" if revision else variant for revision in revisions]


def _readable(text: str) -> Path:
    try:
        path = Path(text).resolve()
        there = path.is_file()
    except (OSError, ValueError) as error:
        raise BadInput(f"cannot read candidate file {text!r}: {error}", cure="check the path") from None
    if not there or not os.access(path, os.R_OK):
        why = "permission denied" if there else "there is no such file"
        raise BadInput(f"cannot read candidate file {text!r}: {why}", cure="check the path")
    return path


def distinct(variants: list[Variant]) -> None:
    """BadInput if two of them would be called the same."""
    seen: dict[str, Variant] = {}
    for variant in variants:
        other = seen.setdefault(str(variant), variant)
        if other is variant:
            continue
        if other.file != variant.file:
            raise BadInput(f"two candidates are called {variant}", cure="rename one of the files")
        raise BadInput(f"variant {variant} is given twice", cure="give each variant once")
