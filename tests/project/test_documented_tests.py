"""Tables that set a test against each known fault: a renamed test must not leave a row pointing nowhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = [*ROOT.glob("tests/**/*.py"), *ROOT.glob("native/tests/*.cpp")]
KNOWN = set(re.findall(r"(?:def|void|bool) (\w+)\(", "".join(path.read_text() for path in SOURCES)))
KNOWN |= {path.stem for path in SOURCES}
TABLES = {"docs/graph-bugs.md": 35, "src/whet/msm/webgpu/README.md": 12}


@pytest.mark.parametrize(("page", "least"), TABLES.items())
def test_every_row_names_tests_that_exist(page, least):
    text = (ROOT / page).read_text()
    named = set(re.findall(r"`((?:test|[rsm]\d+)_\w+)`", text))
    assert len(named) >= least
    assert named <= KNOWN, named - KNOWN
