"""Every file format that is read, in one table: `whet msm --list-formats` prints it, `open` looks things up in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatch
from typing import Literal

from whet.errors import BadInput
from whet.msm.options import shown
from whet.msm.points import arkworks, arrays, aztec, encodings, gnark, halo2, iden3, prepared, text
from whet.msm.points.layout import Layout
from whet.msm.points.source import Source
from whet.msm.validate import Limbs

Kind = Literal["points", "scalars"]
Read = Callable[[Source, str | None], Layout | Limbs]


@dataclass(frozen=True)
class Format:
    """One row. A format without a magic is never guessed: the caller names it."""

    name: str
    kind: Kind
    description: str
    read: Read
    magic: bytes = b""
    sections: tuple[str, ...] = ()
    usual_name: str = ""
    checksum: Callable[[Source], None] | None = None


def _points() -> Iterable[Format]:
    yield Format("prepared", "points", "points saved by Engine.save", prepared.refuse, prepared.MAGIC)
    ptau, zkey = tuple(iden3.PTAU_SECTIONS), (*iden3.GROTH16_SECTIONS, "tau")
    yield Format("ptau", "points", "snarkjs powers of tau", iden3.read_ptau, b"ptau", ptau, "*.ptau")
    yield Format(
        "zkey", "points", "snarkjs proving key (groth16, plonk, fflonk)", iden3.read_zkey, b"zkey", zkey, "*.zkey"
    )
    yield Format("bb", "points", "Aztec flat CRS", aztec.read_flat, usual_name="bn254_g1.dat")
    yield Format(
        "bb-compressed", "points", "Aztec compressed CRS", aztec.read_compressed, usual_name="*_compressed.dat"
    )
    yield Format(
        "ignition", "points", "Aztec Ignition transcript", aztec.read_ignition,
        usual_name="transcript*.dat", checksum=aztec.check_ignition,
    )  # fmt: skip
    yield Format("gnark-raw", "points", "gnark SRS.WriteRawTo, or a slice of raw points", gnark.read_raw)
    yield Format("gnark-compressed", "points", "gnark SRS.WriteTo, or a slice of points", gnark.read_compressed)
    yield Format("gnark-dump", "points", "gnark SRS.WriteDump", gnark.read_dump, usual_name="*.memdump")
    yield Format(
        "eigenda", "points", "gnark compressed points, concatenated", gnark.read_concatenated, usual_name="*.point"
    )
    yield Format("ark", "points", "arkworks Vec<G1Affine>, uncompressed", arkworks.read_uncompressed)
    yield Format("ark-compressed", "points", "arkworks Vec<G1Affine>, compressed", arkworks.read_compressed)
    halo2_sections = tuple(halo2.SECTIONS)
    yield Format("halo2", "points", "halo2 ParamsKZG, RawBytes", halo2.read_raw, b"", halo2_sections, "*.srs")
    yield Format("halo2-processed", "points", "halo2 ParamsKZG, Processed", halo2.read_processed, b"", halo2_sections)
    plain = {
        "eip196": encodings.EIP196,
        "raw-be": encodings.EIP196,
        "raw-le": encodings.LITTLE,
        "raw-be-mont": encodings.BIG_MONTGOMERY,
        "raw-le-mont": encodings.LITTLE_MONTGOMERY,
    }
    for name, encoding in plain.items():
        yield Format(name, "points", f"{encoding.name}, no header", arrays.read_flat(encoding))
    for suffix, encoding in _by_order(encodings.LITTLE, encodings.EIP196, encodings.LITTLE_MONTGOMERY):
        magic = b"" if suffix else arrays.NPY_MAGIC
        yield Format(f"npy{suffix}", "points", f"numpy array, {encoding.name}", arrays.read_npy(encoding), magic)


def _scalars() -> Iterable[Format]:
    yield Format("wtns", "scalars", "circom and snarkjs witness", iden3.read_wtns, b"wtns", (), "*.wtns")
    yield Format("ark-scalars", "scalars", "arkworks Vec<Fr>", arkworks.read_scalars)
    yield Format("gnark-scalars", "scalars", "gnark fr.Vector", gnark.read_scalars)
    plain = {
        "raw-le": encodings.SCALAR_LITTLE,
        "raw-be": encodings.SCALAR_BIG,
        "raw-le-mont": encodings.SCALAR_LITTLE_MONTGOMERY,
        "raw-be-mont": encodings.SCALAR_BIG_MONTGOMERY,
    }
    for name, encoding in plain.items():
        yield Format(name, "scalars", f"{encoding.name}, no header", arrays.read_flat(encoding))
    # A wrong guess about scalars would not show, so not even .npy is found by itself.
    for suffix, encoding in _by_order(
        encodings.SCALAR_LITTLE, encodings.SCALAR_BIG, encodings.SCALAR_LITTLE_MONTGOMERY
    ):
        yield Format(f"npy{suffix}", "scalars", f"numpy array, {encoding.name}", arrays.read_npy(encoding))
    yield Format("text", "scalars", "one decimal or 0x integer a line", lambda source, _: text.parse_lines(source))


def _by_order(*encodings_in_order: encodings.Encoding) -> Iterable[tuple[str, encodings.Encoding]]:
    return zip(("", "-be", "-mont"), encodings_in_order, strict=True)


FORMATS: tuple[Format, ...] = (*_points(), *_scalars())


def choose(source: Source, kind: Kind, name: str) -> Format:
    """The format called `name`; for `auto` the one whose magic the file starts with."""
    offered = {row.name: row for row in FORMATS if row.kind == kind}
    if isinstance(name, str) and name in offered:
        return offered[name]
    if not isinstance(name, str) or name != "auto":
        raise BadInput(f"no {kind} format {shown(name)}", cure=f"formats: auto, {', '.join(offered)}")
    for row in offered.values():
        if row.magic and source.head(len(row.magic)) == row.magic:
            return row
    alike = [row.name for row in offered.values() if row.usual_name and fnmatch(source.path.name, row.usual_name)]
    hint = f"; the file's name is usual for {alike[0]}" if alike else ""
    raise source.bad(
        "does not say what format it has",
        cure=f"name it (format=, or --{kind}-format): {', '.join(offered)}{hint}",
    )
