"""What people reach for: integers as numpy and Python have them, engines over open files, single points, views."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence

import numpy as np
import pytest
from whet._native import msm as native

import point_files as pf
from whet.errors import BadInput, Cancelled, Unsupported
from whet.msm import Engine, Point, Scalars, Srs, inputs, msm
from whet.msm.oracle import naive_sum
from whet.msm.point import R
from whet.msm.points import write_scalars
from whet.msm.validate import read_points, read_scalars

N = 60
POINTS = pf.multiples(N)  # point i is (i + 1) G


def wanted(scalars, first: int = 0) -> Point:
    return naive_sum(POINTS[first : first + len(scalars)], [int(s) % R for s in scalars])


@pytest.fixture
def srs(tmp_path):
    path = tmp_path / "srs.bin"
    path.write_bytes(b"".join(pf.affine(point, "little", montgomery=True) for point in POINTS))
    with Srs.open(path, "raw-le-mont") as opened:
        yield opened


@pytest.fixture
def witness(tmp_path):
    rng = random.Random(2)
    values = [rng.randrange(R) for _ in range(N - 20)]
    write_scalars(tmp_path / "witness", values)
    with Scalars.open(tmp_path / "witness", "raw-le") as opened:
        yield opened, values


@pytest.mark.parametrize("dtype", ["int16", "int32", "int64", "uint16", "uint32", ">i8", object])
def test_arrays_of_integers(dtype):
    values = np.array([0, 1, 2, 30_000, 77, 12_345], dtype)
    before = values.copy()
    assert msm(POINTS[:6], values) == wanted(values)
    assert Engine(POINTS[:6])(values) == wanted(values)
    assert Engine(POINTS[:3])(values[::2]) == wanted(values[::2])
    assert (values == before).all()
    if np.dtype(dtype).kind == "i":
        with pytest.raises(BadInput, match="scalar 1 is negative") as caught:
            msm(POINTS[:3], np.array([1, -1, -2], dtype))
        assert caught.value.index == 1


def test_arrays_that_stay_bytes_limbs_or_nonsense():
    for values in (np.ones(4, np.uint64), np.ones(5, np.int8), np.ones(4, bool), np.ones(4), np.array(["1"], object)):
        with pytest.raises(BadInput):
            msm(POINTS[: len(values)], values)
    assert msm(POINTS[:1], np.array([5] + [0] * 31, np.uint8)) == wanted([5])
    big = np.array([R - 1, 1 << 255, 0], object)
    assert msm(POINTS[:3], big) == wanted(big)


class Counted(int):
    """An integer of another type."""


class Stands:
    def __init__(self, value, also=lambda: None):
        self.value, self.also = value, also

    def __index__(self):
        self.also()
        return self.value


def test_integers_of_every_kind_are_read_alike(tried):
    rng = random.Random(5)
    plain = [0, 1, 255, 256, 2**63, 2**64 - 1, 2**64, 2**128 + 5, R, 2**255, 2**256 - 1]
    plain += [rng.randrange(2**256) for _ in range(20)]
    expected = inputs.to_limbs(plain)
    kinds = [
        plain, tuple(plain), [Counted(v) for v in plain], [Stands(v) for v in plain], np.array(plain, object),
        [np.uint64(v) if v < 2**64 else v for v in plain], Wrapped(plain),
    ]  # fmt: skip
    for given in kinds:
        assert (read_scalars(given) == expected).all()
    assert (read_scalars(range(300))[:, 0] == np.arange(300)).all() and read_scalars([]).shape == (0, 4)
    assert (read_scalars([True, False])[:, 0] == [1, 0]).all()
    for bad in (-1, 2**256, 1.0, None, "1", b"1", 2**9999, -(2**9999), Stands(-1), Stands("x"), np.float64(1)):
        for place in (0, 3, len(plain)):
            given = [*plain[:place], bad, *plain[place:], bad]
            with pytest.raises(BadInput, match=f"scalar {place} ") as caught:
                read_scalars(given)
            assert caught.value.index == place
    tried("malformed inputs", 33)


class Wrapped:
    """A sequence that is neither list nor tuple."""

    def __init__(self, items):
        self._items = items

    def __len__(self):
        return len(self._items)

    def __getitem__(self, index):
        return self._items[index]


Sequence.register(Wrapped)


def test_a_list_that_changes_while_it_is_read():
    items: list = [1, 2, 3]
    items.insert(1, Stands(7, also=items.clear))
    limbs, converted = native.integers(items)
    assert converted == 2 and len(limbs) == 4
    growing: list = []
    growing += [Stands(1, also=lambda: growing.append(5)), 2]
    assert native.integers(growing)[1] == 2


def test_pairs_are_read_as_before(tried):
    forms = [POINTS, [list(p) for p in POINTS], [Point(*p) for p in POINTS], tuple(POINTS)]
    forms.append([tuple(map(Counted, p)) for p in POINTS])
    expected = read_points(b"".join(pf.affine(p, "little") for p in POINTS))
    for given in forms:
        assert (read_points(given) == expected).all()
    with_infinity = read_points([None, POINTS[0], None])
    assert not with_infinity[[0, 2]].any() and (with_infinity[1] == expected[0]).all()
    tried("forms of points", len(forms))


def test_many_points_are_checked_on_all_cores_and_the_first_bad_one_is_named(tried):
    rows = np.tile(read_points(POINTS[:1]), (40_000, 1))
    assert (read_points(rows, montgomery=True) == rows).all()
    rng = random.Random(8)
    for _ in range(12):
        bad = sorted(rng.sample(range(40_000), 3))
        spoiled = rows.copy()
        spoiled[bad, 4] ^= 1
        with pytest.raises(BadInput, match=f"point {bad[0]} is not on the curve"):
            read_points(spoiled, montgomery=True)
    for index in (0, 19_999, 20_000, 39_999):
        spoiled = rows.copy()
        spoiled[index] = 2**64 - 1
        with pytest.raises(BadInput, match=f"point {index} has a coordinate"):
            read_points(spoiled, montgomery=True)
    tried("malformed inputs", 16)


@pytest.mark.parametrize("options", [{}, {"memory_budget": 1_500_000}, {"variant": "plain"}, {"backend": "portable"}])
def test_an_engine_over_an_open_file(srs, witness, options):
    file, values = witness
    with Engine(srs, **options) as engine:
        assert len(engine) == N
        assert engine(list(range(N))) == wanted(range(N))
        assert engine.view(20, len(file))(file) == wanted(values, 20)
    for flags in ({"endian": "big"}, {"montgomery": True}):
        with pytest.raises(BadInput, match="a file knows"):
            Engine(srs, **flags, **options)
    with pytest.raises(BadInput, match="a file of scalars in the place of points"):
        Engine(file, **options)


def test_commitments_to_files_of_scalars(srs, witness):
    file, values = witness
    assert srs.commit(file) == wanted(values)
    assert srs.commit(file, offset=7) == wanted(values, 7)
    assert srs.commit_many([file, [1, 2]]) == [wanted(values), wanted([1, 2])]
    assert msm(POINTS[: len(values)], file) == wanted(values)
    assert msm(srs, list(range(N))) == wanted(range(N))
    with pytest.raises(BadInput, match="a file of points in the place of scalars"):
        srs.commit(srs)
    for flags in ({"endian": "big"}, {"montgomery": True}):
        with pytest.raises(BadInput, match="a file knows"):
            srs.commit(file, **flags)


def test_single_points_of_a_file(srs):
    points = [Point(*pair) for pair in POINTS]
    assert srs[0] == Point(1, 2) and srs[N - 1] == srs[-1] == points[-1] and srs[np.int64(4)] == points[4]
    assert srs[3:6] == points[3:6] and srs[6:3] == [] and srs[-2:] == points[-2:]
    assert list(srs) == points and points[5] in srs
    for index in (N, -N - 1, 1.5, None, "0", slice(0, 9, 2)):
        with pytest.raises(BadInput) as caught:
            srs[index]
        assert caught.value.cure
    assert srs[1] + srs[2] == srs[4] and 5 * srs[0] == srs[4]


def test_compressed_forms_of_points(tmp_path, tried):
    readers = {"gnark": "eigenda", "ark": "ark-compressed", "halo2": "halo2-processed", "aztec": "bb-compressed"}
    points = [Point(*pair) for pair in POINTS[:8]] + [-Point(*pair) for pair in POINTS[:8]]
    for form, reader in readers.items():
        rows = [point.compress(form) for point in points]
        assert [Point.decompress(row, form) for row in rows] == points
        head = {"ark": pf.u64(16), "halo2": pf.u32(3)}.get(form, b"")
        (tmp_path / form).write_bytes(head + b"".join(rows) + (bytes(128) if form == "halo2" else b""))
        count = 8 if form == "halo2" else 16
        assert Srs.open(tmp_path / form, reader)[:] == points[:count]
        x_without_root = next(x for x in range(1, 99) if pow(x**3 + 3, (pf.P - 1) // 2, pf.P) != 1)
        order = "big" if form in ("gnark", "aztec") else "little"
        for bad in (x_without_root | 2 << 254, pf.P | 2 << 254, 5 | 1 << 254, 3 << 254, 2**256 - 1):
            with pytest.raises(BadInput) as caught:
                Point.decompress(bad.to_bytes(32, order), form)
            assert caught.value.cure
        for wrong in (rows[0][:31], rows[0] + b"0"):
            with pytest.raises(BadInput):
                Point.decompress(wrong, form)
        with pytest.raises(BadInput, match="not on the curve"):
            Point(1, 3).compress(form)
        if form != "aztec":
            assert Point.decompress(Point.infinity().compress(form), form).is_infinity
    for attempt in (lambda: Point.infinity().compress("aztec"), lambda: Point(1, 2).compress("zcash")):
        with pytest.raises(BadInput):
            attempt()
    tried("malformed inputs", 34)


def test_views_can_be_watched_and_cancelled():
    points = inputs.points_from_logs(inputs.logs("random", 300, 1)).repeat(20, axis=0)
    scalars = inputs.scalars("random", 5_000, 3)
    engine = Engine(points, montgomery=True, check=False, backend="portable", threads=1)
    view, seen = engine.view(500, 5_000), []
    expected = view(scalars)
    assert view(scalars, progress=seen.append) == expected and seen == sorted(seen) and len(seen) > 1
    stop = threading.Event()
    stop.set()
    with pytest.raises(Cancelled):
        view(scalars, cancel=stop)
    with pytest.raises(BadInput, match="progress"):
        view(scalars, progress=5)


def test_one_shot_takes_a_device():
    assert msm(POINTS, [1] * N, device="cpu") == msm(POINTS, [1] * N, device="cpu", threads=1) == wanted([1] * N)
    with pytest.raises(BadInput):
        msm(POINTS, [1] * N, device="cpu", variant="walker:nonsense=1")
    for device in ("tpu", "", 5):
        with pytest.raises(Unsupported):
            msm(POINTS[:1], [1], device=device)
