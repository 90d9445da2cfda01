"""The program of a step without any GPU: names, limits of a browser, and a memory map that the ledger confirms."""

from __future__ import annotations

import re
import subprocess
import sys
from itertools import product

import numpy as np
import pytest

from whet.decode import SHAPES, Schedule, Shape
from whet.decode.cases import random_trial
from whet.decode.engine import DecodeEngine
from whet.decode.stored import KV_TYPES, WEIGHT_TYPES
from whet.decode.webgpu.geometry import FC1_COPIES, STAGES, Geometry, grid, pieces
from whet.decode.webgpu.layer import WebGpuLayer
from whet.decode.webgpu.memory import memory_map
from whet.decode.webgpu.program import PASSES, step_program
from whet.errors import Unsupported
from whet.gpu import Span
from whet.protocol import Case, Variant
from whet.regions import load

WORKGROUP_BYTES = 16384
SIZES = {"f32": 4, "u32": 4, "vec4f": 16}


def every_program():
    """Named shapes and odd ones, all types, one vector and four."""
    odd = Shape(hidden=37, intermediate=50, q_heads=6, kv_heads=2, head_dim=48, own_token=False)
    for shape, kind, kv, batch in product((odd, *SHAPES.values()), WEIGHT_TYPES, KV_TYPES, (1, 5)):
        g = Geometry(batch=batch, page_size=64, pages=8, table_width=8, kv_type=kv, wo_split=3, rotary=True)
        yield shape, g, step_program(shape, pieces(shape, dict.fromkeys(shape.matrices(), kind)), g)


def workgroup_bytes(source):
    constants = {name: value for name, value in re.findall(r"const (\w+) = (\d+)u;", source)}
    total = 0
    for kind, count in re.findall(r"var<workgroup> \w+: array<(\w+), ([^>]+)>", source):
        words = [int(constants.get(word, word.rstrip("u"))) for word in re.split(r" \* ", count)]
        total += SIZES[kind] * int(np.prod(words))
    return total


def test_passes_are_the_work_regions_of_the_cpu_in_order(tmp_path):
    trial = random_trial(3)
    layer = trial.layer(workers=1)
    trial.run(layer, timed=True)
    layer.save_regions(tmp_path / "step.npy")
    regions = load(tmp_path / "step.npy").schema.regions
    assert tuple(region.name for region in regions if region.role == "work") == PASSES
    for _, _, program in every_program():
        assert tuple(dict.fromkeys(step.name for step in program.steps)) == PASSES


def test_every_pass_stays_within_what_a_browser_grants():
    seen = set()
    for shape, _, program in every_program():
        for step in program.steps:
            assert len(step.bindings) - 1 <= 8, "storage buffers"
            assert all(1 <= size <= 65535 for size in step.workgroups)
            assert workgroup_bytes(step.kernel.source) <= WORKGROUP_BYTES, step.name
            assert "@workgroup_size(256)" in step.kernel.source
            parts = [binding for binding in step.bindings if isinstance(binding, Span)]
            assert all(part.offset_bytes % 256 == 0 for part in parts)
            names = [binding for binding in step.bindings if isinstance(binding, str)]
            assert all(program.buffers.get(name, 0) <= 128 << 20 for name in names)
            seen.add(step.kernel)
        assert all(piece.data_bytes <= 128 << 20 for piece in pieces(shape, dict.fromkeys(shape.matrices(), "f32")))
    # Types and tile are in the source, everything else is in uniforms.
    assert len(seen) == 4 * len(WEIGHT_TYPES) * 2 + len(KV_TYPES) + 2
    assert max(workgroup_bytes(kernel.source) for kernel in seen) > 13000, "the count sees the arrays"


def test_pieces_cover_every_row_once():
    shape = SHAPES["llama-8b"]
    for binding_bytes in (2 << 20, 5 << 20, 128 << 20):
        cut = pieces(shape, dict.fromkeys(shape.matrices(), "f32"), binding_bytes=binding_bytes)
        for stage, names in STAGES.items():
            mine = [piece for piece in cut if piece.stage == stage]
            rows = sum(shape.matrices()[name][0] for name in names)
            assert [piece.first_row for piece in mine] == list(np.cumsum([0] + [p.rows for p in mine])[:-1])
            assert sum(piece.rows for piece in mine) == rows
            assert all(piece.data_bytes <= binding_bytes for piece in mine)


def test_many_workgroups_go_in_two_dimensions():
    for groups in (1, 65535, 65536, 524288, 10**9):
        x, y, z = grid(groups, 3)
        assert x <= 65535 and y <= 65535 and z == 3 and groups <= x * y < groups + x


