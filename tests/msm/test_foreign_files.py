"""Files that gnark-crypto, arkworks and halo2curves wrote themselves (tools/foreign_files), through every reader."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import point_files as pf
from whet.errors import BadInput
from whet.msm import Engine, Point, Scalars, Srs, msm
from whet.msm.points import msm_from_files

DATA = Path(__file__).parents[1] / "data" / "foreign"
TAU = 1234567
LONG = 2**200 + 5
FACTORS = [1, -1, 0, 2, -2, LONG, -LONG]
SCALARS = [(k + i) % pf.R for i, k in enumerate(FACTORS)]
ROOT = pow(5, (pf.R - 1) // 4, pf.R)  # of order 4; five generates the multiplicative group


def multiple(k: int) -> pf.Point:
    """k G in Python integers."""
    result, power = None, (1, 2)
    k %= pf.R
    while k:
        if k & 1:
            result = pf.add(result, power)
        power = pf.add(power, power)
        k >>= 1
    return result


def lagrange(i: int, root: int) -> int:
    x = pow(root, i, pf.R)
    return (TAU**4 - 1) * x * pow(4 * (TAU - x), -1, pf.R) % pf.R


POWERS = [multiple(TAU**i) for i in range(5)]
EDGES = [multiple(k) for k in FACTORS]
POINTS = {
    ("gnark_srs_raw", "gnark-raw", None): POWERS,
    ("gnark_srs_compressed", "gnark-compressed", None): POWERS,
    ("gnark_srs_dump", "gnark-dump", None): POWERS,
    ("gnark_points_raw", "gnark-raw", None): EDGES,
    ("gnark_points_compressed", "gnark-compressed", None): EDGES,
    ("gnark_points_concatenated", "eigenda", None): EDGES,
    ("ark_points", "ark", None): EDGES,
    ("ark_points_compressed", "ark-compressed", None): EDGES,
    ("halo2_srs_raw", "halo2", "tau"): POWERS[:4],
    ("halo2_srs_processed", "halo2-processed", "tau"): POWERS[:4],
    ("halo2_points_raw", "halo2", "tau"): EDGES[:4],
    ("halo2_points_raw", "halo2", "lagrange"): [*EDGES[4:], (1, 2)],
    ("halo2_points_processed", "halo2-processed", "tau"): EDGES[:4],
    ("halo2_points_processed", "halo2-processed", "lagrange"): [*EDGES[4:], (1, 2)],
}
VALUES = {
    "gnark_scalars": "gnark-scalars",
    "ark_scalars": "ark-scalars",
    "halo2_scalars": "raw-le",
    "halo2_scalars_raw": "raw-le-mont",
}


def as_pairs(srs: Srs) -> list:
    return [None if point.is_infinity else (point.x, point.y) for point in srs]


@pytest.mark.parametrize(("name", "format", "section"), POINTS, ids=lambda part: str(part or ""))
def test_points_that_the_library_wrote(name, format, section, tried):
    with Srs.open(DATA / name, format, section=section) as srs:
        expected = POINTS[name, format, section]
        assert as_pairs(srs) == expected and len(srs) == len(expected)
        assert [Point.from_bytes(row.tobytes()) for row in srs.read(1, 3)] == srs[1:3]
        factors = list(range(1, len(srs) + 1))
        assert srs.commit(factors) == msm(expected, factors) == Engine(srs)(factors)
    tried("files of other libraries", 1)


@pytest.mark.parametrize(("name", "format"), VALUES.items())
def test_scalars_that_the_library_wrote(name, format, tried):
    with Scalars.open(DATA / name, format) as scalars:
        read = [int.from_bytes(row.tobytes(), "little") for row in scalars.read()]
        assert read == SCALARS
        assert np.concatenate(list(scalars.chunks(2))).shape == (len(SCALARS), 32)
    tried("files of other libraries", 1)


@pytest.mark.parametrize("name", ["halo2_srs_raw", "halo2_srs_processed"])
def test_the_lagrange_form_of_halo2(name):
    with Srs.open(DATA / name, "halo2" if name.endswith("raw") else "halo2-processed", section="lagrange") as srs:
        read = as_pairs(srs)
        # The library chooses which of the two roots of order 4 it counts with.
        assert read in [[multiple(lagrange(i, root)) for i in range(4)] for root in (ROOT, pow(ROOT, 3, pf.R))]
        assert srs.commit([1, 1, 1, 1]) == Point(1, 2)


@pytest.mark.parametrize(
    ("points", "scalars", "total"),
    [
        (("gnark_points_raw", "gnark-raw"), ("gnark_scalars", "gnark-scalars"), "gnark_sum"),
        (("ark_points_compressed", "ark-compressed"), ("ark_scalars", "ark-scalars"), "ark_sum"),
        (("gnark_points_compressed", "gnark-compressed"), ("halo2_scalars_raw", "raw-le-mont"), "halo2_sum"),
    ],
)
def test_the_sum_that_the_library_computed(points, scalars, total):
    wanted = Point(*(int(line, 0) for line in (DATA / total).read_text().split()))
    with Srs.open(DATA / points[0], points[1]) as srs, Scalars.open(DATA / scalars[0], scalars[1]) as file:
        assert srs.commit(file) == msm_from_files(srs, file) == wanted
        assert wanted == Point(*multiple(sum(s * k for s, k in zip(SCALARS, FACTORS, strict=True))))


def test_every_other_reader_refuses_them_or_says_what_it_read(tried):
    """A file under a wrong name is BadInput, or its points happen to be points; nothing else."""
    names = {format for _, format, _ in POINTS} | {
        "ptau",
        "zkey",
        "bb",
        "bb-compressed",
        "ignition",
        "raw-le",
        "raw-be",
    }
    attempts = 0
    for name, right, _ in POINTS:
        for wrong in sorted(names - {right}):
            attempts += 1
            try:
                with Srs.open(DATA / name, wrong) as srs:
                    assert all(point.is_on_curve for point in srs)
            except BadInput as error:
                assert error.cure
    tried("malformed inputs", attempts)


@pytest.mark.parametrize(
    ("name", "format"), [(name, format) for name, format, section in POINTS if section != "lagrange"]
)
def test_cut_short_anywhere_they_are_refused(name, format, tmp_path, tried):
    content = (DATA / name).read_bytes()
    cuts = {0, 1, 3, 4, 5, 8, 31, 63, 64, 65, 100, len(content) - 64, len(content) - 1}
    path = tmp_path / name
    for cut in sorted(cut for cut in cuts if cut < len(content)):
        path.write_bytes(content[:cut])
        if format == "eigenda" and cut and cut % 32 == 0:
            continue  # it has no count: fewer points are a file too
        with pytest.raises(BadInput) as caught:
            Srs.open(path, format).read()
        assert caught.value.cure
    tried("malformed inputs", len(cuts))


@pytest.mark.parametrize(
    ("form", "name", "start"),
    [
        ("gnark", "gnark_points_concatenated", 0),
        ("ark", "ark_points_compressed", 8),
        ("halo2", "halo2_points_processed", 4),
    ],
)
def test_single_points_in_the_bytes_of_the_library(form, name, start):
    content = (DATA / name).read_bytes()[start:]
    for i, pair in enumerate(EDGES):
        point, record = Point(*(pair or (0, 0))), content[32 * i : 32 * i + 32]
        assert point.compress(form) == record and Point.decompress(record, form) == point
