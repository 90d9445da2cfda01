"""WGSL stands in .wgsl files, and generated files are what their generator writes."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "whet"
GENERATOR = ROOT / "tools" / "field_wgsl"
# What a line of WGSL has and prose or Python has not.
WGSL = re.compile(
    r"@compute\b|@(?:binding|group|builtin)\(|\bvar<\w+|\bfn \w+\(|\b(?:let|const|var) \w+ = .*;|workgroupBarrier\("
)


def wgsl_lines(text: str) -> list[str]:
    """Lines of a Python file's strings that are WGSL; docstrings are prose."""
    found = []
    tree = ast.parse(text)
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef)
    opened = [node.body[0] for node in ast.walk(tree) if isinstance(node, owners) and node.body]
    prose = {id(first.value) for first in opened if isinstance(first, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            found += [line for line in node.value.splitlines() if WGSL.search(line)]
    return found


def test_no_wgsl_inside_python_strings(tried):
    found = {path.name: lines for path in SOURCE.rglob("*.py") if (lines := wgsl_lines(path.read_text()))}
    assert not found
    for planted in ("@compute @workgroup_size(64) fn f() {", "    let a = b + 1u;", "var<workgroup> x: u32;"):
        assert wgsl_lines(f'"""About it."""\nX = f"""\n{planted.replace("{", "{{")}\n"""\n'), planted
        tried("planted faults")
    assert sum(len(wgsl_lines(path.read_text())) for path in GENERATOR.glob("*.py")) > 10, "the generator is seen"


def check(*command):
    return subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True, check=False, cwd=ROOT)


def test_generated_files_are_not_stale(tmp_path, tried):
    assert check(GENERATOR, "--check").returncode == 0
    stale = tmp_path / "tools" / "field_wgsl"
    stale.mkdir(parents=True)
    for file in GENERATOR.glob("*.py"):
        (stale / file.name).write_text(file.read_text().replace("BATCHES = 43", "BATCHES = 44"))
    there = tmp_path / "src" / "whet" / "msm" / "webgpu" / "wgsl" / "generated"
    there.mkdir(parents=True)
    for file in (SOURCE / "msm" / "webgpu" / "wgsl" / "generated").iterdir():
        (there / file.name).write_text(file.read_text())
    told = check(stale, "--check")
    assert told.returncode == 1 and "inverse.wgsl" in told.stderr and "carries" not in told.stderr
    tried("planted faults")
