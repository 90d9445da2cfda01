"""Layers import downwards only, and the vocabulary at the bottom imports nothing of ours."""

from __future__ import annotations

import ast
import re
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "whet"

# Higher numbers may import lower or equal ones. A package that is not listed fails the test until it is placed.
RANK = {
    "__version__": 0,
    "errors": 0,
    "protocol": 0,
    "units": 0,
    "_native": 0,
    "graph": 1,
    "gpu": 1,
    "functions": 2,
    "msm": 2,
    "decode": 2,
    "regions": 3,
    "evidence": 3,
    "lab": 4,
    "cluster": 4,
    "cli": 5,
    "__main__": 5,
    "api": 6,
}
# Engines and substrates stand beside each other; the one knows nothing of the other.
PEERS = [{"msm", "decode", "functions"}, {"graph", "gpu"}, {"lab", "cluster"}]


def imports_of(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names = [node.module]
            if node.module == "whet":
                names = [f"whet.{alias.name}" for alias in node.names]
        found |= {name.split(".")[1] for name in names if name.startswith("whet.")}
    return found


def violations(owner: str, imported: set[str]) -> list[str]:
    bad = [name for name in imported if RANK[name] > RANK[owner]]
    bad += [name for pair in PEERS if owner in pair for name in imported & (pair - {owner})]
    return bad


def test_layers_import_downwards_only():
    complaints = []
    for path in SOURCE.rglob("*.py"):
        owner = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        if owner == "__init__":
            continue
        complaints += [f"{path.name}: {owner} imports {bad}" for bad in violations(owner, imports_of(path))]
    assert not complaints


def test_an_upward_import_is_caught(tmp_path):
    planted = tmp_path / "planted.py"
    planted.write_text("from whet.evidence.rig import Rig\nfrom whet import cli\n")
    assert sorted(violations("msm", imports_of(planted))) == ["cli", "evidence"]


def test_native_core_does_not_know_python():
    native = SOURCE.parents[1] / "native"
    for path in [*native.rglob("*.hpp"), *native.rglob("*.cpp")]:
        if "bind" in path.relative_to(native).parts:
            continue
        text = path.read_text()
        assert "nanobind" not in text and "Python.h" not in text, path


# The folders of the graph core, and the files beside them. Each may include what has a lower number, and its own.
GRAPH_RANK = {
    "plants": 0,
    "errors": 0,
    "region": 0,
    "protocol": 1,
    "task": 2,
    "kernels": 2,
    "pool": 2,
    "submitter": 3,
    "replay": 3,
    "workers": 4,
    "runtime": 5,
    "runtime_impl": 6,
}


def upward_includes(path: Path, part: str) -> list[str]:
    included = [name.split("/")[1] for name in re.findall(r'#include "(graph/[^"]+)"', path.read_text())]
    parts = {name.split(".")[0] for name in included} - {part}
    # The public calls know the parts behind them.
    return [name for name in parts if GRAPH_RANK[name] >= GRAPH_RANK[part] and path.name != "runtime.cpp"]


def test_the_graph_core_includes_downwards_only(tmp_path):
    core = SOURCE.parents[1] / "native" / "graph"
    complaints = {}
    for path in [*core.rglob("*.hpp"), *core.rglob("*.cpp")]:
        part = path.relative_to(core).parts[0].split(".")[0]
        if bad := upward_includes(path, part):
            complaints[str(path.relative_to(core))] = bad
    assert not complaints
    planted = tmp_path / "planted.hpp"
    planted.write_text('#include "graph/pool/pool.hpp"\n#include "graph/workers/workers.hpp"\n')
    assert upward_includes(planted, "submitter") == ["workers"]
