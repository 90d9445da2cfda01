"""Every Python block of the READMEs runs here, with the names that its page leaves to the reader."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from subprocess import run

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "gpu"))
GPU_PAGES = ("src/whet/decode/webgpu/README.md", "src/whet/gpu/README.md", "src/whet/msm/webgpu/README.md")
CPU_PAGES = ("README.md", "src/whet/graph/README.md", "src/whet/decode/README.md")
DOUBLE = """
@group(0) @binding(0) var<storage, read_write> result: array<u32>;
@compute @workgroup_size(4) fn count(@builtin(global_invocation_id) id: vec3u) { result[id.x] = 2u * id.x; }
"""


def blocks(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


def all_blocks(pages):
    return [pytest.param(page, code, id=f"{page}-{at}") for page in pages for at, code in enumerate(blocks(page))]


def execute(page: str, code: str, names: dict) -> dict:
    exec(compile(code, page, "exec"), names)
    return names


def test_no_page_is_forgotten():
    """whet.msm's own pages are in test_msm_documented, that of whet.cluster is beside its tests."""
    tracked = run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    elsewhere = {"docs/formats.md", "src/whet/msm/README.md", "src/whet/cluster/README.md"}
    assert {page for page in tracked if blocks(page)} - elsewhere == {*CPU_PAGES, *GPU_PAGES}


def test_nobody_is_sent_to_the_other_package_of_this_name():
    """PyPI's whet is another one. With an extra pip takes the whet that is installed, so pages tell where from."""
    kinds = ["*.md", "*.py", "*.yml", "*.ipynb", "*.toml", "Makefile"]
    tracked = run(["git", "ls-files", *kinds], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    texts = {file: (ROOT / file).read_text() for file in tracked}
    bare = re.compile(r"pip install (?:--?\S+ )*[\"']?whet(?![-\w\[])")
    assert [file for file, text in texts.items() if bare.search(text)] == []
    assert bare.search("pip install " + "whet") and bare.search("pip install --upgrade " + "'whet'")
    extras = [file for file, text in texts.items() if file.endswith(".md") and "pip install 'whet[" in text]
    assert [file for file in extras if file != "README.md" and "README.md#start" not in texts[file]] == []
    assert "On PyPI the name `whet` is somebody else's" in texts["README.md"]


@pytest.mark.parametrize(("page", "code"), all_blocks(CPU_PAGES))
def test_blocks_run(page, code, tmp_path, monkeypatch):
    from safetensors.numpy import save_file

    monkeypatch.chdir(tmp_path)
    save_file(layer_weights(), "model.safetensors")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    made = execute(page, code, {"points": [(1, 2)] * 9, "scalars": [5] * 9})
    if "commitment" in made:
        from whet.msm import msm

        assert made["commitment"] == msm([(1, 2)], [45])
    if "run" in made:
        assert made["run"].gates and all(gate.green for gate in made["run"].gates)


@pytest.mark.gpu
@pytest.mark.xdist_group("elsewhere")
@pytest.mark.parametrize(("page", "code"), all_blocks(GPU_PAGES))
def test_blocks_for_a_gpu_run(page, code):
    from needs import needed
    from whet.decode import SHAPES, PagedCache
    from whet.gpu import Kernel, Pass, Program, open_device

    shape = SHAPES["tiny"]
    program = Program({"result": 16}, (Pass("count", Kernel(DOUBLE, "count"), ("result",), (1, 1, 1)),))
    with needed(open_device) as device:
        names = {
            "points": [(1, 2)] * 9,
            "scalars": [5] * 9,
            "weights": {name.removeprefix("model.layers.0."): w for name, w in layer_weights().items()},
            "x": np.ones((1, shape.hidden), np.float32),
            "cache": PagedCache.empty(shape, batch=1, max_length=32, page_size=16, kv_type="f32"),
            "program": program,
            "inputs": {},
            "device": device,
        }
        made = needed(lambda: execute(page, code, names))
    if "words" in made:
        assert made["words"].view(np.uint32).tolist() == [0, 2, 4, 6]


def layer_weights() -> dict[str, np.ndarray]:
    from whet.decode import SHAPES

    shape, rng = SHAPES["tiny"], np.random.default_rng(3)
    made = {name: 0.1 * rng.standard_normal(size, np.float32) for name, size in shape.matrices().items()}
    norms = ("input_layernorm.weight", "post_attention_layernorm.weight")
    made |= {name: np.ones(shape.hidden, np.float32) for name in norms}
    return {f"model.layers.0.{name}": weight for name, weight in made.items()}
