"""Every example that the pages about whet.msm show runs here: the Python blocks and each row of the format tables."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

import point_files as pf
import whet.msm
from point_samples import SCALARS, samples
from whet.cli import app
from whet.msm import Engine, Point, Scalars, Srs
from whet.msm.points import FORMATS, write_points, write_scalars

ROOT = Path(__file__).parents[2]
PAGES = {name: (ROOT / name).read_text() for name in ("docs/formats.md", "src/whet/msm/README.md")}
BLOCKS = [
    pytest.param(page, code, id=f"{page}-{number}")
    for page, text in PAGES.items()
    for number, code in enumerate(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
]
POINTS = pf.multiples(12)


def rows() -> list[tuple[str, str, str, str]]:
    """(kind, format, Python, command) of the tables of docs/formats.md."""
    found = []
    for kind, heading in (("points", "## Points"), ("scalars", "## Scalars")):
        table = PAGES["docs/formats.md"].split(heading)[1].split("\n## ")[0]
        for line in re.findall(r"^\| `.*$", table, re.MULTILINE):
            names, _, python, command = (cell.strip() for cell in line.strip("|").split("|"))
            found.append((kind, re.findall(r"`([\w-]+)`", names), python.strip("`"), command.strip("`")))
    return [(kind, names[0], python, command) for kind, names, python, command in found]


def product_sum(points: list[pf.Point], scalars: list[int]) -> pf.Point:
    """By additions of Python integers alone."""
    total = None
    for point, scalar in zip(points, scalars, strict=False):
        base = point
        for bit in range(scalar.bit_length()):
            if scalar >> bit & 1:
                total = pf.add(total, base)
            base = pf.add(base, base)
    return total


def as_point(pair: pf.Point) -> Point:
    return Point.infinity() if pair is None else Point(*pair)


@pytest.mark.parametrize(("page", "code"), BLOCKS)
def test_python_blocks_run(page, code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("pot.ptau").write_bytes(pf.ptau(POINTS[:7]))
    Path("witness.wtns").write_bytes(pf.wtns(list(range(7))))
    write_points("srs.bin", POINTS[:7])
    write_scalars("s.bin", range(7))
    many = [(1, 2)] * 150
    names = {"points": many, "scalars": [5] * 150, "others": [6] * 150, "msm": whet.msm}
    if page == "docs/formats.md":
        names["scalars"] = [3, 4]
    exec(compile(code, page, "exec"), names)


@pytest.mark.parametrize("row", rows(), ids=lambda row: f"{row[0]}:{row[1]}")
def test_the_row_of_a_format_reads_its_file(row, tmp_path, monkeypatch, capsys):
    kind, name, python, command = row
    monkeypatch.chdir(tmp_path)
    section = re.search(r'section="([\w-]+)"', python)
    if name == "prepared":
        Engine(POINTS).save("f")
        expected = POINTS
    else:
        wanted = section and section[1]
        fitting = [s for s in samples() if (s.kind, s.format) == (kind, name) and wanted in (None, s.section)]
        Path("f").write_bytes(fitting[0].data)
        expected = fitting[0].expected
    with eval(python, {"Srs": Srs, "Scalars": Scalars, "Engine": Engine, "f": "f"}) as opened:
        assert len(opened) == len(expected)
    scalars = expected if kind == "scalars" else (SCALARS * 2)[: len(expected)]
    points = expected if kind == "points" else POINTS
    Path("s.txt").write_text("\n".join(map(str, scalars)))
    write_points("p.bin", POINTS)
    other = {"points": "--scalars s.txt --scalars-format text", "scalars": "--points p.bin --points-format raw-le"}
    assert app.invoke(["msm", *shlex.split(command), *shlex.split(other[kind]), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["point"]
    assert Point(int(told["x"], 16), int(told["y"], 16)) == as_point(product_sum(points, [s % pf.R for s in scalars]))


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("kind", ["points", "scalars"])
def test_every_format_is_listed(page, kind):
    text = PAGES[page]
    if page == "docs/formats.md":
        text = text.split("## Points" if kind == "points" else "## Scalars")[1].split("\n## ")[0]
    assert {row.name for row in FORMATS if row.kind == kind} <= set(re.findall(r"`([\w-]+)`", text))
