"""What is exported obeys the published JSON Schema, read by a small validator that knows nothing of the records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scripted_runs import scripted_run
from whet.evidence.record import Decision, Export
from whet.evidence.report.export import as_json

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "run.schema.json").read_text())
TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
}
KNOWN = {
    *("$ref", "$defs", "$schema", "title", "description", "default", "type", "anyOf", "enum"),
    *("properties", "required", "items", "additionalProperties"),
}


def complaints(value: Any, schema: dict[str, Any], path: str = "$") -> list[str]:
    assert set(schema) <= KNOWN, f"the validator does not know {set(schema) - KNOWN}"
    if "$ref" in schema:
        return complaints(value, SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]], path)
    if "anyOf" in schema:
        tried = [complaints(value, option, path) for option in schema["anyOf"]]
        return [] if [] in tried else [f"{path}: fits no alternative"]
    found = []
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{path}: {value!r} is not in the enumeration")
    if "type" in schema:
        right = isinstance(value, TYPES[schema["type"]]) and (
            schema["type"] == "boolean" or not isinstance(value, bool)
        )
        if not right:
            return [*found, f"{path}: not a {schema['type']}"]
    if isinstance(value, dict):
        found += [f"{path}: lacks {name}" for name in schema.get("required", ()) if name not in value]
        for name, inner in value.items():
            rule = schema.get("properties", {}).get(name, schema.get("additionalProperties", {}))
            found += complaints(inner, rule if isinstance(rule, dict) else {}, f"{path}.{name}")
    if isinstance(value, list):
        for number, inner in enumerate(value):
            found += complaints(inner, schema.get("items", {}), f"{path}[{number}]")
    return found


@pytest.fixture(scope="module")
def exported() -> dict[str, Any]:
    runs = [scripted_run(1), scripted_run(2, variants=5, refused=(3,), device_clock=True)]
    decision = Decision(run_id=runs[0].id, decided="2026-03-01T00:00:00+00:00", ship="plain", because="it is known")
    return json.loads(as_json(Export(runs=runs, decisions=[decision])))


def test_an_export_obeys_the_schema(exported):
    assert complaints(exported, SCHEMA) == []


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("runs", 0, "samples", 0, "wall_ns"), "fast"),
        (("runs", 0, "verdicts", 0, "outcome"), "BETTER"),
        (("runs", 1, "gates", 3, "failure", "seed"), None),
        (("runs", 0, "case", "sizes", "n"), 0.5),
        (("runs", 0, "gates"), {}),
        (("decisions", 0, "because"), 7),
    ],
)
def test_the_schema_refuses_what_is_wrong(exported, place, value):
    broken = json.loads(json.dumps(exported))
    inner = broken
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = value
    assert complaints(broken, SCHEMA)
    del inner[place[-1]]
    if isinstance(place[-1], str) and place[-1] != "n":
        assert any("lacks" in complaint or "alternative" in complaint for complaint in complaints(broken, SCHEMA))
