"""Writes docs/run.schema.json, the JSON Schema of what `whet report --format json` exports. `--print` shows it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import msgspec

from whet.evidence.record import Export

TARGET = Path(__file__).parents[1] / "docs" / "run.schema.json"


def schema_text() -> str:
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "whet export"}
    return json.dumps(schema | msgspec.json.schema(Export), indent=2) + "\n"


if __name__ == "__main__":
    if "--print" in sys.argv:
        sys.stdout.write(schema_text())
    else:
        TARGET.parent.mkdir(exist_ok=True)
        TARGET.write_text(schema_text())
