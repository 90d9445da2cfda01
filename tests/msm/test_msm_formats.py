"""Every format read from a file made by its published description, in whole, in part and in chunks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import point_files as pf
from point_samples import POINTS, Sample, samples
from whet.errors import BadInput
from whet.msm.points import FORMATS, Scalars, Srs

SAMPLES = samples()
DATA = Path(__file__).parents[1] / "data"


def opened(path: Path, sample: Sample, **how):
    cls = Srs if sample.kind == "points" else Scalars
    return cls.open(path, sample.format, section=sample.section, **how)


def as_integers(rows: np.ndarray) -> list:
    def number(row: np.ndarray) -> int:
        return int.from_bytes(row.tobytes(), "little")

    if rows.shape[1] == 32:
        return [number(row) for row in rows]
    points = [(number(row[:32]), number(row[32:])) for row in rows]
    return [None if point == (0, 0) else point for point in points]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda s: s.name)
def test_reads_what_the_format_describes(sample, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(sample.data)
    assert sample.reference(sample.data) == sample.expected  # the reference itself is sound
    with opened(path, sample) as file:
        assert len(file) == len(sample.expected)
        assert as_integers(file.read()) == sample.expected
        for size in (1, 2, 5, 1000):
            assert as_integers(np.concatenate(list(file.chunks(size)))) == sample.expected
    with opened(path, sample, offset=1, n=2) as part:
        assert as_integers(part.read()) == sample.expected[1:3]
        assert as_integers(part.read(1, 2)) == sample.expected[2:3]


def test_every_format_in_the_table_has_a_sample():
    own = ("points", "prepared")  # our own file is tested with the engine that writes it
    assert {(s.kind, s.format) for s in SAMPLES} | {own} == {(row.kind, row.name) for row in FORMATS}


def test_formats_with_a_magic_are_found_and_others_are_asked_for(tmp_path):
    path = tmp_path / "file"
    magics = {(row.kind, row.name) for row in FORMATS if row.magic}
    for sample in SAMPLES:
        path.write_bytes(sample.data)
        cls = Srs if sample.kind == "points" else Scalars
        if (sample.kind, sample.format) in magics:
            assert cls.open(path, section=sample.section).format == sample.format
        elif sample.kind == "scalars" or not sample.format.startswith("npy"):
            with pytest.raises(BadInput, match="does not say what format") as caught:
                cls.open(path)
            assert sample.format in caught.value.cure


def test_the_usual_name_of_a_file_is_a_hint_and_not_a_guess(tmp_path):
    path = tmp_path / "bn254_g1.dat"
    path.write_bytes(pf.affine((1, 2), "big"))
    with pytest.raises(BadInput) as caught:
        Srs.open(path)
    assert "usual for bb" in caught.value.cure


@pytest.mark.parametrize("lines", [False, True])
def test_gnark_keys_of_both_generations_may_follow(lines, tmp_path):
    path = tmp_path / "srs"
    for compressed, name in ((False, "gnark-raw"), (True, "gnark-compressed")):
        for tail in (b"", pf.gnark_key(compressed, lines)):
            path.write_bytes(pf.gnark_slice(POINTS, compressed, tail))
            assert as_integers(Srs.open(path, name).read()) == POINTS
        path.write_bytes(pf.gnark_slice(POINTS, compressed, bytes(len(pf.gnark_key(compressed, lines)))))
        with pytest.raises(BadInput, match="goes on after"):
            Srs.open(path, name)
    path.write_bytes(pf.gnark_dump(POINTS, lines))
    assert as_integers(Srs.open(path, "gnark-dump").read()) == POINTS


def test_arkworks_before_0_4_wrote_infinity_as_zero_and_one(tmp_path):
    path = tmp_path / "ark"
    y = (1 | 1 << 254).to_bytes(32, "little")
    unsigned = pf.affine((1, pf.P - 2), "little")  # the larger y without its flag
    path.write_bytes(pf.u64(2) + bytes(32) + y + unsigned)
    assert as_integers(Srs.open(path, "ark").read()) == [None, (1, pf.P - 2)]


def test_npy_of_every_accepted_shape_as_numpy_saves_it(tmp_path):
    rows = np.frombuffer(b"".join(pf.affine(p, "little") for p in POINTS), dtype=np.uint8)
    for array in (
        rows.reshape(-1, 64),
        rows.reshape(-1, 2, 32),
        rows.view("<u8").reshape(-1, 8),
        rows.view("<u8").reshape(-1, 2, 4),
    ):
        np.save(tmp_path / "points.npy", array)
        assert as_integers(Srs.open(tmp_path / "points.npy").read()) == POINTS
    for array in (rows, rows.reshape(-1, 32), np.asfortranarray(rows.reshape(-1, 64)), rows.astype(object)):
        np.save(tmp_path / "bad.npy", array)
        with pytest.raises(BadInput):
            Srs.open(tmp_path / "bad.npy")


def test_files_that_snarkjs_wrote():
    """The real tool's own files: a groth16 key of a circuit with six variables, and a prepared ceremony of power 1."""
    a = Srs.open(DATA / "snarkjs_groth16.zkey", section="a").read()
    assert as_integers(a)[:2] == [
        (
            801793377078712546506674966903009875581362727682793870409319820454854807167,
            13985220047559520265898761724629133963364776764238365187600620216177812284832,
        ),
        (
            19042567006870336031200157203075124785059330782473496170242284156312127174187,
            18700311460379186083007905659870059793805929296246028731105820207733231686040,
        ),
    ]
    for section, count in {"ic": 3, "a": 6, "b1": 6, "c": 3, "h": 8}.items():
        assert len(Srs.open(DATA / "snarkjs_groth16.zkey", section=section).read()) == count
    ceremony = DATA / "snarkjs_power1.ptau"
    tau = as_integers(Srs.open(ceremony).read())
    assert tau[0] == (1, 2) and len(tau) == 3
    # Block k of the Lagrange section sums to the generator, whatever tau is: the polynomials sum to one.
    blocks = as_integers(Srs.open(ceremony, section="lagrange-tau").read())
    for k in range(3):
        total = None
        for point in blocks[2**k - 1 : 2 ** (k + 1) - 1]:
            total = pf.add(total, point)
        assert total == (1, 2)


