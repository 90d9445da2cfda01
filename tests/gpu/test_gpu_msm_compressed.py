"""Points of which x and a sign stay: roots against Python's integers, sums below the floor, and planted faults."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from msm_on_gpu import Subject, answered, loaded, run
from test_gpu_msm_pieces import floor_of
from whet._native import curve

from needs import needed
from whet.errors import BadInput, WrongAnswer
from whet.gpu import Pass, open_device
from whet.gpu.running import run as run_program
from whet.msm import Engine
from whet.msm.point import P, R
from whet.msm.webgpu import estimate
from whet.msm.webgpu.finish import signs, upload_scalars
from whet.msm.webgpu.geometry import ROOT_POINTS
from whet.msm.webgpu.knobs import Choice
from whet.msm.webgpu.layout import FIELDS, R_BITS
from whet.msm.webgpu.memory import fit
from whet.msm.webgpu.pieces import place
from whet.msm.webgpu.plan import build
from whet.msm.webgpu.request import Request
from whet.msm.webgpu.sizes import total_bytes
from whet.msm.webgpu.sums import FEATURES, WebGpuSums

STRIDE = FIELDS.index("stride")
PLACE = [FIELDS.index(name) for name in ("offset", "points", "first_y")]
# Infinity, a point and its opposite (one x), both again, and points of their own; scalars that reach every window.
MEETING = [0, 7, R - 7, 7, 7, R - 7, 0, *range(1, 60), *(3**i % R for i in range(100, 134))]


def meeting(seed=1):
    return Subject(MEETING, Subject.of("random", len(MEETING), seed).scalars)


def test_a_million_points_are_within_64_megabytes():
    request = Request(1 << 20, Choice(points="compressed"), 1 << 20, memory_budget=64_000_000)
    placement = place(request)
    piece = placement.piece
    assert (placement.points, placement.pieces, piece.n, piece.resident) == ("compressed", 4, 1 << 18, 1 << 20)
    assert total_bytes(fit(piece), piece.choice, piece.resident) <= 64_000_000


@pytest.mark.parametrize(("upload_ns", "chosen"), [(2.5, "pieces"), (40.0, "compressed")])
def test_the_faster_of_the_two_by_the_model_is_chosen(monkeypatch, upload_ns, chosen):
    """Sending 64 bytes is cheaper than a root, unless bytes are slow."""
    monkeypatch.setattr(estimate, "UPLOAD_NS_PER_BYTE", upload_ns)
    for n in (5000, 1 << 17, 1 << 20):
        request = Request(n, Choice(), n, memory_budget=floor_of(n, Choice()) * 3 // 4)
        placement = place(request)
        assert placement.points == chosen
        by_hand = [place(replace(request, choice=Choice(points=one))) for one in ("pieces", "compressed")]
        assert placement.point.estimated_ns == min(one.point.estimated_ns for one in by_hand)
    # All x alone are more than this, so it is no choice.
    assert place(replace(request, memory_budget=32 * n)).points == "pieces"


def test_roots_are_cut_into_short_passes():
    """A pass is never cut by time, so no pass has many roots; together they have each point once."""
    for n, offset in ((1, 0), (ROOT_POINTS, 5), (3 * ROOT_POINTS + 1, 0)):
        plan = build(n, Choice(points="compressed"), resident=n + offset, offset=offset)
        roots = [step for step in plan.program.steps if isinstance(step, Pass) and step.name == "decompress"]
        params = plan.program.constants["params"]
        records = [params[step.bindings[0].offset_bytes // 4 :] for step in roots]
        assert sum(step.cost_ns for step in roots) > n * estimate.ROOT_ADDITIONS * estimate.ADDITION_NS
        covered = [(int(record[STRIDE]), 128 * step.workgroups[0]) for record, step in zip(records, roots, strict=True)]
        assert [first for first, _ in covered] == list(range(0, n, ROOT_POINTS))
        assert all(reach <= ROOT_POINTS for _, reach in covered) and sum(reach for _, reach in covered) >= n
        assert {tuple(record[PLACE]) for record in records} == {(offset, n, offset)}


def test_signs_are_those_of_plain_numbers():
    points = meeting().points
    odd = [int.from_bytes(row.tobytes()[32:], "little") & 1 for row in curve.write_points(points)]
    words = signs(points)
    assert [int(words[i // 32]) >> i % 32 & 1 for i in range(len(points))] == odd
    assert len(words) == 4 and 0 < sum(odd) < len(odd)


def device_y(words):
    """Plain numbers from the device's form, with Python's integers."""
    unscale = pow(1 << R_BITS, -1, P)
    return [int.from_bytes(row.tobytes(), "little") * unscale % P for row in words.reshape(-1, 8)]


@pytest.fixture(scope="module")
def full_device():
    """With 64-bit integers where the adapter has them."""
    with needed(lambda: open_device(debug=True, features=FEATURES)) as opened:
        yield opened


@pytest.mark.gpu
@pytest.mark.xdist_group("gpu")
@pytest.mark.parametrize("multiply", ["portable", "wide"])
@pytest.mark.parametrize(("first", "size"), [(0, 100), (3, 61)])
def test_roots_are_right(full_device, multiply, first, size, tried):
    """y^2 = x^3 + 3 with the parity of the point's own y, infinity kept, from an offset on as well."""
    if multiply == "wide" and "shader-int64" not in full_device.info.features:
        pytest.skip("this adapter has no 64-bit integers")
    subject = meeting().part(first, size)
    choice = Choice("gpu_plain", points="compressed", multiply=multiply)
    with loaded(full_device, subject, choice, offset=first) as (plan, buffers):
        full_device.submit(plan.batches[0].to_buckets[:2])
        found = device_y(full_device.read(buffers["points_y"]))
    rows = curve.write_points(subject.points)[first : first + size]
    for (x, y), root in zip(coordinates(rows), found, strict=True):
        infinite = (x, y) == (0, 0)
        assert (root * root - x**3 - 3) % P == 0 or (infinite and root == 0)
        assert root == y
        tried("differential operations")


