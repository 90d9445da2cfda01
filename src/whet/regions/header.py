"""Where the C++ header lies that records the regions of a kernel of your own."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from whet.errors import Unsupported


def include_dir() -> Path:
    """The folder for the compiler's -I; then `#include "regions/region.hpp"`."""
    native = find_spec("whet._native")
    installed = [Path(native.origin).parent / "include"] if native is not None and native.origin else []
    # A source tree comes first: an editable install keeps the header of its last build.
    for folder in (Path(__file__).parents[3] / "native", *installed):
        if (folder / "regions" / "region.hpp").is_file():
            return folder
    raise Unsupported("region.hpp is not installed", cure="install whet with its native part")
