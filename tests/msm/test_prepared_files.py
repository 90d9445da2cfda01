"""Files of prepared points: what is in them can be checked, and writing one touches nothing else."""

from __future__ import annotations

import os
import random
import struct
from pathlib import Path

import numpy as np
import pytest
from whet._native import msm as native

from whet.errors import BadInput
from whet.msm import Engine, inputs, msm
from whet.msm.point import P

BACKENDS = native.backends()
HEADER = struct.Struct("<8sIIIIQQQQ")
DATA = 4096  # the table starts there
WORD = (1 << 64) - 1
FORGED_FILES = 400  # for each backend that saved one


def checksum(data: bytes) -> int:
    """The file's own, in Python integers: anyone can compute it."""
    factor = 0x9FB21C651E98DF25
    chain = [0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93]
    padded = data + bytes(-len(data) % 32)
    for start in range(0, len(padded), 32):
        for i, word in enumerate(struct.unpack_from("<4Q", padded, start)):
            chain[i] = (chain[i] ^ word) * factor & WORD
            chain[i] ^= chain[i] >> 32
    total = len(data)
    for one in chain:
        total = (total ^ one) * factor & WORD
        total ^= total >> 29
    return total


def forge(content: bytes, *, infinite: list[int] | None = None, **rows: bytes) -> bytes:
    """The same file with other points (p3=...: point 3) or another list of infinite ones, and right checksums."""
    fields = list(HEADER.unpack_from(content))
    n = fields[5]
    table = bytearray(content[DATA : DATA + 64 * n])
    for name, row in rows.items():
        table[64 * int(name[1:]) : 64 * int(name[1:]) + 64] = row
    tail = content[DATA + 64 * n :] if infinite is None else struct.pack(f"<{len(infinite)}I", *infinite)
    body = bytes(table) + tail
    fields[6], fields[7] = len(tail) // 4, checksum(body)
    fields[8] = checksum(HEADER.pack(*fields)[:-8])
    return HEADER.pack(*fields) + content[HEADER.size : DATA] + body


@pytest.fixture(params=BACKENDS)
def saved(request, tmp_path) -> Path:
    """40 points; 7 and 9 are at infinity."""
    logs = inputs.logs("random", 40, 1)
    logs[[7, 9]] = 0
    path = tmp_path / "srs.whet"
    Engine(inputs.points_from_logs(logs), montgomery=True, backend=request.param).save(path)
    return path


def test_good_files_pass_every_check(saved, tried):
    scalars = inputs.scalars("random", 40, 2)
    expected = Engine.open(saved).compute(scalars)
    assert forge(saved.read_bytes()) == saved.read_bytes()
    for backend in BACKENDS:
        with Engine.open(saved, check="on-curve", backend=backend, threads=2) as engine:
            assert engine(scalars) == expected
    with pytest.raises(BadInput, match="no check 'sideways'"):
        Engine.open(saved, check="sideways")


def test_forged_points_are_found_by_asking(saved, tried):
    good = saved.read_bytes()
    row = good[DATA + 64 * 3 : DATA + 64 * 4]
    x, y = (int.from_bytes(row[i : i + 32], "little") for i in (0, 32))
    other = good[DATA : DATA + 64]
    forged = {
        "off the curve": (forge(good, p3=row[:32] + other[32:]), 3, "not on the curve"),
        "x not below p": (forge(good, p3=(x + P).to_bytes(32, "little") + row[32:]), 3, "not below p"),
        "y not below p": (forge(good, p3=row[:32] + (y + P).to_bytes(32, "little")), 3, "not below p"),
        "the last one": (forge(good, p39=bytes(32) + row[32:]), 39, "not on the curve"),
        "zeros that are no infinity": (forge(good, p5=bytes(64)), 5, "infinity"),
        "infinity that is no zeros": (forge(good, p7=row), 7, "infinity"),
        "a point said to be infinity": (forge(good, infinite=[7, 8, 9]), 8, "infinity"),
        "infinity not said": (forge(good, infinite=[7]), 9, "infinity"),
        "infinity said twice": (forge(good, infinite=[7, 7, 9]), None, "makes no sense"),
        "the first of two": (forge(good, p20=bytes(32) + row[32:], p30=bytes(64)), 20, "not on the curve"),
    }
    for name, (content, index, why) in forged.items():
        saved.write_bytes(content)
        for backend in BACKENDS:
            with pytest.raises(BadInput, match=why) as caught:
                Engine.open(saved, check="on-curve", backend=backend, threads=2)
            assert caught.value.cure, name
            if index is not None:
                assert f"point {index} " in caught.value.cause, name
        if index is not None:
            Engine.open(saved).close()  # the checksum alone does not show it
    tried("malformed inputs", len(forged))


