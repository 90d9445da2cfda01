"""The model of docs/scale.md: its arithmetic, and that the page shows what the constants say."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
import cluster_model as model  # noqa: E402

PLAIN = model.Constants(
    machine="made up",
    point_us={"10": 1.0, "20": 0.5},
    call_ms=4.0,
    call_ms_per_worker=1.0,
    head_ns_per_byte=0.0,
    digest_ns_per_byte=0.0,
    wire_bytes_per_scalar=32.0,
    read_bytes_per_s=1e9,
    transfer_bytes_per_s=1e9,
    checks={},
    link_run=[2**20, 4, 4.0, 32e6],
)


def test_the_parts_of_one_sum():
    cost = model.predict(PLAIN, 2**22, 4, cores=2, link_bytes_per_s=1e9, from_head=True)
    assert cost.calls == pytest.approx(0.008) and cost.head == cost.read == 0
    assert cost.wire == pytest.approx(2**22 * 32 / 1e9)
    assert cost.compute == pytest.approx(2**20 * 0.5e-6 / 2)
    assert cost.largest == "compute" and cost.total == pytest.approx(0.008 + cost.wire + cost.compute)
    checked = replace(PLAIN, digest_ns_per_byte=2.0)
    late = model.predict(checked, 2**22, 4, cores=2, link_bytes_per_s=1e9, from_head=True)
    assert late.total - cost.total == pytest.approx(2**20 * 32 * 2e-9)
    own = model.predict(PLAIN, 2**22, 4, cores=2, link_bytes_per_s=1e9, from_head=False)
    assert own.wire == own.head == 0 and own.read == pytest.approx(2**20 * 32 / 1e9)


def test_points_cost_less_in_larger_shards():
    assert [PLAIN.us_per_point(2**size) for size in (5, 10, 15, 20, 30)] == pytest.approx([1, 1, 0.75, 0.5, 0.5])


def test_the_crossing_is_where_link_and_cores_take_as_long():
    """54 MB/s of scalars at 0.6 us per point, so 10 Gbit/s feed 23 cores."""
    at = replace(PLAIN, point_us={"20": 0.6})
    assert model.cores_fed(at, 10 * 125e6, head=False) == pytest.approx(23.4, abs=0.1)
    cores = model.cores_fed(at, 1e9, head=False)
    cost = model.predict(at, 2**25, 1, cores=cores, link_bytes_per_s=1e9, from_head=True)
    assert cost.wire == pytest.approx(cost.compute)
    slow_head = replace(at, head_ns_per_byte=2.0)  # twice as long as the link
    assert model.cores_fed(slow_head, 1e9, head=True) == pytest.approx(cores / 2)
    assert model.cores_fed(replace(at, head_ns_per_byte=0.5), 1e9, head=True) == pytest.approx(cores)


def test_a_shard_travels_while_the_next_one_is_prepared():
    for head_ns, head, wire in ((2.0, 2, 0.25), (0.5, 0.125, 1)):
        made = replace(PLAIN, head_ns_per_byte=head_ns)
        cost = model.predict(made, 2**22, 4, cores=2, link_bytes_per_s=1e9, from_head=True)
        assert (cost.head, cost.wire) == pytest.approx((head * 2**27 / 1e9, wire * 2**27 / 1e9))


def test_the_least_shard_hides_its_call():
    shard = model.least_shard(PLAIN, 16, cores=4)
    cost = model.predict(PLAIN, round(shard * 16), 16, cores=4, link_bytes_per_s=math.inf, from_head=False)
    assert 0.9 * model.OVERHEAD < cost.calls / cost.compute <= 1.001 * model.OVERHEAD


def test_a_slow_link_between_two_machines_carries_half():
    """Half of the scalars stay on the machine of the head."""
    told, measured = model.check_link(PLAIN)
    assert measured == 1000 and told == pytest.approx(6 + 2**20 * 32 / 32e6 * 1e3 + 2**20 * 0.5e-3)


def test_the_page_shows_what_was_measured():
    assert model.shown() == model.tables(model.load())
