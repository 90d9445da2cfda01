"""A variant as it is typed: one of the engine's own, or `file.py:name`, a candidate from a file of its own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from whet.errors import BadInput

if TYPE_CHECKING:
    from whet.protocol import Engine, Variant


def read_variant(engine: Engine, text: str) -> Variant:
    """A candidate's file has to be there, and is never imported in this process: only its bench runs it."""
    from whet.protocol import Variant, parse_variant

    if ".py:" not in text:
        return parse_variant(engine, text)
    stem, _, name = text.rpartition(".py:")
    if not name.isidentifier():
        cure = "write file.py:name, the name of one variant; a candidate has no knobs"
        raise BadInput(f"{text!r} does not name a candidate", cure=cure)
    return Variant(name=name, file=str(_readable(f"{stem}.py")))


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
