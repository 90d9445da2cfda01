"""Hostile files, cut, changed, lying or unreadable: either the right values or BadInput, and never anything else."""

from __future__ import annotations

import gc
import gzip
import os
import random
import tracemalloc
from pathlib import Path

import pytest
from test_msm_formats import as_integers, opened

import point_files as pf
from point_samples import FINITE, POINTS, Sample, mutate, samples
from whet.errors import BadInput, ExitCode, WhetError
from whet.msm.points import Scalars, Srs

SAMPLES = {sample.name: sample for sample in samples()}
MUTATIONS_PER_FORMAT = 400
SEED = 0x5EED


def outcome(path, sample: Sample):
    """The values, or None when the file is refused. Any other exception fails the test."""
    try:
        with opened(path, sample) as file:
            return as_integers(file.read())
    except BadInput as error:
        assert error.cause and error.cure and str(path) in error.cause
        return None


@pytest.mark.parametrize("sample", SAMPLES.values(), ids=lambda s: s.name)
def test_a_file_cut_anywhere_is_refused_or_is_a_shorter_file(sample, tmp_path, tried):
    path = tmp_path / "file"
    step = max(1, len(sample.data) // 400)
    cuts = sorted({*range(0, min(len(sample.data), 160)), *range(0, len(sample.data), step), len(sample.data) - 1})
    for size in cuts:
        path.write_bytes(sample.data[:size])
        assert outcome(path, sample) == sample.reference(sample.data[:size]), f"cut to {size} bytes"
    tried("malformed inputs", len(cuts))


@pytest.mark.parametrize("sample", SAMPLES.values(), ids=lambda s: s.name)
def test_a_changed_file_means_what_the_description_says_or_is_refused(sample, tmp_path, tried):
    path, rng, refused = tmp_path / "file", random.Random(f"{SEED}{sample.name}"), 0
    for number in range(MUTATIONS_PER_FORMAT):
        data = mutate(sample.data, rng)
        path.write_bytes(data)
        found = outcome(path, sample)
        assert found == sample.reference(data), f"mutation {number} of seed {SEED:#x}: {data.hex()}"
        refused += found is None
    assert refused > MUTATIONS_PER_FORMAT // 10
    tried("malformed inputs", MUTATIONS_PER_FORMAT)


def container(sections, magic=b"ptau", version=1, count=None):
    body = b"".join(pf.section(*entry) for entry in sections)
    return magic + pf.u32(version) + pf.u32(len(sections) if count is None else count) + body


HEADER = pf.u32(32) + pf.P.to_bytes(32, "little") + pf.u32(2) + pf.u32(2)
BLS = 0x1A0111EA397FE69A4B1BA7B6434BACD764774B84F38512BF6730D2A0F6B0F6241EABFFFEB153FFFFB9FEFFFFFFFFAAAB
LYING = {
    "size beyond the end": (pf.ptau(POINTS)[:72] + b"\xff\xff" + pf.ptau(POINTS)[74:], "ptau", "beyond"),
    "size 2^63": (
        pf.ptau(POINTS).replace(pf.u32(2) + pf.u64(448), pf.u32(2) + pf.u64(2**63)), "ptau", "section 2 .*beyond"
    ),
    "overlapping": (
        pf.ptau(POINTS).replace(pf.u32(2) + pf.u64(448), pf.u32(2) + pf.u64(440)), "ptau", "beyond|twice|implies"
    ),
    "section twice": (container([(1, HEADER), (2, pf.lem(POINTS)), (2, pf.lem(POINTS))]), "ptau", "section 2 .*twice"),
    "too many sections": (container([(1, HEADER)], count=2**32 - 1), "ptau", "4294967295 sections"),
    "more sections than there are": (container([(1, HEADER)], count=3), "ptau", "type of section 2 of 3"),
    "no header": (container([(2, pf.lem(POINTS))]), "ptau", "no section 1"),
    "no points": (container([(1, HEADER)]), "ptau", "no section 2"),
    "version": (container([(1, HEADER)], version=9), "ptau", "version 9 at byte 4"),
    "magic": (b"utap" + pf.ptau(POINTS)[4:], "ptau", "does not start with 'ptau'"),
    "another field size": (
        container([(1, pf.u32(48) + BLS.to_bytes(48, "little") + pf.u32(2) + pf.u32(2)), (2, b"")]),
        "ptau",
        "field size 48",
    ),
    "another modulus": (
        container([(1, HEADER.replace(pf.P.to_bytes(32, "little"), pf.R.to_bytes(32, "little"))), (2, b"")]),
        "ptau",
        "modulus 0x30644e72e131a029b85045b68181585d2833.*not that of BN254",
    ),
    "power": (container([(1, HEADER[:36] + pf.u32(60) + pf.u32(60)), (2, b"")]), "ptau", "power 60"),
    "tail": (pf.ptau(POINTS) + b"garbage", "ptau", "7 bytes follow the last section"),
    "ark count 2^64 - 1": (pf.u64(2**64 - 1) + bytes(64), "ark", "ends too early"),
    "ark count 2^58": (pf.u64(2**58), "ark-compressed", "ends too early"),
    "gnark count 2^32 - 1": (pf.u32(2**32 - 1, "big") + bytes(64), "gnark-raw", "ends too early"),
    "ignition count": (
        b"".join(pf.u32(v, "big") for v in (0, 20, 2**32 - 1, 1, 2**32 - 1, 0, 0)) + bytes(64), "ignition", "too early"
    ),
    "ignition range": (
        b"".join(pf.u32(v, "big") for v in (0, 20, 10, 1, 8, 0, 9)) + bytes(64), "ignition", "points 9 to 17 of 10"
    ),
    "halo2 k = 28": (pf.u32(28) + bytes(640), "halo2", "ends too early"),
    "halo2 k = 2^32 - 1": (pf.u32(2**32 - 1) + bytes(640), "halo2", "above 28"),
    "dump count": (pf.gnark_key(False, False) + pf.u64(0xDEADBEEF) + pf.u64(2**62), "gnark-dump", "ends too early"),
    "npy shape": (pf.npy(bytes(64), (2**61, 64)), "npy", "ends too early"),
    "npy header length": (b"\x93NUMPY\x02\x00" + pf.u32(2**32 - 1) + b"{}", "npy", "header of 4294967295 bytes"),
    "npy header nesting": (
        b"\x93NUMPY\x01\x00" + (9000).to_bytes(2, "little") + b"(" * 9000, "npy", "unreadable .npy header"
    ),
    "npy of objects": (pf.npy(bytes(64), (1, 64), "|O"), "npy", r"holds \|O"),
}  # fmt: skip


@pytest.mark.parametrize("name", LYING)
def test_a_lying_header_is_named_and_costs_no_memory(name, tmp_path, tried):
    data, form, message = LYING[name]
    path = tmp_path / "file"
    path.write_bytes(data)
    tracemalloc.start()
    try:
        with pytest.raises(BadInput, match=message):
            Srs.open(path, form).read()
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()
    tried("malformed inputs")


def le(value: int) -> bytes:
    return value.to_bytes(32, "little")


def be(value: int) -> bytes:
    return value.to_bytes(32, "big")


G = {
    "raw-le": pf.affine((1, 2), "little"),
    "eip196": pf.affine((1, 2), "big"),
    "eigenda": pf.gnark_compressed((1, 2)),
    "raw-le-mont": pf.lem([(1, 2)]),
}
BAD_RECORDS = {
    "x = p": ("raw-le", le(pf.P) + le(2), "a coordinate that is not below p"),
    "y = p": ("raw-le", le(1) + le(pf.P), "a coordinate that is not below p"),
    "y = 2^256 - 1": ("eip196", be(1) + be(2**256 - 1), "a coordinate that is not below p"),
    "x + p": ("eip196", be(1 + pf.P) + be(2), "a coordinate that is not below p"),
    "montgomery x + p": (
        "raw-le-mont",
        le(pf.MONTGOMERY_P + pf.P) + G["raw-le-mont"][32:],
        "a coordinate that is not below p",
    ),
    "off the curve": ("raw-le", le(1) + le(3), "not on the curve"),
    "x = 0": ("raw-le", le(0) + le(2), "not on the curve"),
    "canonical in a Montgomery file": ("raw-le-mont", G["raw-le"], "not on the curve"),
    "big-endian in a little-endian file": ("raw-le", G["eip196"], "not on the curve"),
    "no such x": ("eigenda", be(4 | 2 << 254), "an x that no point of the curve has"),
    "flag of a raw point": ("eigenda", be(1), "flag of an uncompressed point"),
    "infinity with an x": ("eigenda", be(1 | 1 << 254), "marked as infinity but has an x"),
    "compressed x = p": ("eigenda", be(pf.P | 2 << 254), "a coordinate that is not below p"),
}


@pytest.mark.parametrize("name", BAD_RECORDS)
@pytest.mark.parametrize("at", [0, 1, 4, 9])
def test_the_first_bad_record_is_named(name, at, tmp_path, tried):
    form, record, message = BAD_RECORDS[name]
    size = len(record)
    path = tmp_path / "file"
    path.write_bytes(G[form] * at + record + G[form] * (9 - at) + record)
    with pytest.raises(BadInput, match=message) as caught:
        Srs.open(path, form).read()
    assert caught.value.index == at and f"point {at} of the file (byte {at * size})" in caught.value.cause
    if at:
        assert len(Srs.open(path, form, n=at).read()) == at  # what is not asked for is not checked
        with pytest.raises(BadInput) as caught:
            Srs.open(path, form, offset=at - 1).read()
        assert caught.value.index == at  # counted from the start of the file, whatever the view
    tried("malformed inputs", 1 + 2 * bool(at))


def test_whichever_check_finds_it_the_earliest_record_is_reported(tmp_path):
    """Flags, ranges and roots are checked at different times; the index must not show it."""
    path = tmp_path / "file"
    good = pf.ark_uncompressed((1, 2))
    bad = {
        "flags": le(1) + le(2 | 3 << 254),
        "range": le(pf.P) + le(2),
        "curve": le(1) + le(3),
        "sign": le(1) + le(2 | 2 << 254),
        "zero": bytes(64),
        "infinity": le(1) + le(1 << 254),
    }
    for first in bad.values():
        for second in bad.values():
            path.write_bytes(pf.u64(4) + good + first + good + second)
            with pytest.raises(BadInput) as caught:
                Srs.open(path, "ark").read()
            assert caught.value.index == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"1\n2\nthree\n", "line 3 .'three'"),
        (b"-1\n", "line 1"),
        (b"1.5\n", "line 1"),
        (b"0x\n", "line 1"),
        (b"1_000\n", "line 1"),
        (str(2**256).encode(), "2\\^256 - 1"),
        (b"\xff\xfe1\x00\n", "line 1"),
        ("١\n".encode(), "line 1"),
        (b"9" * 3_000_000, "line 1"),
        (b"# fine\n\n 7 \n0x" + b"f" * 65, "line 4"),
    ],
)
def test_text_that_is_no_number(content, message, tmp_path, tried):
    path = tmp_path / "scalars.txt"
    path.write_bytes(content)
    with pytest.raises(BadInput, match=message):
        Scalars.open(path, "text")
    tried("malformed inputs")


