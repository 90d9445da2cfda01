"""arkworks `CanonicalSerialize` of a `Vec<G1Affine>` or `Vec<Fr>`: a u64 little-endian count, then the elements.

See encodings for the flags of a point. A file with more after the vector (a whole proving key, say) is refused: cut the
vector out first. Scalars are canonical by construction.
"""

from __future__ import annotations

from whet.msm.points.encodings import ARK_COMPRESSED, ARK_UNCOMPRESSED, SCALAR_LITTLE_CANONICAL, Encoding
from whet.msm.points.layout import Layout, counted
from whet.msm.points.source import Source

COUNT_BYTES = 8


def read_uncompressed(source: Source, section: str | None) -> Layout:
    return _vector(source, ARK_UNCOMPRESSED)


def read_compressed(source: Source, section: str | None) -> Layout:
    return _vector(source, ARK_COMPRESSED)


def read_scalars(source: Source, section: str | None) -> Layout:
    return _vector(source, SCALAR_LITTLE_CANONICAL)


def _vector(source: Source, encoding: Encoding) -> Layout:
    return counted(source, encoding, COUNT_BYTES, source.number(0, COUNT_BYTES, "the number of elements"), "vector")