def test_a_large_file_is_converted_in_pieces_and_the_first_bad_record_is_named(tmp_path):
    points = pf.multiples(64)
    data = bytearray(b"".join(pf.gnark_compressed(p) for p in points) * 400)
    path = tmp_path / "g1.point"
    path.write_bytes(data)
    srs = Srs.open(path, "eigenda")
    rows = srs.read()
    assert len(rows) == 25600 and as_integers(rows[-64:]) == points
    assert (rows.reshape(400, 64, 64) == rows[:64]).all()
    for bad in (20_000, 9_001, 9_000):  # later ones first: the earliest must win
        data[32 * bad] &= 0x3F
    path.write_bytes(data)
    with pytest.raises(BadInput, match="byte 288000") as caught:
        Srs.open(path, "eigenda").read()
    assert caught.value.index == 9_000


def test_check_none_skips_the_curve_but_not_the_range(tmp_path):
    path = tmp_path / "raw"
    path.write_bytes((5).to_bytes(32, "little") + (5).to_bytes(32, "little"))
    with pytest.raises(BadInput, match="not on the curve"):
        Srs.open(path, "raw-le").read()
    assert as_integers(Srs.open(path, "raw-le", check="none").read()) == [(5, 5)]
    path.write_bytes(pf.P.to_bytes(32, "little") + (2).to_bytes(32, "little"))
    with pytest.raises(BadInput, match="not below p"):
        Srs.open(path, "raw-le", check="none").read()


def test_the_checksum_of_a_transcript(tmp_path):
    path = tmp_path / "transcript00.dat"
    data = bytearray(pf.ignition(pf.multiples(3, pf.multiples(9)[-1]), number=4))
    path.write_bytes(data)
    assert len(Srs.open(path, "ignition", check="checksum")) == 3
    data[-1] ^= 1
    path.write_bytes(data)
    assert len(Srs.open(path, "ignition")) == 3
    with pytest.raises(BadInput, match="checksum at byte 220"):
        Srs.open(path, "ignition", check="checksum")
    with pytest.raises(BadInput, match="carries no checksum"):
        Srs.open(path, "raw-le", check="checksum")
