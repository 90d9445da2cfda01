"""Our own file of prepared points, as `Engine.save` writes it. It is opened by `Engine.open`, not read as records."""

from __future__ import annotations

import os

from whet.errors import BadInput
from whet.msm.points.layout import Layout
from whet.msm.points.source import Source

MAGIC = b"whetmsm\n"


def is_prepared(path: str | bytes | os.PathLike[str], format: str) -> bool:
    """Whether `format` says so, or is auto and the file starts like one. A path that cannot be read is BadInput."""
    if format not in ("auto", "prepared"):
        return False
    source = Source(path)
    try:
        return format == "prepared" or source.head(len(MAGIC)) == MAGIC
    finally:
        source.close()


def refuse(source: Source, section: str | None) -> Layout:
    raise BadInput(
        f"{source.path} holds points that the engine has prepared", cure="open it with whet.msm.Engine.open(path)"
    )
