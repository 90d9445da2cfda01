"""The blocks of the package's page run as they stand."""

from __future__ import annotations

import re
from pathlib import Path

from whet.msm import msm

PAGE = Path(__file__).parents[2] / "src" / "whet" / "cluster" / "README.md"


def test_the_blocks_of_the_page_run(connection, capsys):
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert blocks
    for code in blocks:
        names = {"points": [(1, 2)] * 9, "scalars": [5] * 9}
        exec(compile(code, str(PAGE), "exec"), names)
        assert names["total"] == msm([(1, 2)], [45])
    assert "9 points on 2 workers" in capsys.readouterr().out
