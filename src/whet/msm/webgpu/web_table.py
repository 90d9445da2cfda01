"""Measured choices as the table that the package in web/ ships (`TABLE` in web/src/tuned.js)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from whet.gpu.tuned import Tuned
from whet.msm.webgpu.knobs import SPECS
from whet.protocol import choose_variant

# Browsers have no 64-bit integers in shaders: there is one multiply, and the package has no such knob.
NOT_IN_BROWSERS = "multiply"


def web_table(found: Sequence[Tuned], adapter: Mapping[str, Any]) -> str:
    """An ES module. A software adapter is left out: its figures are a processor's."""
    named = {"vendor": str(adapter.get("vendor", "")), "architecture": str(adapter.get("architecture", ""))}
    rows = [
        {**named, "sizeClass": one.size_class, "variant": _spelled(one.best_on_adapter)}
        for one in found
        if one.best_on_adapter and not one.software
    ]
    lines = [f"    {msgspec.json.encode(row).decode()},\n" for row in rows]
    return f"export const TABLE = [\n{''.join(lines)}];\n"


def _spelled(text: str) -> str:
    variant = choose_variant("msm", list(SPECS.values()), text)
    kept = {name: value for name, value in variant.knobs.items() if name != NOT_IN_BROWSERS}
    return str(msgspec.structs.replace(variant, knobs=kept))
