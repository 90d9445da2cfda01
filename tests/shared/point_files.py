"""Files of points and scalars, written and read back by the formats' published descriptions.

Python integers only, and no line of the package: what the readers are held against. A writer takes points as (x, y) or
None for infinity; a `reference_*` function takes bytes and returns what they mean, or None when they must be refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

P = 21888242871839275222246405745257275088696311157297823662689037894645226208583
R = 21888242871839275222246405745257275088548364400416034343698204186575808495617
MONTGOMERY_P = (1 << 256) % P
MONTGOMERY_R = (1 << 256) % R
G2_X = (
    11559732032986387107991004021392285783925812861821192530917403151452391805634,
    10857046999023057135944570762232829481370756359578518086990519993285655852781,
)
Point = tuple[int, int] | None


def add(a: Point, b: Point) -> Point:
    if a is None or b is None:
        return a or b
    if a[0] == b[0]:
        if (a[1] + b[1]) % P == 0:
            return None
        slope = 3 * a[0] * a[0] * pow(2 * a[1], -1, P)
    else:
        slope = (b[1] - a[1]) * pow(b[0] - a[0], -1, P)
    x = (slope * slope - a[0] - b[0]) % P
    return x, (slope * (a[0] - x) - a[1]) % P


def multiples(count: int, first: Point = (1, 2)) -> list[Point]:
    points, running = [], first
    for _ in range(count):
        points.append(running)
        running = add(running, (1, 2))
    return points


def u32(value: int, order: str = "little") -> bytes:
    return value.to_bytes(4, order)


def u64(value: int) -> bytes:
    return value.to_bytes(8, "little")


def affine(point: Point, order: str, montgomery: bool = False) -> bytes:
    scale = MONTGOMERY_P if montgomery else 1
    return b"".join((c * scale % P).to_bytes(32, order) for c in point or (0, 0))


def words_big_endian(point: Point) -> bytes:
    out = b""
    for coordinate in point or (0, 0):
        out += b"".join((coordinate >> (64 * i) & (2**64 - 1)).to_bytes(8, "big") for i in range(4))
    return out


def flagged(point: Point, order: str, *, second: int, infinity: int, other: int = 0, parity: bool = False) -> bytes:
    """x with bits above 253: `second` for the odd or larger y, `other` for the other y, `infinity` with x = 0."""
    if point is None:
        return (infinity << 254).to_bytes(32, order)
    x, y = point
    is_second = y % 2 == 1 if parity else y > P - y
    return (x | (second if is_second else other) << 254).to_bytes(32, order)


def gnark_compressed(point: Point) -> bytes:
    return flagged(point, "big", second=3, other=2, infinity=1)


def ark_compressed(point: Point) -> bytes:
    return flagged(point, "little", second=2, infinity=1)


def halo2_compressed(point: Point) -> bytes:
    return flagged(point, "little", second=2, infinity=1, parity=True)


def aztec_compressed(point: Point) -> bytes:
    return flagged(point, "big", second=2, infinity=1, parity=True)


def ark_uncompressed(point: Point) -> bytes:
    x, y = point or (0, 0)
    flags = 1 if point is None else 2 if y > P - y else 0
    return x.to_bytes(32, "little") + (y | flags << 254).to_bytes(32, "little")


def section(kind: int, content: bytes) -> bytes:
    return u32(kind) + u64(len(content)) + content


def container(magic: bytes, version: int, sections: list[tuple[int, bytes]]) -> bytes:
    return magic + u32(version) + u32(len(sections)) + b"".join(section(*entry) for entry in sections)


def lem(points: list[Point]) -> bytes:
    return b"".join(affine(point, "little", montgomery=True) for point in points)


def ptau(points: list[Point], power: int = 2) -> bytes:
    """tau is `points`; the other sections are its first or last ones, so that a mixed-up section shows."""
    size = 1 << power
    assert len(points) == 2 * size - 1
    many = (points * 4)[3:]
    header = u32(32) + P.to_bytes(32, "little") + u32(power) + u32(power + 3)
    return container(
        b"ptau",
        1,
        [
            (1, header),
            (2, lem(points)),
            (3, bytes(range(128)) * size),
            (4, lem(many[:size])),
            (5, lem(many[1 : size + 1])),
            (6, bytes(128)),
            (7, u32(0)),
            (12, lem(many[2 : 4 * size + 1])),
            (13, bytes(128) * (2 * size - 1)),
            (14, lem(many[3 : 2 * size + 2])),
            (15, lem(many[4 : 2 * size + 3])),
        ],
    )


def zkey_groth16(points: list[Point], public: int = 2, domain: int = 8) -> bytes:
    variables = len(points)
    many = points * 3
    header = u32(32) + P.to_bytes(32, "little") + u32(32) + R.to_bytes(32, "little")
    header += u32(variables) + u32(public) + u32(domain) + bytes(3 * 64 + 3 * 128)
    return container(
        b"zkey",
        1,
        [
            (1, u32(1)),
            (2, header),
            (4, u32(0)),
            (3, lem(many[: public + 1])),
            (9, lem(many[1 : domain + 1])),
            (8, lem(many[2 : variables - public + 1])),
            (5, lem(points)),
            (6, lem(many[1 : variables + 1])),
            (7, bytes(128 * variables)),
            (10, bytes(64)),
        ],
    )


def zkey_tau(points: list[Point], protocol: int, kind: int, domain: int) -> bytes:
    header = u32(32) + P.to_bytes(32, "little") + u32(32) + R.to_bytes(32, "little") + u32(9) + u32(1) + u32(domain)
    return container(b"zkey", 1, [(1, u32(protocol)), (2, header + bytes(200)), (kind, lem(points)), (11, b"x" * 96)])


def wtns(scalars: list[int]) -> bytes:
    header = u32(32) + R.to_bytes(32, "little") + u32(len(scalars))
    return container(b"wtns", 2, [(1, header), (2, b"".join(s.to_bytes(32, "little") for s in scalars))])


def ignition(points: list[Point], number: int = 0) -> bytes:
    g2 = 2 if number == 0 else 0
    manifest = (number, 20, 100_800_000, 1, len(points), g2, number * 5_040_000)
    body = b"".join(u32(v, "big") for v in manifest) + b"".join(map(words_big_endian, points)) + bytes(128 * g2)
    return body + hashlib.blake2b(body).digest()


def gnark_key(compressed: bool, lines: bool) -> bytes:
    if compressed:
        key = (G2_X[0] | 2 << 254).to_bytes(32, "big") + G2_X[1].to_bytes(32, "big") + bytes(64) + bytes(32)
    else:
        key = G2_X[0].to_bytes(32, "big") + G2_X[1].to_bytes(32, "big") + bytes(64) + bytes(128) + bytes(64)
    return key + bytes(2 * 2 * 66 * 2 * 64 if lines else 0)


def gnark_slice(points: list[Point], compressed: bool, tail: bytes = b"") -> bytes:
    encode = gnark_compressed if compressed else lambda point: affine(point, "big")
    return u32(len(points), "big") + b"".join(map(encode, points)) + tail


def gnark_dump(points: list[Point], lines: bool = True) -> bytes:
    return gnark_key(False, lines) + u64(0xDEADBEEF) + u64(len(points)) + lem(points)


def ark_vector(points: list[Point], encode: Callable[[Point], bytes]) -> bytes:
    return u64(len(points)) + b"".join(map(encode, points))


def halo2(points: list[Point], lagrange: list[Point], compressed: bool = False) -> bytes:
    assert len(points) == len(lagrange) and len(points).bit_count() == 1
    encode = halo2_compressed if compressed else lambda point: affine(point, "little", montgomery=True)
    k = len(points).bit_length() - 1
    return u32(k) + b"".join(map(encode, points + lagrange)) + bytes(128 if compressed else 256)


def npy(rows: bytes, shape: tuple[int, ...], dtype: str = "|u1") -> bytes:
    header = repr({"descr": dtype, "fortran_order": False, "shape": shape}).encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + rows


# Reading back: records first, then files.


def on_curve(x: int, y: int) -> bool:
    return x < P and y < P and (y * y - x * x * x - 3) % P == 0


def reference_affine(record: bytes, order: str, montgomery: bool = False) -> Point | bool:
    x, y = (int.from_bytes(record[i : i + 32], order) for i in (0, 32))
    return reference_point(x, y, montgomery)


def reference_words(record: bytes) -> Point | bool:
    words = [int.from_bytes(record[i : i + 8], "big") for i in range(0, 64, 8)]
    return reference_point(*(sum(w << (64 * i) for i, w in enumerate(words[h : h + 4])) for h in (0, 4)))


def reference_point(x: int, y: int, montgomery: bool = False) -> Point | bool:
    """The point, None for infinity, False for what must be refused."""
    if x == 0 and y == 0:
        return None
    if x >= P or y >= P:
        return False
    if montgomery:
        x, y = (c * pow(MONTGOMERY_P, -1, P) % P for c in (x, y))
    return (x, y) if on_curve(x, y) else False


def reference_flagged(record: bytes, order: str, meanings: dict[int, str], parity: bool) -> Point | bool:
    value = int.from_bytes(record, order)
    meaning, x = meanings.get(value >> 254), value & ((1 << 254) - 1)
    if meaning is None:
        return False
    if meaning == "infinity":
        return None if x == 0 else False
    y = pow(x**3 + 3, (P + 1) // 4, P)
    if not on_curve(x, y):
        return False
    is_second = y % 2 == 1 if parity else y > P - y
    return x, y if is_second == (meaning == "second") else P - y


def reference_ark_uncompressed(record: bytes) -> Point | bool:
    x, y = (int.from_bytes(record[i : i + 32], "little") for i in (0, 32))
    flags, y = y >> 254, y & ((1 << 254) - 1)
    if flags == 1:
        return None if x == 0 and y <= 1 else False
    if flags == 3 or (x == 0 and y == 0) or (flags == 2 and y <= P - y):
        return False
    return reference_point(x, y)


def reference_records(data: bytes, size: int, decode: Callable[[bytes], Point | bool]) -> list[Point] | None:
    if len(data) % size:
        return None
    points = [decode(data[i : i + size]) for i in range(0, len(data), size)]
    return None if False in points else points


def reference_container(data: bytes, magic: bytes, newest: int) -> dict[int, bytes] | None:
    if len(data) < 12 or data[:4] != magic or not 1 <= int.from_bytes(data[4:8], "little") <= newest:
        return None
    sections, position = {}, 12
    for _ in range(int.from_bytes(data[8:12], "little")):
        head = data[position : position + 12]
        kind, size = int.from_bytes(head[:4], "little"), int.from_bytes(head[4:], "little")
        if len(head) < 12 or position + 12 + size > len(data) or kind in sections or len(sections) == 64:
            return None
        sections[kind] = data[position + 12 : position + 12 + size]
        position += 12 + size
    return sections if position == len(data) else None