def test_paths_that_cannot_be_read(tmp_path, tried, monkeypatch):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "empty").touch()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_bytes(G["raw-le"])
    cases = {
        "missing": "does not exist",
        ".": "is a folder",
        "loop": "loop of symbolic links",
        "empty": "is empty",
        "pipe": "not a regular file",
        "file/below": "does not exist",
        "x" * 300: "too long a name",
        "nul\0byte": "not a path",
    }
    for name, message in cases.items():
        with pytest.raises(BadInput, match=message) as caught:
            Srs.open(f"{tmp_path}/{name}", "raw-le")
        assert caught.value.cure
    monkeypatch.setattr(os, "open", lambda *_: (_ for _ in ()).throw(PermissionError(13, "Permission denied")))
    with pytest.raises(BadInput, match="permission denied") as caught:
        Srs.open(tmp_path / "file", "raw-le")
    assert "chmod" in caught.value.cure
    tried("malformed inputs", len(cases) + 1)


def test_a_packed_file_is_recognised(tmp_path, tried):
    path = tmp_path / "pot.ptau.gz"
    path.write_bytes(gzip.compress(pf.ptau(POINTS)))
    for form in ("auto", "ptau", "raw-le", "bb", "ark", "halo2", "gnark-raw", "npy"):
        with pytest.raises(BadInput) as caught:
            Srs.open(path, form).read()
        assert "gunzip it first" in caught.value.cure
    tried("malformed inputs", 8)