def coordinates(rows):
    return [tuple(int.from_bytes(row.tobytes()[at : at + 32], "little") for at in (0, 32)) for row in rows]


CHOICES = {
    "walker": Choice(threads=64, batches=2),
    "portable": Choice(threads=64, batches=3, multiply="portable"),
    "glv": Choice(threads=64, batches=1, glv=True),
    "pairs": Choice("pairs", g=4, threads=64, batches=1),
    "coop": Choice("coop", g=8, threads=64, batches=1),
    "plain": Choice("gpu_plain", batches=1),
}


@pytest.mark.gpu
@pytest.mark.xdist_group("gpu")
@pytest.mark.parametrize("name", CHOICES)
def test_compressed_sums_are_right_and_the_map_is_the_ledger(device, name, tried):
    """Below the floor of points that stay; from an offset on, several vectors, and again."""
    choice, n = CHOICES[name], 601
    subject = Subject.of("collide" if name == "plain" else "random", n)
    subject = Subject([0, 5, R - 5, 5, *subject.logs[4:]], subject.scalars)
    floor = floor_of(n, choice)
    sums = WebGpuSums(subject.points, replace(choice, points="compressed"), memory_budget=floor - 1)
    try:
        sums.device.ledger.peak_bytes = 0
        for _ in range(2):
            assert sums.compute(subject.limbs, 0).limbs.tobytes() == subject.expected
        rows = {row.name: row.size_bytes for row in sums.memory_map()}
        assert sums.device.ledger.peak == rows
        assert sums.device.ledger.peak_bytes < floor
        images = 2 if choice.glv else 1
        assert (rows["points_x"], rows["points_y"], rows["signs"]) == (32 * n * images, 32 * 301, 4 * 19)
        part = subject.part(1, 310)
        assert sums.compute(part.limbs, 1).limbs.tobytes() == part.expected
        vectors = [subject.limbs[::-1].copy(), subject.limbs]
        assert sums.batch(vectors)[1].limbs.tobytes() == subject.expected
        tried("sums on a GPU", 4)
    finally:
        sums.close()


ROOT = "decompress"
FAULTS = {
    "wrong sign": (ROOT, "is_odd(index) != (", "is_odd(index) == ("),
    "sign of the Montgomery form": (ROOT, "(plain.lo.x & 1u)", "(value.lo.x & 1u)"),
    "sign of another point": (ROOT, "if ((index & 1u) != 0u) { word >>= 1u; }", ""),
    "signs not found from an offset on": (ROOT, "is_odd(index) !=", "is_odd(place) !="),
    "x not found from an offset on": (ROOT, "params.offset + place", "place"),
    "infinity gets a y": (ROOT, "FE_ZERO, infinite)", "FE_ZERO, false)"),
    "another curve": (ROOT, "fe_add(value, CURVE_B)", "fe_add(value, FE_ONE)"),
    "one step too few": (ROOT, "step == ROOT_STEPS;", "step == ROOT_STEPS - 1u;"),
    "a power forgotten": (ROOT, "if (step == 4u) { fifth = value; }", ""),
    "y not found from an offset on": ("*", "row - params.first_y", "row"),
}


