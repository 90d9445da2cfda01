"""halo2 `ParamsKZG` (halo2_proofs `poly/kzg/commitment.rs`) on bn256.

k (u32 little-endian), 2^k powers of tau, the same 2^k points in Lagrange form, then two G2 points. With
`SerdeFormat::RawBytes` (what `write` uses) and `RawBytesUnchecked` a G1 point is 64 bytes, little-endian in Montgomery
form, and a G2 point 128; with `Processed` 32 and 64 (see encodings; halo2curves 0.4 and later).
"""

from __future__ import annotations

from whet.msm.points.encodings import HALO2_COMPRESSED, LITTLE_MONTGOMERY, Encoding
from whet.msm.points.layout import Layout, counted
from whet.msm.points.source import Source

LARGEST_K = 28
SECTIONS = {"tau": 0, "lagrange": 1}


def read_raw(source: Source, section: str | None) -> Layout:
    return _read(source, section or "tau", LITTLE_MONTGOMERY)


def read_processed(source: Source, section: str | None) -> Layout:
    return _read(source, section or "tau", HALO2_COMPRESSED)


def _read(source: Source, section: str, encoding: Encoding) -> Layout:
    if section not in SECTIONS:
        raise source.bad(f"has no section {section!r}", cure=f"sections: {', '.join(SECTIONS)}")
    k = source.number(0, 4, "k")
    if k > LARGEST_K:
        raise source.bad(f"k = {k} at byte 0 is above {LARGEST_K}", cure="give a ParamsKZG file, or name its format")
    g2_bytes = 2 * 2 * encoding.record_bytes
    counted(source, encoding, 4, 2 << k, f"k = {k}", tail_bytes=g2_bytes)
    return Layout(4 + (SECTIONS[section] * encoding.record_bytes << k), 1 << k, encoding, section)
