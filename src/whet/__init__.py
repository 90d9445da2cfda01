"""whet sharpens parallel kernels and proves the edge.

whet.ab({"powers": powers, "horner": horner}, inputs=make, oracle=exact, sizes={"n": 2**14})
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from whet.api.calls import ab, check, sweep
    from whet.api.result import CheckResult, Result, Sweep
    from whet.functions.declared import inputs, oracle, variant
    from whet.protocol import Case, Engine, Output, Tolerance

__version__ = "0.1.0"
__all__ = [
    "Case",
    "CheckResult",
    "Engine",
    "Output",
    "Result",
    "Sweep",
    "Tolerance",
    "__version__",
    "ab",
    "check",
    "inputs",
    "oracle",
    "sweep",
    "variant",
]

# Loaded when first asked for: importing whet imports nothing else.
_WHERE = {
    "ab": "whet.api.calls",
    "check": "whet.api.calls",
    "sweep": "whet.api.calls",
    "CheckResult": "whet.api.result",
    "Result": "whet.api.result",
    "Sweep": "whet.api.result",
    "inputs": "whet.functions.declared",
    "oracle": "whet.functions.declared",
    "variant": "whet.functions.declared",
    "Case": "whet.protocol",
    "Engine": "whet.protocol",
    "Output": "whet.protocol",
    "Tolerance": "whet.protocol",
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'whet' has no attribute {name!r}")
    from importlib import import_module

    found = getattr(import_module(_WHERE[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_WHERE})