def test_what_does_not_fit_names_the_limit(tried):
    shape = SHAPES["llama-8b"]
    cut = pieces(shape, dict.fromkeys(shape.matrices(), "int8"))
    fits = {"batch": 1, "page_size": 64, "pages": 8, "table_width": 8, "kv_type": "bf16"}
    for change, said in (
        ({"pages": 1025}, "bytes of keys"),
        ({"batch": 8, "wo_split": 4096}, "bytes of slots"),
        ({"batch": 8, "wo_split": 32768}, "slots of W_O"),
    ):
        with pytest.raises(Unsupported, match=said):
            step_program(shape, cut, Geometry(**{**fits, **change}))
    with pytest.raises(Unsupported, match="smaller type"):
        pieces(shape, dict.fromkeys(shape.matrices(), "f32"), binding_bytes=4096)
    mixed = dict.fromkeys(shape.matrices(), "f32") | {"mlp.up_proj.weight": "bf16"}
    with pytest.raises(Unsupported, match="gate and up"):
        pieces(shape, mixed)
    tried("malformed inputs", 5)


def test_a_program_is_built_without_a_gpu():
    script = (
        "import sys; from whet.decode.cases import random_trial; from whet.decode.webgpu.program import build\n"
        "from whet.decode.webgpu.geometry import Geometry\n"
        "t = random_trial(1); g = Geometry(batch=1, page_size=4, pages=1, table_width=1, kv_type='f32')\n"
        "p = build(t.shape, t.matrices, t.norms, g)\n"
        "assert all(p.buffers[n] == w.nbytes for n, w in p.constants.items()) and len(p.steps) >= 7\n"
        "assert 'wgpu' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


@pytest.mark.gpu
@pytest.mark.xdist_group("gpu")
def test_the_map_is_the_ledger(decode_device, tried):
    for seed in range(60, 80):
        trial = random_trial(seed)
        layer = WebGpuLayer(trial.shape, trial.matrices, trial.norms, decode_device)
        angles = None if trial.cosine is None else (trial.cosine, trial.sine)
        schedule = Schedule(wo_split=1 + seed % 4, fc1=("shared", "recomputed")[seed % 2])
        decode_device.ledger.peak_bytes = 0
        layer.step(trial.x, trial.cache, angles, trial.gate, schedule=schedule, timed=True)
        g = Geometry(
            batch=trial.cache.batch,
            page_size=trial.cache.k.shape[1],
            pages=len(trial.cache.k),
            table_width=trial.cache.table.shape[1],
            kv_type=trial.cache.kv_type,
            rotary=angles is not None,
            gated=trial.gate is not None,
            wo_split=schedule.wo_split,
            fc1_copies=1 if schedule.fc1 == "shared" else FC1_COPIES,
        )
        rows = memory_map(trial.shape, {name: m.kind for name, m in trial.matrices.items()}, g)
        kept = {layer.label + row.name: row.size_bytes for row in rows if row.lifetime in ("layer", "step")}
        assert decode_device.ledger.live == kept
        more = [row.size_bytes for row in rows if row.lifetime in ("read", "run")]
        # Timestamps are read through staging as well; results are read when the timestamps are gone.
        assert decode_device.ledger.peak_bytes == sum(kept.values()) + max(more[0], 2 * more[1])
        layer.close()
        assert not decode_device.ledger.live
    tried("memory maps equal to the ledger", 20)


def test_the_engine_states_the_map_of_its_cases():
    engine = DecodeEngine()
    case = Case(sizes={"batch": 2, "length": 100, "page": 16, "hidden": 64}, profile="int8-bf16")
    rows = {row.name: row.size_bytes for row in engine.memory_map(case, Variant("webgpu", {"wo_split": 3}))}
    assert rows["k"] == 2 * 7 * 16 * 32 * 2 and rows["slots"] == 3 * 2 * 64 * 4 and rows["fc2.0.weights"] == 64 * 176
    assert not engine.memory_map(case, Variant("fused"))


@pytest.mark.gpu
@pytest.mark.xdist_group("gpu")
def test_a_step_is_not_timed_unless_asked(decode_device):
    trial = random_trial(5)
    layer = trial.layer(device=decode_device)
    trial.run(layer, timed=False)
    assert all(taken is None for _, taken in layer.gpu.passes_ns) and layer.gpu.span_ns is None
    trial.run(layer, timed=True)
    taken_ns = [taken for _, taken in layer.gpu.passes_ns]
    assert min(taken_ns) >= 0 and sum(taken_ns) <= layer.gpu.span_ns
    layer.close()