def test_a_thousand_forged_files(saved, tried):
    """Any bytes with right checksums: refused, or summed up to whatever it may be. No crash, and nothing hangs."""
    good, draw = saved.read_bytes(), random.Random(7)
    words = [0, 1, P - 1, P, P + 1, 2 * P, 5 * P, (1 << 256) - 1, 1 << 255]
    scalars = inputs.scalars("random", 40, 2)
    outcomes = {"refused": 0, "summed": 0}
    for number in range(FORGED_FILES):
        if number % 3:
            rows = {
                f"p{draw.randrange(40)}": b"".join(
                    draw.choice([draw.choice(words), draw.getrandbits(256)]).to_bytes(32, "little") for _ in "xy"
                )
                for _ in range(draw.randrange(1, 30))
            }
            listed = sorted(draw.sample(range(40), draw.randrange(5))) if number % 3 == 1 else None
            content = forge(good, infinite=listed, **rows)
        else:  # another header, with a right checksum of its own
            fields = list(HEADER.unpack_from(good))
            fields[draw.randrange(1, 8)] = draw.choice(
                [0, 1, 40, 64, 255, 256, 260, (1 << 31) + 1, draw.getrandbits(32)]
            )
            fields[8] = checksum(HEADER.pack(*fields)[:-8])
            content = HEADER.pack(*fields) + good[HEADER.size :]
        saved.write_bytes(content)
        for check in ("none", "on-curve"):
            try:
                with Engine.open(saved, check=check, backend=BACKENDS[number % len(BACKENDS)], threads=1) as engine:
                    engine.compute(scalars[: len(engine)])
                outcomes["summed"] += 1
            except BadInput:
                outcomes["refused"] += 1
    assert min(outcomes.values()) > FORGED_FILES // 4, outcomes
    tried("malformed inputs", FORGED_FILES)


def test_the_check_reaches_every_point(tmp_path):
    """Of several tasks, on several threads, the first bad one is named."""
    n = 9_000
    points = inputs.points_from_logs(inputs.logs("random", 10, 1)).repeat(n // 10, axis=0)
    path = tmp_path / "srs.whet"
    Engine(points, montgomery=True, check=False).save(path)
    good = np.fromfile(path, np.uint8)
    for bad in ([8_999], [2_047], [2_048], [7_000, 5_000, 8_000]):
        content = good.copy()
        for index in bad:
            content[DATA + 64 * index] ^= 1
        path.write_bytes(content.tobytes())
        with pytest.raises(BadInput, match=f"point {min(bad)} "):
            Engine.open(path, check="on-curve", verify=False, threads=2)


def test_saving_follows_no_links_and_leaves_neighbours_alone(tmp_path):
    engine = Engine([(1, 2)])
    victim = tmp_path / "victim"
    victim.write_text("mine")
    target = tmp_path / "srs.whet"
    (tmp_path / "srs.whet.partial").symlink_to(victim)
    engine.save(target)
    assert victim.read_text() == "mine"
    assert Engine.open(target)([5]) == msm([(1, 2)], [5])
    target.unlink()
    target.symlink_to(victim)
    engine.save(target)
    assert victim.read_text() == "mine" and not target.is_symlink()
    (tmp_path / "srs.whet.partial").unlink()
    (tmp_path / "srs.whet.partial").write_text("a neighbour")
    engine.save(target)
    assert (tmp_path / "srs.whet.partial").read_text() == "a neighbour"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["srs.whet", "srs.whet.partial", "victim"]


def test_a_saved_file_has_the_usual_mode(tmp_path):
    before = os.umask(0o027)
    try:
        Engine([(1, 2)]).save(tmp_path / "srs.whet")
    finally:
        os.umask(before)
    assert (tmp_path / "srs.whet").stat().st_mode & 0o777 == 0o640


def test_paths_that_cannot_be_saved_to(tmp_path, monkeypatch):
    engine = Engine([(1, 2)])
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    for path in ("srs\0.whet", "\0", "folder", "no/such/folder", "", "x" * 300, 5, None):
        with pytest.raises(BadInput) as caught:
            engine.save(path)
        assert caught.value.cure
        with pytest.raises(BadInput):
            Engine.open(path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]
    os.mkfifo("pipe")
    with pytest.raises(BadInput, match="no file"):
        engine.save("pipe")
    assert Path("pipe").is_fifo()  # a device would have been replaced like it
    engine.save("relative.whet")
    engine.save("x" * 250)
    assert Engine.open("relative.whet")([2]) == Engine.open("x" * 250)([2]) == msm([(1, 2)], [2])


def test_paths_that_are_not_text(tmp_path):
    raw = os.fsencode(tmp_path) + b"/srs-\xff\xfe.whet"
    path = Path(os.fsdecode(raw))
    Engine([(1, 2)]).save(path)
    assert raw in [os.fsencode(entry) for entry in tmp_path.iterdir()]
    assert Engine.open(path)([3]) == Engine.open(raw)([3]) == msm([(1, 2)], [3])
    path.write_bytes(b"damaged")
    with pytest.raises(BadInput, match="too short") as caught:
        Engine.open(path)
    assert "srs-" in caught.value.cause and str(caught.value).encode("utf-8", "surrogateescape")
