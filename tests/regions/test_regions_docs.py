"""The table of pitfalls in docs/regions.md names tests; a renamed test must not leave it pointing nowhere."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_pitfall_names_tests_that_exist():
    text = (ROOT / "docs" / "regions.md").read_text().split("## Pitfalls")[1]
    rows = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith(("| pitfall", "|---"))]
    sources = "".join(path.read_text() for path in (ROOT / "tests" / "regions").glob("test_regions_*.py"))
    sources += (ROOT / "native" / "tests" / "test_regions.cpp").read_text()
    known = set(re.findall(r"(?:def|void) (\w+)\(", sources))
    assert len(rows) >= 18
    for row in rows:
        named = re.findall(r"`(?:test_a_planted_fault)?…\[(\w+)\]`|`(\w{12,})`", row)
        names = {one or other for one, other in named} - {"regions_launch"}
        assert names or "cannot exist" in row or "belongs to the kernel" in row, row
        assert names <= known, names - known
