"""Aztec's reference strings.

- `bn254_g1.dat` (the flat file of bb): x and y big-endian, point 0 is the generator, no header.
- `bn254_g1_compressed.dat`: 32 bytes a point (see encodings), point 0 is the generator, no header.
- Ignition `transcriptNN.dat` (`Transcript_spec.md` of ignition-verification): a manifest of seven u32 big-endian
  (number of this transcript, of all transcripts, of all G1, of all G2, of G1 here, of G2 here, index of the first G1
  here), the G1 points, the G2 points (128 bytes each), and the BLAKE2b-512 of everything before. Point 0 of
  transcript 0 is x·G: the generator itself is not in the file.
"""

from __future__ import annotations

import hashlib

from whet.msm.points.encodings import AZTEC_COMPRESSED, EIP196, IGNITION
from whet.msm.points.layout import Layout, counted, flat
from whet.msm.points.source import Source

MANIFEST_BYTES, G2_BYTES, CHECKSUM_BYTES = 28, 128, 64
HASHED_AT_ONCE_BYTES = 1 << 20
GENERATOR_FLAT = (1).to_bytes(32, "big") + (2).to_bytes(32, "big")


def read_flat(source: Source, section: str | None) -> Layout:
    layout = flat(source, EIP196)
    _require_generator(source, GENERATOR_FLAT)
    return layout


def read_compressed(source: Source, section: str | None) -> Layout:
    layout = flat(source, AZTEC_COMPRESSED)
    _require_generator(source, GENERATOR_FLAT[:32])
    return layout


def read_ignition(source: Source, section: str | None) -> Layout:
    names = ("number", "transcripts", "all G1", "all G2", "G1 here", "G2 here", "first G1")
    manifest = {name: source.number(4 * i, 4, f"{name} of the manifest", "big") for i, name in enumerate(names)}
    if manifest["number"] >= manifest["transcripts"]:
        raise source.bad(
            f"manifest: transcript {manifest['number']} of {manifest['transcripts']} (byte 0)", cure="fetch it again"
        )
    if manifest["first G1"] + manifest["G1 here"] > manifest["all G1"]:
        raise source.bad(
            f"manifest: points {manifest['first G1']} to {manifest['first G1'] + manifest['G1 here']} of "
            f"{manifest['all G1']} (byte 24)",
            cure="fetch it again",
        )
    tail_bytes = manifest["G2 here"] * G2_BYTES + CHECKSUM_BYTES
    return counted(source, IGNITION, MANIFEST_BYTES, manifest["G1 here"], "manifest", tail_bytes=tail_bytes)


def check_ignition(source: Source) -> None:
    """Compares the checksum; reads the whole file once (about a second for a transcript of the ceremony)."""
    end = source.size_bytes - CHECKSUM_BYTES
    digest = hashlib.blake2b()
    for start in range(0, end, HASHED_AT_ONCE_BYTES):
        digest.update(source.take(start, min(HASHED_AT_ONCE_BYTES, end - start), "the data"))
    if digest.digest() != source.take(end, CHECKSUM_BYTES, "the checksum"):
        raise source.bad(f"checksum at byte {end} does not match the content", cure="fetch it again")


def _require_generator(source: Source, expected: bytes) -> None:
    if source.head(len(expected)) != expected:
        raise source.bad(
            "point 0 is not the generator, with which every such file of Aztec starts",
            cure="give format=eip196 or raw-be for big-endian points of another origin",
        )
