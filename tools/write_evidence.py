"""Writes the first part of docs/evidence.md from what the last `make test` counted (build/tried.json).

The sections below it come from benchmarks and stay as they are.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
TRIED = ROOT / "build" / "tried.json"
PAGE = ROOT / "docs" / "evidence.md"
HEAD = """# What the tests tried and found right

Counted by one run of `make test`; `python tools/write_evidence.py` writes this table anew. Each row is a kind of
thing that would have failed the run had it gone wrong.

| how many | what |
|---:|---|
"""


def main() -> None:
    if not TRIED.is_file():
        sys.exit(f"no {TRIED.relative_to(ROOT)}: run make test first")
    rows = json.loads(TRIED.read_text())
    _, mark, kept = PAGE.read_text().partition("\n## ") if PAGE.is_file() else ("", "", "")
    PAGE.write_text(HEAD + "".join(f"| {number:,} | {kind} |\n" for kind, number in rows.items()) + mark + kept)


if __name__ == "__main__":
    main()
