"""The memory map against the ledger of what was really allocated, what budgets do to it, and `whet memory`."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest

from needs import needed
from whet.cli import app
from whet.errors import BadInput, DeviceOutOfMemory, Unsupported
from whet.gpu import Pass
from whet.msm.webgpu.estimate import passes
from whet.msm.webgpu.frontier import at, frontier
from whet.msm.webgpu.knobs import Choice
from whet.msm.webgpu.memory import fit, memory_map
from whet.msm.webgpu.plan import build
from whet.msm.webgpu.request import Request
from whet.msm.webgpu.sizes import total_bytes

VARIANTS = {
    "walker": Choice(),
    "walker device": Choice(scratch="device", slots=4, tpb=128),
    "walker glv": Choice(glv=True),
    "plain": Choice(accumulator="gpu_plain"),
    "coop alone": Choice(accumulator="coop", g=1),
    "coop of a workgroup": Choice(accumulator="coop", g=64),
    "few threads": Choice(threads=64),
    "pairs": Choice(accumulator="pairs", g=8),
    "compressed": Choice(points="compressed"),
}
SIZES = (1, 2, 33, 255, 1000, 5000)


@pytest.mark.gpu
@pytest.mark.xdist_group("gpu")
@pytest.mark.parametrize("name", VARIANTS)
def test_the_map_is_the_ledger_to_the_byte(device, name, tried):
    device.debug = False
    for n in SIZES:
        for batches in (0, 1, 2, 5, 64):
            choice = replace(VARIANTS[name], batches=batches)
            device.ledger.peak_bytes = 0
            made = device.allocate(build(n, choice).program)
            device.read(made["result"])
            rows = memory_map(n, choice)
            assert device.ledger.peak == {row.name: row.size_bytes for row in rows}, (n, batches)
            assert device.ledger.peak_bytes == sum(row.size_bytes for row in rows)
            for buffer in made.values():
                device.release(buffer)
            tried("maps equal to the ledger")
    assert device.ledger.live_bytes == 0


def test_the_sizes_that_were_promised():
    def whole(n, **given):
        return sum(row.size_bytes for row in memory_map(n, **given))

    assert whole(1 << 17) <= 45_000_000
    assert whole(1 << 20) <= 165_000_000
    assert whole(1 << 20, memory_budget=100_000_000) <= 100_000_000


def test_every_budget_is_kept_or_refused(tried):
    rng = random.Random(5)
    for _ in range(60):
        n = rng.choice([100, 1 << rng.randrange(8, 21), rng.randrange(1000, 1 << 20)])
        choice = rng.choice(list(VARIANTS.values()))
        points = frontier(Request(n, choice, n))
        floor, most = points[-1].total_bytes, points[0].total_bytes
        budget = rng.randrange(max(1, floor - floor // 10), most + 1000)
        request = Request(n, choice, n, memory_budget=budget)
        if budget < floor:
            with pytest.raises(DeviceOutOfMemory):
                fit(request)
        else:
            geometry = fit(request)
            assert floor <= total_bytes(geometry, choice, n) <= budget
            for count in range(1, geometry.all_windows + 1):
                try:
                    other = fit(replace(request, choice=replace(choice, batches=count)))
                except DeviceOutOfMemory:
                    continue
                assert at(request, geometry).estimated_ns <= at(request, other).estimated_ns
        tried("memory budgets")


def test_the_frontier_is_what_budgets_buy(tried):
    """Every point is the plan for its bytes as the budget, to the byte; one byte less gives the next."""
    for choice in VARIANTS.values():
        for n in (300, 1 << 14, 1 << 17, 1 << 20):
            points = frontier(Request(n, choice, n))
            sizes = [p.total_bytes for p in points]
            assert sizes == sorted(sizes, reverse=True) and len(set(sizes)) == len(sizes)
            for point in points:
                rows = memory_map(n, choice, memory_budget=point.total_bytes)
                assert sum(row.size_bytes for row in rows) == point.total_bytes
            with pytest.raises(DeviceOutOfMemory):
                memory_map(n, choice, memory_budget=sizes[-1] - 1)
            tried("frontiers")


def test_few_batches_with_slices_go_before_many_without():
    """Sixteen batches with whole scalars fit these bytes too, and would take longer."""
    geometry = fit(Request(1 << 20, Choice(), 1 << 20, memory_budget=118_500_000))
    assert (geometry.batch_count, geometry.sliced) == (6, True)
    slower = [p for p in frontier(Request(1 << 20, Choice(), 1 << 20)) if p.batches == 16 and not p.sliced]
    assert not slower, "the frontier shows what a budget gives"


@pytest.mark.gpu
@pytest.mark.xdist_group("gpu")
def test_the_command_measures_some_of_the_frontier(capsys):
    words = ["memory", "msm", "--n", "300", "--variant", "walker:threads=64,c=8", "--measure"]
    needed(lambda: app.invoke([*words, "--json"]))
    rows = json.loads(capsys.readouterr().out)["frontier"]
    timed = [row for row in rows if row["measured_ns"] is not None]
    assert timed[0] is rows[0] and timed[-1] is rows[-1]
    assert 3 <= len(timed) < len(rows)
    assert all(row["measured_ns"] > 0 for row in timed)


@pytest.mark.parametrize("name", VARIANTS)
def test_passes_are_counted_as_they_are_recorded(name):
    for n, batches in ((1, 1), (300, 3), (5000, 2), (40000, 0)):
        choice = replace(VARIANTS[name], batches=batches)
        plan = build(n, choice)
        recorded = sum(isinstance(step, Pass) for step in plan.program.steps)
        assert passes(plan.geometry, choice) == recorded
        assert at(plan.request, plan.geometry).passes == recorded


def test_the_command_prints_the_map_without_a_gpu(capsys, monkeypatch):
    monkeypatch.setattr("whet.gpu.adapter.adapters", lambda: pytest.fail("no adapter may be asked"))
    app.invoke(["memory", "msm", "--n", "2^20", "--budget", "100MB", "--json"])
    said = json.loads(capsys.readouterr().out)
    assert said["total_bytes"] == sum(row["size_bytes"] for row in said["map"]) <= said["budget_bytes"] == 100_000_000
    assert said["floor_bytes"] <= said["total_bytes"]
    assert {row["name"] for row in said["map"]} >= {"points_x", "scalars", "buckets", "staging"}
    app.invoke(["memory", "msm", "--n", "2^17"])
    shown = capsys.readouterr().out
    for words in ("points_x", "total", "floor:", "model"):
        assert words in shown


@pytest.mark.parametrize(
    ("words", "kind", "said"),
    [
        (["--budget", "100kB"], BadInput, "at least"),
        (["--budget", "lots"], BadInput, "budget"),
        (["--n", "0"], BadInput, "0 points"),
        (["--variant", "pippenger"], BadInput, "pippenger"),
        (["--variant", "walker:tpb=7"], BadInput, "tpb"),
    ],
)
def test_the_command_explains_what_cannot_be(words, kind, said, tried):
    with pytest.raises(kind, match=said) as caught:
        app.invoke(["memory", "msm", *words])
    assert caught.value.cure
    tried("malformed inputs")


def test_other_engines_have_no_lever():
    with pytest.raises(Unsupported, match="graph"):
        app.invoke(["memory", "graph"])