def test_a_file_that_shrinks_while_it_is_read(tmp_path, tried):
    path = tmp_path / "file"
    path.write_bytes(G["raw-le"] * 1000)
    srs = Srs.open(path, "raw-le")
    os.truncate(path, 64 * 500 + 7)
    with pytest.raises(BadInput, match="ended at byte 32007 while it was read"):
        srs.read()
    assert len(srs.read(0, 500)) == 500
    srs.close()
    with pytest.raises(BadInput, match="is closed"):
        srs.read()
    tried("malformed inputs", 2)


def test_a_disk_that_fails(tmp_path, monkeypatch, tried):
    path = tmp_path / "file"
    path.write_bytes(G["raw-le"])
    with Srs.open(path, "raw-le") as srs:
        monkeypatch.setattr(os, "preadv", lambda *_: (_ for _ in ()).throw(OSError(5, "Input/output error")))
        with pytest.raises(WhetError, match="cannot be read") as caught:
            srs.read()
        assert caught.value.exit_code == ExitCode.ENVIRONMENT and caught.value.cure
    tried("malformed inputs")


def test_wrong_arguments(tmp_path, tried):
    path = tmp_path / "file"
    path.write_bytes(pf.ptau(POINTS))
    wrong = [
        {"format": "ptao"},
        {"format": "wtns"},
        {"n": 8},
        {"n": -1},
        {"offset": 8},
        {"offset": -1},
        {"offset": 5, "n": 3},
        {"section": "tauG2"},
        {"section": 3},
        {"section": "1" * 40},
        {"section": -2},
        {"check": "some"},
        {"check": "checksum"},
    ]
    for arguments in wrong:
        with pytest.raises(BadInput) as caught:
            Srs.open(path, **arguments)
        assert caught.value.cure
    with Srs.open(path) as srs:
        for start, stop in ((-1, 2), (3, 2), (0, 8)):
            with pytest.raises(BadInput):
                srs.read(start, stop)
        with pytest.raises(BadInput):
            next(srs.chunks(0))
    path.write_bytes(b"".join(pf.affine(p, "big") for p in FINITE))
    with pytest.raises(BadInput, match="has no sections"):
        Srs.open(path, "bb", section="tau")
    path.write_bytes(b"".join(pf.affine(p, "big") for p in FINITE[1:]))
    with pytest.raises(BadInput, match="point 0 is not the generator"):
        Srs.open(path, "bb")
    tried("malformed inputs", len(wrong) + 6)


def test_descriptors_are_given_back(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"garbage")
    gc.collect()  # what earlier tests left to the collector
    before = len(list(Path("/proc/self/fd").iterdir()))
    for form in ("auto", "ptau", "raw-le", "ark", "nonsense"):
        for _ in range(20):
            with pytest.raises(BadInput):
                Srs.open(path, form)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    path.write_bytes(G["raw-le"])
    for _ in range(20):
        Srs.open(path, "raw-le").read()  # never closed, but collected
    gc.collect()
    assert len(list(Path("/proc/self/fd").iterdir())) == before
