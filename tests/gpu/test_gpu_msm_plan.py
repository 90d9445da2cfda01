"""Plans, budgets and knobs of the GPU engine: pure Python, no device."""

from __future__ import annotations

import random
import re
from collections import Counter
from dataclasses import replace

import pytest

from whet.errors import BadInput, DeviceOutOfMemory
from whet.gpu import Copy, Pass
from whet.gpu.adapter import BROWSER_FLOOR
from whet.msm.engine import MsmEngine
from whet.msm.webgpu.bucket_model import tasks_of
from whet.msm.webgpu.geometry import window_bits
from whet.msm.webgpu.knobs import SPECS, Choice
from whet.msm.webgpu.memory import memory_map
from whet.msm.webgpu.plan import build
from whet.protocol import choose_variant, parse_variant

CHOICES = [
    Choice("gpu_plain"),
    Choice("walker"),
    Choice("walker", slots=16, scratch="device", tpb=256),
    Choice("walker", slots=8, scratch="workgroup"),
    Choice("coop", g=1),
    Choice("coop", g=8),
    Choice("coop", g=64),
    Choice("pairs", g=8),
    Choice("walker", glv=True),
]


def total(n, choice=None, **given):
    return sum(row.size_bytes for row in memory_map(n, choice, **given))


@pytest.mark.parametrize("choice", CHOICES, ids=str)
@pytest.mark.parametrize("n", [1, 3, 257, 1 << 12, 1 << 17, 1 << 20])
def test_a_plan_stays_within_the_browsers_limits(choice, n):
    plan = build(n, choice, wide=False)
    for step in plan.program.steps:
        if not isinstance(step, Pass):
            continue
        assert len(step.bindings) - 1 <= BROWSER_FLOOR["max-storage-buffers-per-shader-stage"]
        assert max(step.workgroups) <= BROWSER_FLOOR["max-compute-workgroups-per-dimension"]
        assert min(step.workgroups) >= 1
        declared = re.findall(r"@binding\((\d+)\)", step.kernel.source)
        assert [int(place) for place in declared] == list(range(len(step.bindings)))
        assert workgroup_bytes(step.kernel.source) <= BROWSER_FLOOR["max-compute-workgroup-storage-size"]
    for name, size in plan.program.buffers.items():
        assert 0 < size <= BROWSER_FLOOR["max-storage-buffer-binding-size"], name
        assert size % 4 == 0
    used = {name for step in plan.program.steps if isinstance(step, Pass) for name in names(step)}
    used |= {step.target for step in plan.program.steps if isinstance(step, Copy)}
    assert used == set(plan.program.buffers)


def names(step):
    return [binding if isinstance(binding, str) else binding.buffer for binding in step.bindings]


def workgroup_bytes(source):
    constants = dict(re.findall(r"const (TPB|SLOTS|CHUNK) = (\d+)u;", source))
    total_bytes = 0
    for kind, count in re.findall(r"var<workgroup> \w+: array<([\w<>]+), ([\w *]+)>;", source):
        length = eval(count, {}, {name: int(value) for name, value in constants.items()})
        total_bytes += length * {"Fe": 32, "u32": 4, "atomic<u32>": 4, "vec2<u32>": 8}[kind]
    return total_bytes + 32 * source.count("var<workgroup> all_inverse: Fe") + 4 * source.count("var<workgroup> votes")


def test_default_memory():
    assert total(1 << 17) <= 45_000_000
    assert total(1 << 20) <= 165_000_000
    assert total(1 << 20, memory_budget=100_000_000) <= 100_000_000


@pytest.mark.parametrize("n", [1000, 1 << 14, 1 << 17])
def test_a_budget_is_kept_or_refused(n):
    """Down to the least there is, and one byte below that it is an error that names it."""
    with pytest.raises(DeviceOutOfMemory) as refused:
        memory_map(n, memory_budget=1)
    least = int(re.search(r"need ([\d,]+) bytes", refused.value.cause).group(1).replace(",", ""))
    assert total(n, memory_budget=least) == least
    with pytest.raises(DeviceOutOfMemory):
        memory_map(n, memory_budget=least - 1)
    for share in (1.05, 1.2, 1.5, 2.0):
        assert total(n, memory_budget=int(share * least)) <= share * least
    batches = [build(n, memory_budget=int(share * least)).geometry.batch_count for share in (1.05, 2.0, 9.0)]
    assert batches == sorted(batches, reverse=True)
    assert batches[-1] == 1


def test_the_map_names_every_buffer_of_the_program():
    for choice in CHOICES:
        for batches in (1, 3, 7):
            chosen = replace(choice, batches=batches)
            rows = {row.name: row.size_bytes for row in memory_map(5000, chosen)}
            plan = build(5000, chosen)
            assert rows.pop("staging") == plan.result_bytes
            assert rows == dict(plan.program.buffers)


def test_batches_cover_the_windows_once():
    for batches in range(1, 40):
        geometry = build(1000, Choice(batches=batches)).geometry
        windows = [w for one in geometry.batches for w in range(one.first_window, one.first_window + one.windows)]
        assert windows == list(range(geometry.all_windows))
        assert len(geometry.batches) <= batches


