"""Faults planted in the readers: each must make some file read differently from the description."""

from __future__ import annotations

import random

import numpy as np
import pytest
from test_msm_formats_hostile import outcome

from point_samples import mutate, samples
from whet.msm.points import arkworks, aztec, batch, encodings, gnark, halo2, iden3
from whet.msm.points.files import RecordFile
from whet.msm.points.layout import Layout

CHANGES_PER_SAMPLE = 12


@pytest.fixture(scope="module")
def probes():
    """Files of every format, legal and changed, with what they mean."""
    found = []
    for sample in samples():
        rng = random.Random(sample.name)
        changed = [mutate(sample.data, rng) for _ in range(CHANGES_PER_SAMPLE)]
        changed += [sample.data, sample.data[64:], sample.data + bytes(64), *aimed(sample.data)]
        found += [(sample, data, sample.reference(data)) for data in changed]
    return found


def aimed(data: bytes) -> list[bytes]:
    """Changes that chance seldom makes: a lying sign flag, a tail that is no key, a header of another size."""
    flag, power = bytearray(data), bytearray(data)
    flag[8 + 63] ^= 0x80
    power[60] ^= 1
    return [bytes(flag), bytes(power), data[:-320] + bytes(320), data[:-160] + bytes(160)]


def disagreements(probes, path) -> int:
    count = 0
    for sample, data, expected in probes:
        path.write_bytes(data)
        try:
            count += outcome(path, sample) != expected
        except Exception:
            count += 1
    return count


def counted_without_end(source, encoding, offset_bytes, count, part, *, tail_bytes=0):
    return Layout(offset_bytes, count, encoding, part)


decode_affine, decode_scalars, decompress = batch.decode_affine, batch.decode_scalars, batch.decompress
convert, points = RecordFile._convert, iden3.Container.points
FAULTS = {
    "the odd root taken for the larger": (batch, "decompress", lambda x, w, by_size: decompress(x, w, by_size=False)),
    "the other root": (batch, "decompress", lambda x, w, by_size: decompress(x, w ^ np.uint8(1), by_size=by_size)),
    "infinity flag ignored": (
        batch,
        "decompress",
        lambda x, w, by_size: decompress(x, w & np.uint8(1), by_size=by_size),
    ),
    "curve not checked": (
        batch,
        "decode_affine",
        lambda r, montgomery, check_curve: decode_affine(r, montgomery=montgomery, check_curve=False),
    ),
    "Montgomery form ignored": (
        batch,
        "decode_affine",
        lambda r, montgomery, check_curve: decode_affine(r, montgomery=False, check_curve=check_curve),
    ),
    "scalars not reduced": (
        batch,
        "decode_scalars",
        lambda r, montgomery, canonical: decode_scalars(r, montgomery=montgomery, canonical=False),
    ),
    "sign of an uncompressed point not checked": (batch, "is_larger_root", lambda y: np.ones(len(y), bool)),
    "byte order ignored": (encodings, "_swap", lambda raw, word_bytes: raw.copy()),
    "flag bits not checked": (encodings, "_first", lambda mask: None),
    "the end of a vector not checked": (arkworks, "counted", counted_without_end),
    "the end of a slice not checked": (gnark, "counted", counted_without_end),
    "the end of the parameters not checked": (halo2, "counted", counted_without_end),
    "any tail taken for a key": (gnark, "_starts_with_g2_generator", lambda source, offset: True),
    "modulus not checked": (iden3, "require_modulus", lambda *_: None),
    "sections exchanged": (iden3, "PTAU_SECTIONS", {**iden3.PTAU_SECTIONS, "alpha": 5, "beta": 4}),
    "Lagrange points taken for powers": (halo2, "SECTIONS", {"tau": 1, "lagrange": 0}),
    "generator not required": (aztec, "_require_generator", lambda *_: None),
    "one record late": (RecordFile, "_convert", lambda self, a, b: convert(self, a + 1, b + 1)),
    "header and points disagree unnoticed": (
        iden3.Container,
        "points",
        lambda self, names, wanted, counts: points(
            self, names, wanted, {k: section.size_bytes // 64 for k, section in self.sections.items()}
        ),
    ),
}


def test_the_probes_agree_without_a_fault(probes, tmp_path):
    assert disagreements(probes, tmp_path / "file") == 0


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_shows(name, probes, tmp_path, monkeypatch, tried):
    owner, attribute, replacement = FAULTS[name]
    monkeypatch.setattr(owner, attribute, replacement)
    assert disagreements(probes, tmp_path / "file") > 0
    tried("planted faults")
