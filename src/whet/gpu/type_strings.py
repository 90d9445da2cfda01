"""Makes wgpu-py start faster: cffi parses every C type that it is asked for together with all 450 names of the header.

Names that a text does not mention cannot change how it is parsed, so the parser is shown the others alone. This saves
about a second of every process that opens a device. It reaches into cffi; where cffi looks different, nothing happens.
"""

from __future__ import annotations

import re
from typing import Any

_WORD = re.compile(r"\w+")
_TYPEDEF = "typedef "
_MARK = "_whet_shows_few_names"


def show_few_names(ffi: Any) -> bool:
    """Whether the parser of `ffi` is now quick. Safe to call again."""
    parser: Any = getattr(ffi, "_parser", None)
    parse, known = getattr(parser, "_parse", None), getattr(parser, "_declarations", None)
    if not callable(parse) or not isinstance(known, dict):
        return False
    if not hasattr(parser, _MARK):

        def quick(text: str) -> Any:
            everything = parser._declarations
            mentioned = (_TYPEDEF + word for word in set(_WORD.findall(text)))
            parser._declarations = {name: everything[name] for name in mentioned if name in everything}
            try:
                return parse(text)
            finally:
                parser._declarations = everything

        parser._parse = quick
        setattr(parser, _MARK, True)
    return True