def test_the_passes_follow_each_other_batch_by_batch():
    plan = build(5000, Choice(batches=2))
    stages = [step.name for step in plan.program.steps if isinstance(step, Pass)]
    half = len(stages) // 2
    assert stages[:half] == stages[half:]
    order = ["count", "columns", "starts", "scatter", "classify", "totals", "list", "accumulate", "combine", "store"]
    assert list(dict.fromkeys(stages)) == [*order, "reduce", "gather"]


@pytest.mark.parametrize("seed", range(40))
def test_every_point_of_every_bucket_is_walked_once(seed, tried):
    rng = random.Random(seed)
    counts = [rng.choice((2, 2, 3, 5, 40, 700)) for _ in range(rng.randint(1, 60))]
    pieces, made = {}, Counter()
    for task, bucket, first, end, kind in tasks_of(counts, rng.choice((1, 2, 7, 64, 512))):
        pieces.setdefault(bucket, []).append((task, first, end, kind))
        made[task] += end - first - 1
    for bucket, count in enumerate(counts):
        found = pieces[bucket]
        assert [first for _, first, _, _ in found] == [0, *(end for _, _, end, _ in found[:-1])]
        assert found[-1][2] == count
        kinds = [kind for *_, kind in found]
        assert kinds == ["whole"] or kinds == ["tail"] * (len(kinds) - 1) + ["head"]
        tasks = [task for task, *_ in found]
        assert tasks == list(range(tasks[0], tasks[0] + len(tasks)))
    # Nobody waits for anybody: the first few tasks make one addition more, and the very first one on top.
    rest = [made[task] for task in range(1, len(made))]
    assert rest == sorted(rest, reverse=True) and max(rest, default=0) - min(rest, default=0) <= 1
    assert made[0] - max(rest, default=made[0] - 1) in (1, 2)
    tried("task walks covered")


def test_sources_do_not_depend_on_the_size():
    kernels = {step.kernel for n in (10, 1 << 12, 1 << 20) for step in build(n).program.steps if isinstance(step, Pass)}
    assert len(kernels) == len({kernel.entry for kernel in kernels})


@pytest.mark.parametrize(
    ("spelled", "marker"),
    [
        ("walker:slots=4,scratch=workgroup,tpb=96", "variant walker slots=4 scratch=workgroup tpb=96"),
        ("walker:scratch=device", "prefixes: array<Fe>"),
        ("coop:g=8", "variant coop g=8 tpb=64"),
        ("coop:g=64", "all_inverse"),
        ("pairs:slots=4,g=2", "variant pairs slots=4 g=2 tpb=64"),
        ("gpu_plain", "fn accumulate_plain"),
        ("walker:multiply=wide", "u64("),
    ],
)
def test_the_variants_marker_is_in_the_rendered_source(spelled, marker):
    variant = parse_variant(MsmEngine(), spelled)
    knobs = {knob.name: variant.knobs.get(knob.name, knob.default) for knob in SPECS[variant.name].knobs}
    plan = build(100, Choice.of(variant.name, knobs))
    sources = [
        step.kernel.source for step in plan.program.steps if isinstance(step, Pass) and step.name == "accumulate"
    ]
    assert all(marker in source for source in sources)
    other = build(100, Choice("walker" if variant.name != "walker" else "coop"))
    assert not any(marker in step.kernel.source for step in other.program.steps if isinstance(step, Pass))


@pytest.mark.parametrize(
    "spelled",
    [
        "walker:slots=3",
        "walker:slots=32",
        "walker:tpb=16",
        "walker:tpb=512",
        "walker:scratch=texture",
        "walker:scratch=workgroup,tpb=128",
        "walker:c=17",
        "walker:c=3",
        "coop:g=7",
        "coop:g=96",
        "coop:g=8,tpb=256",
        "coop:slots=2",
        "gpu_plain:tpb=64",
        "pairs:g=3",
        "pairs:scratch=private",
        "walker:batches=65",
    ],
)
def test_bad_knobs_are_refused_before_a_shader_is_rendered(spelled, tried):
    with pytest.raises(BadInput):
        parse_variant(MsmEngine(), spelled)
    tried("malformed inputs")


def test_window_bits_grow_with_the_size():
    sizes = [1, 1 << 6, 1 << 10, 1 << 14, 1 << 17, 1 << 20, 1 << 22]
    chosen = [window_bits(n) for n in sizes]
    assert chosen == sorted(chosen)
    assert chosen[0] == 4
    assert chosen[-1] == 16


@pytest.mark.parametrize(
    "bad", [{"n": 0}, {"n": 1 << 23}, {"n": 5, "resident": 4}, {"n": 5, "offset": 1, "resident": 5}]
)
def test_impossible_requests_are_refused(bad, tried):
    with pytest.raises(BadInput):
        build(**bad)
    tried("malformed inputs")


def test_a_variants_own_defaults_reach_the_planner():
    """Knobs that are not given: `pairs` shares an inversion among eight threads, `coop` has one for each."""
    for text, g in (("pairs", 8), ("pairs:g=2", 2), ("coop", 1), ("walker", 1)):
        variant = choose_variant("msm", list(SPECS.values()), text)
        assert Choice.of(variant.name, variant.knobs).g == g, text
