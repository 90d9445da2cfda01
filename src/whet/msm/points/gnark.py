"""gnark-crypto on BN254: what `kzg.SRS` writes with `WriteTo`, `WriteRawTo` and `WriteDump`, and EigenDA's `g1.point`.

- `WriteTo` and `WriteRawTo`: u32 big-endian count, the G1 points (compressed or raw), then the verifying key: two G2
  points, the G1 generator and, since lines are precomputed, 264 pairs of them at 128 bytes. A bare slice of points ends
  after the points. The key starts with the G2 generator, which is how it is told from a wrong count.
- `WriteDump`: the verifying key in raw form, the marker 0xdeadbeef (u64), a u64 little-endian count and the memory
  image of the points, which is little-endian Montgomery form on the machines gnark runs on.
- `g1.point`: compressed points, one after the other, no count.
- `fr.Vector.WriteTo`: u32 big-endian count, canonical big-endian values.
"""

from __future__ import annotations

from whet.msm.points.encodings import EIP196, GNARK_COMPRESSED, LITTLE_MONTGOMERY, SCALAR_BIG_CANONICAL, Encoding
from whet.msm.points.layout import Layout, counted, flat
from whet.msm.points.source import Source

COUNT_BYTES = 4
G2_GENERATOR_X = (
    0x198E9393920D483A7260BFB731FB5D25F1AA493335A9E71297E485B7AEF312C2,  # the imaginary part comes first
    0x1800DEEF121F1E76426A00665E5C4479674322D4F75EDADD46DEBD5CD992F6ED,
)
LINES_BYTES = 2 * 2 * 66 * 2 * 64
RAW_KEY_BYTES = (2 * 128 + 64, 2 * 128 + 64 + LINES_BYTES)
COMPRESSED_KEY_BYTES = (2 * 64 + 32, 2 * 64 + 32 + LINES_BYTES)
MARKER = (0xDEADBEEF).to_bytes(8, "little")


def read_raw(source: Source, section: str | None) -> Layout:
    return _slice(source, EIP196, RAW_KEY_BYTES)


def read_compressed(source: Source, section: str | None) -> Layout:
    return _slice(source, GNARK_COMPRESSED, COMPRESSED_KEY_BYTES)


def read_concatenated(source: Source, section: str | None) -> Layout:
    return flat(source, GNARK_COMPRESSED)


def read_scalars(source: Source, section: str | None) -> Layout:
    return _slice(source, SCALAR_BIG_CANONICAL, ())


def read_dump(source: Source, section: str | None) -> Layout:
    for key_bytes in RAW_KEY_BYTES:
        end = key_bytes + len(MARKER) + 8
        if source.size_bytes >= end and source.take(key_bytes, len(MARKER), "the marker") == MARKER:
            count = source.number(key_bytes + len(MARKER), 8, "the number of points")
            return counted(source, LITTLE_MONTGOMERY, end, count, "dump")
    places = " or ".join(map(str, RAW_KEY_BYTES))
    raise source.bad(
        f"has no dump marker at byte {places}", cure="give a file written by SRS.WriteDump of gnark-crypto"
    )


def _slice(source: Source, encoding: Encoding, key_bytes: tuple[int, ...]) -> Layout:
    count = source.number(0, COUNT_BYTES, "the number of points", "big")
    end = COUNT_BYTES + count * encoding.record_bytes
    tail_bytes = source.size_bytes - end
    if tail_bytes in key_bytes and _starts_with_g2_generator(source, end):
        return counted(source, encoding, COUNT_BYTES, count, "slice", tail_bytes=tail_bytes)
    return counted(source, encoding, COUNT_BYTES, count, "slice")


def _starts_with_g2_generator(source: Source, offset: int) -> bool:
    imaginary, real = (source.number(offset + 32 * i, 32, "the verifying key", "big") for i in range(2))
    return (imaginary & ((1 << 254) - 1), real) == G2_GENERATOR_X