@pytest.mark.gpu
@pytest.mark.xdist_group("gpu")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_the_roots_shows(shared_device, fault, tried):
    """In the sum, which gpu_plain computes without any other kernel of a variant, or in the points without a root."""
    kernel, old, new = FAULTS[fault]
    subject = meeting().part(3, 97)
    taken = []

    def plant(entry, source):
        if kernel not in ("*", entry) or old not in source:
            return source
        taken.append(entry)
        return source.replace(old, new)

    choice = Choice("gpu_plain", points="compressed", multiply="portable")
    with loaded(shared_device, subject, choice, offset=3, plant=plant) as (plan, buffers):
        answer, work = run(shared_device, plan, buffers, subject)
    assert taken and (answer != subject.expected or work["rootless"])
    tried("planted faults")


def off_the_curve(points, place):
    """The same points but one, whose x has no y at all."""
    rows = np.array(curve.write_points(points))
    x = next(x for x in range(2, 100) if pow(x**3 + 3, (P - 1) // 2, P) == P - 1)
    rows[place] = np.frombuffer(x.to_bytes(32, "little") + (1).to_bytes(32, "little"), np.uint64)
    return rows


@pytest.mark.gpu
@pytest.mark.xdist_group("gpu")
def test_points_off_the_curve_are_refused(device, tried):
    """When they are given; and if nobody was to look at them then, by the missing root."""
    subject = meeting()
    rows, variant = off_the_curve(subject.points, 41), "walker:threads=64,points=compressed"
    with pytest.raises(BadInput, match="41"):
        Engine(rows, device="webgpu", variant=variant)
    with Engine(rows, device="webgpu", variant=variant, check=False, verify=False) as engine:
        with pytest.raises(BadInput, match="point 41 is not on the curve") as caught:
            engine(subject.limbs)
        assert caught.value.index == 41 and caught.value.cure
        part = subject.part(0, 41)
        assert engine.view(0, 41)(part.limbs).to_bytes() == part.expected, "the others have theirs"
    tried("malformed inputs", 2)


@pytest.mark.gpu
@pytest.mark.xdist_group("gpu")
def test_a_root_that_is_not_checked_would_pass(shared_device, tried):
    """Without the comparison a point that has no y is counted by nothing."""
    points, unchecked = off_the_curve(meeting().points, 41), "if (!infinite && infinite)"
    native = curve.read_points(points, False, False)[0]
    counts = []
    for plant in (
        None,
        lambda entry, source: source.replace("if (!fe_equal(squared, cubic) && !infinite)", unchecked),
    ):
        subject = meeting()
        subject.points = native
        choice = Choice("gpu_plain", points="compressed", multiply="portable")
        with loaded(shared_device, subject, choice, plant=plant) as (plan, buffers):
            planes = upload_scalars(subject.limbs, geometry=plan.geometry)
            run_program(shared_device, plan.program, plan.scalars(planes))
            result = shared_device.read(buffers["result"])
        counts.append(plan.counters(result)["rootless"])
        assert answered(plan, result) != subject.expected
    assert counts == [1, 0]
    tried("planted faults")


@pytest.mark.gpu
@pytest.mark.xdist_group("gpu")
def test_a_device_that_finds_no_root_is_not_believed(device, monkeypatch):
    """The points are on the curve, so it is the device that is wrong."""
    subject = meeting()
    sums = WebGpuSums(subject.points, Choice("gpu_plain", points="compressed"), verify=False)
    try:
        counters = type(sums._planned(sums.device, subject.n, 0, 1)).counters
        with monkeypatch.context() as patch:
            patch.setattr("whet.msm.webgpu.plan.Plan.counters", lambda *given: {**counters(*given), "rootless": 2})
            with pytest.raises(WrongAnswer, match="no y for 2 points"):
                sums.compute(subject.limbs, 0)
        assert sums.compute(subject.limbs, 0).limbs.tobytes() == subject.expected
    finally:
        sums.close()
