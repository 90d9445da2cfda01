"""One small legal file of every format, what it holds, and an independent reader for changed ones."""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import point_files as pf
from point_files import MONTGOMERY_R, P, Point, R

Values = list[Point] | list[int]


@dataclass(frozen=True)
class Sample:
    """`reference` returns the values that changed bytes stand for, or None when they must be refused."""

    format: str
    data: bytes
    expected: Values
    reference: Callable[[bytes], Values | None]
    section: str | None = None
    kind: str = "points"

    @property
    def name(self) -> str:
        return f"{self.kind}:{self.format}" + (f":{self.section}" if self.section else "")


POINTS = [*pf.multiples(4, (1, 2)), None, *pf.multiples(3, (1, P - 2))][:7]
FINITE = pf.multiples(8)
SCALARS = [0, 1, R - 1, 12345, 1 << 200, 7, R // 2]

EIP196 = (64, partial(pf.reference_affine, order="big"))
LITTLE = (64, partial(pf.reference_affine, order="little"))
LITTLE_MONTGOMERY = (64, partial(pf.reference_affine, order="little", montgomery=True))
BIG_MONTGOMERY = (64, partial(pf.reference_affine, order="big", montgomery=True))
GNARK = (
    32,
    partial(pf.reference_flagged, order="big", meanings={2: "first", 3: "second", 1: "infinity"}, parity=False),
)
ARK = (
    32,
    partial(pf.reference_flagged, order="little", meanings={0: "first", 2: "second", 1: "infinity"}, parity=False),
)
HALO2 = (
    32,
    partial(pf.reference_flagged, order="little", meanings={0: "first", 2: "second", 1: "infinity"}, parity=True),
)
AZTEC = (32, partial(pf.reference_flagged, order="big", meanings={0: "first", 2: "second"}, parity=True))
ARK_UNCOMPRESSED = (64, pf.reference_ark_uncompressed)
IGNITION = (64, pf.reference_words)


def reference_scalar(record: bytes, order: str = "little", montgomery: bool = False, canonical: bool = False):
    value = int.from_bytes(record, order)
    if (montgomery or canonical) and value >= R:
        return False
    return value * pow(MONTGOMERY_R, -1, R) % R if montgomery else value


def scalar(**how) -> tuple[int, Callable]:
    return 32, partial(reference_scalar, **how)


def values(data: bytes, record: tuple[int, Callable]) -> Values | None:
    size, decode = record
    if len(data) % size:
        return None
    decoded = [decode(data[i : i + size]) for i in range(0, len(data), size)]
    return None if any(value is False for value in decoded) else decoded


def flat(record, head: bytes = b"") -> Callable[[bytes], Values | None]:
    return lambda data: values(data, record) if data and data.startswith(head) else None


def counted(record, count_bytes: int, order: str, tails=lambda tail: tail == b"") -> Callable[[bytes], Values | None]:
    def read(data: bytes) -> Values | None:
        if len(data) < count_bytes:
            return None
        end = count_bytes + int.from_bytes(data[:count_bytes], order) * record[0]
        if end > len(data) or not tails(data[end:]):
            return None
        return values(data[count_bytes:end], record)

    return read


def gnark_tail(sizes: tuple[int, ...]) -> Callable[[bytes], bool]:
    def legal(tail: bytes) -> bool:
        x = int.from_bytes(tail[:32], "big") % (1 << 254), int.from_bytes(tail[32:64], "big")
        return not tail or (len(tail) in sizes and x == pf.G2_X)

    return legal


def modulus_at(content: bytes, position: int, modulus: int) -> bool:
    return content[position : position + 36] == pf.u32(32) + modulus.to_bytes(32, "little")


def read_ptau(data: bytes, kind: int) -> Values | None:
    sections = pf.reference_container(data, b"ptau", 1) or {}
    header = sections.get(1, b"")
    if len(header) != 44 or not modulus_at(header, 0, P) or kind not in sections:
        return None
    power = int.from_bytes(header[36:40], "little")
    if power > 28:
        return None
    size = 2**power
    count = {2: 2 * size - 1, 4: size, 5: size, 12: 4 * size - 1, 14: 2 * size - 1, 15: 2 * size - 1}[kind]
    return values(sections[kind], LITTLE_MONTGOMERY) if len(sections[kind]) == 64 * count else None


def read_zkey(data: bytes, kind: int, protocol: int) -> Values | None:
    sections = pf.reference_container(data, b"zkey", 1) or {}
    header = sections.get(2, b"")
    sound = modulus_at(header, 0, P) and modulus_at(header, 36, R) and len(header) >= 84 and kind in sections
    if not sound or len(sections.get(1, b"")) < 4 or int.from_bytes(sections[1][:4], "little") != protocol:
        return None
    variables, public, domain = (int.from_bytes(header[i : i + 4], "little") for i in (72, 76, 80))
    if protocol == 1 and public >= variables:
        return None
    count = {3: public + 1, 5: variables, 6: variables, 8: variables - public - 1, 9: domain, 14: domain + 6}
    count[16] = 9 * domain + 18
    return values(sections[kind], LITTLE_MONTGOMERY) if len(sections[kind]) == 64 * count[kind] else None


def read_wtns(data: bytes) -> Values | None:
    sections = pf.reference_container(data, b"wtns", 2) or {}
    header = sections.get(1, b"")
    if not modulus_at(header, 0, R) or len(header) < 40 or 2 not in sections:
        return None
    count = int.from_bytes(header[36:40], "little")
    return values(sections[2], scalar(canonical=True)) if len(sections[2]) == 32 * count else None


def read_ignition(data: bytes) -> Values | None:
    if len(data) < 28:
        return None
    number, transcripts, all_g1, _, g1, g2, first = (int.from_bytes(data[i : i + 4], "big") for i in range(0, 28, 4))
    if number >= transcripts or first + g1 > all_g1 or len(data) != 28 + 64 * g1 + 128 * g2 + 64:
        return None
    return values(data[28 : 28 + 64 * g1], IGNITION)


def read_dump(data: bytes) -> Values | None:
    for key in (320, 320 + 33792):
        if data[key : key + 8] == pf.u64(0xDEADBEEF):
            return counted(LITTLE_MONTGOMERY, 8, "little")(data[key + 8 :])
    return None


def read_halo2(data: bytes, record, lagrange: bool) -> Values | None:
    k = int.from_bytes(data[:4], "little")
    if len(data) < 4 or k > 28 or len(data) != 4 + 2 * record[0] * 2**k + 4 * record[0]:
        return None
    start = 4 + (record[0] * 2**k if lagrange else 0)
    return values(data[start : start + record[0] * 2**k], record)


def read_npy(data: bytes, record) -> Values | None:
    if data[:6] != b"\x93NUMPY" or len(data) < 10 or data[6] not in (1, 2, 3):
        return None
    width = 2 if data[6] == 1 else 4
    start = 8 + width + int.from_bytes(data[8 : 8 + width], "little")
    if start > len(data) or start > 10_000 + 8 + width or b"\\" in data[:start]:
        return None
    try:
        header = ast.literal_eval(data[8 + width : start].decode("latin-1"))
        shape, kind, fortran = header["shape"], header["descr"], header["fortran_order"]
    except Exception:
        return None
    rows = [("|u1", (record[0],)), ("<u8", (record[0] // 8,))]
    if record[0] == 64:
        rows += [("|u1", (2, 32)), ("<u8", (2, 4))]
    if not isinstance(shape, tuple) or not all(type(axis) is int and axis >= 0 for axis in shape) or not shape:
        return None
    if not isinstance(kind, str) or (kind, shape[1:]) not in rows or fortran is not False:
        return None
    return values(data[start:], record) if shape[0] * record[0] == len(data) - start else None


def read_text(data: bytes) -> Values | None:
    lines = [line.strip() for line in data.split(b"\n")]
    numbers = [line for line in lines if line and line[:1] != b"#"]
    if not data or not all(re.fullmatch(rb"0[xX][0-9a-fA-F]+|[0-9]+", line) for line in numbers):
        return None
    found = [int(line, 16 if line[1:2] in (b"x", b"X") else 10) for line in numbers]
    return found if all(value < 2**256 for value in found) else None


def joined(points, encode: Callable[[Point], bytes]) -> bytes:
    return b"".join(map(encode, points))


def samples() -> list[Sample]:
    affine = pf.affine
    found = [
        Sample("eip196", joined(POINTS, partial(affine, order="big")), POINTS, flat(EIP196)),
        Sample("raw-be", joined(POINTS, partial(affine, order="big")), POINTS, flat(EIP196)),
        Sample("raw-le", joined(POINTS, partial(affine, order="little")), POINTS, flat(LITTLE)),
        Sample("raw-le-mont", pf.lem(POINTS), POINTS, flat(LITTLE_MONTGOMERY)),
        Sample("raw-be-mont", joined(POINTS, lambda p: affine(p, "big", True)), POINTS, flat(BIG_MONTGOMERY)),
        Sample("bb", joined(FINITE, partial(affine, order="big")), FINITE, flat(EIP196, affine((1, 2), "big"))),
        Sample("bb-compressed", joined(FINITE, pf.aztec_compressed), FINITE, flat(AZTEC, pf.aztec_compressed((1, 2)))),
        Sample("ignition", pf.ignition(FINITE), FINITE, read_ignition),
        Sample("gnark-dump", pf.gnark_dump(POINTS, lines=False), POINTS, read_dump),
        Sample("eigenda", joined(POINTS, pf.gnark_compressed), POINTS, flat(GNARK)),
        Sample("ark", pf.ark_vector(POINTS, pf.ark_uncompressed), POINTS, counted(ARK_UNCOMPRESSED, 8, "little")),
        Sample("ark-compressed", pf.ark_vector(POINTS, pf.ark_compressed), POINTS, counted(ARK, 8, "little")),
        Sample("wtns", pf.wtns(SCALARS), SCALARS, read_wtns, kind="scalars"),
        Sample("text", text_of(SCALARS), SCALARS, read_text, kind="scalars"),
    ]
    for compressed, name, record, sizes in (
        (False, "gnark-raw", EIP196, (320, 34112)),
        (True, "gnark-compressed", GNARK, (160, 33952)),
    ):
        data = pf.gnark_slice(POINTS, compressed, pf.gnark_key(compressed, lines=False))
        found.append(Sample(name, data, POINTS, counted(record, 4, "big", gnark_tail(sizes))))
    for name, kind in {"tau": 2, "alpha": 4, "beta": 5, "lagrange-tau": 12, "lagrange-beta": 15}.items():
        found.append(ptau_sample(name, kind))
    for name, kind in {"a": 5, "b1": 6, "c": 8, "h": 9, "ic": 3}.items():
        data = pf.zkey_groth16(POINTS)
        expected = read_zkey(data, kind, 1)
        found.append(Sample("zkey", data, expected, partial(read_zkey, kind=kind, protocol=1), name))
    for protocol, kind, domain, count in ((2, 14, 2, 8), (10, 16, 0, 18)):
        points = pf.multiples(count)
        data = pf.zkey_tau(points, protocol, kind, domain)
        found.append(Sample("zkey", data, points, partial(read_zkey, kind=kind, protocol=protocol), "tau"))
    for compressed, name, record in ((False, "halo2", LITTLE_MONTGOMERY), (True, "halo2-processed", HALO2)):
        lagrange = [None, *FINITE[:3]]
        data = pf.halo2(FINITE[:4], lagrange, compressed)
        found.append(Sample(name, data, FINITE[:4], partial(read_halo2, record=record, lagrange=False)))
        found.append(Sample(name, data, lagrange, partial(read_halo2, record=record, lagrange=True), "lagrange"))
    return found + plain_scalars() + arrays()


def ptau_sample(name: str, kind: int) -> Sample:
    data = pf.ptau(POINTS)
    return Sample("ptau", data, read_ptau(data, kind), partial(read_ptau, kind=kind), name)


def text_of(scalars: list[int]) -> bytes:
    lines = [f"{s}" if i % 2 else f"0x{s:x}" for i, s in enumerate(scalars)]
    return ("# scalars\n\n" + "\n".join(lines) + "\n").encode()


def plain_scalars() -> list[Sample]:
    wide = [*SCALARS, 2**256 - 1, R, R + 5]
    little = b"".join(s.to_bytes(32, "little") for s in wide)
    big = b"".join(s.to_bytes(32, "big") for s in wide)
    canonical = b"".join(s.to_bytes(32, "little") for s in SCALARS)
    canonical_big = b"".join(s.to_bytes(32, "big") for s in SCALARS)
    mont = [s * MONTGOMERY_R % R for s in SCALARS]
    mont_little = b"".join(s.to_bytes(32, "little") for s in mont)
    mont_big = b"".join(s.to_bytes(32, "big") for s in mont)
    in_le, in_be = scalar(montgomery=True), scalar(order="big", montgomery=True)
    ark, gnark = scalar(canonical=True), scalar(order="big", canonical=True)
    return [
        Sample("raw-le", little, wide, flat(scalar()), kind="scalars"),
        Sample("raw-be", big, wide, flat(scalar(order="big")), kind="scalars"),
        Sample("raw-le-mont", mont_little, SCALARS, flat(in_le), kind="scalars"),
        Sample("raw-be-mont", mont_big, SCALARS, flat(in_be), kind="scalars"),
        Sample("ark-scalars", pf.u64(7) + canonical, SCALARS, counted(ark, 8, "little"), kind="scalars"),
        Sample("gnark-scalars", pf.u32(7, "big") + canonical_big, SCALARS, counted(gnark, 4, "big"), kind="scalars"),
        Sample("npy", pf.npy(little, (10, 4), "<u8"), wide, partial(read_npy, record=scalar()), kind="scalars"),
        Sample("npy-be", pf.npy(big, (10, 32)), wide, partial(read_npy, record=scalar(order="big")), kind="scalars"),
        Sample(
            "npy-mont", pf.npy(mont_little, (7, 4), "<u8"), SCALARS, partial(read_npy, record=in_le), kind="scalars"
        ),
    ]


def arrays() -> list[Sample]:
    little = joined(POINTS, partial(pf.affine, order="little"))
    big = joined(POINTS, partial(pf.affine, order="big"))
    return [
        Sample("npy", pf.npy(little, (7, 2, 4), "<u8"), POINTS, partial(read_npy, record=LITTLE)),
        Sample("npy-be", pf.npy(big, (7, 64)), POINTS, partial(read_npy, record=EIP196)),
        Sample("npy-mont", pf.npy(pf.lem(POINTS), (7, 8), "<u8"), POINTS, partial(read_npy, record=LITTLE_MONTGOMERY)),
    ]


NASTY = [0, 1, 2, 7, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1]


def mutate(data: bytes, rng: random.Random) -> bytes:
    """One to three changes of the kinds that break readers."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        at = min(rng.choice((rng.randrange(len(out) + 1), rng.randrange(0, 64), rng.randrange(0, 16))), len(out))
        kind = rng.randrange(9)
        if kind == 0 and at < len(out):
            out[at] ^= 1 << rng.randrange(8)
        elif kind == 1 and at < len(out):
            out[at] = rng.choice((0, 1, 0x40, 0x7F, 0x80, 0xC0, 0xFF, rng.randrange(256)))
        elif kind in (2, 3):
            size = 4 if kind == 2 else 8
            out[at : at + size] = (rng.choice(NASTY) % 2 ** (8 * size)).to_bytes(size, rng.choice(("little", "big")))
        elif kind == 4:
            del out[at : at + rng.choice((1, 4, 12, 32, 64, 1000))]
        elif kind == 5:
            out[at:at] = bytes(rng.randrange(256) for _ in range(rng.choice((1, 4, 32, 64))))
        elif kind == 6:
            out[at:at] = out[max(0, at - 64) : at]
        elif kind == 7:
            del out[at:]
        else:
            out[at : at + 32] = rng.choice((P, R, 2**256 - 1, 0, 1)).to_bytes(32, rng.choice(("little", "big")))
        if not out:
            break
    return bytes(out)
