"""The public face: every accepted form gives the same point, inputs stay as they are, engines close, threads share."""

from __future__ import annotations

import array
import mmap
import threading
import tracemalloc

import numpy as np
import pytest
from whet._native import field

from whet import msm
from whet.errors import BadInput, Unsupported
from whet.msm import inputs
from whet.msm.oracle import known_multiples
from whet.msm.point import P, R

N = 24
LOGS = inputs.to_ints(inputs.logs("collide", N, 11))
SCALARS = inputs.to_ints(inputs.scalars("edges", N, 12))
WANT = known_multiples(LOGS, SCALARS)


def known_points() -> list[tuple[int, int]]:
    from whet._native import curve

    flat = inputs.to_ints(curve.write_points(inputs.points_from_logs(inputs.to_limbs(LOGS))).reshape(-1, 4))
    return list(zip(flat[::2], flat[1::2], strict=True))


POINTS = known_points()
LITTLE = b"".join(v.to_bytes(32, "little") for point in POINTS for v in point)
BIG = b"".join(v.to_bytes(32, "big") for point in POINTS for v in point)
SCALARS_LITTLE = b"".join(v.to_bytes(32, "little") for v in SCALARS)
SCALARS_BIG = b"".join(v.to_bytes(32, "big") for v in SCALARS)


def strided(data: bytes, width: int) -> np.ndarray:
    wide = np.zeros((N, 2 * width), np.uint8)
    wide[:, ::2] = np.frombuffer(data, np.uint8).reshape(N, width)
    return wide[:, ::2]


def unaligned(data: bytes, columns: int) -> np.ndarray:
    buffer = np.zeros(len(data) + 1, np.uint8)
    buffer[1:] = np.frombuffer(data, np.uint8)
    return buffer[1:].view(np.uint64).reshape(N, columns)


def mapped(data: bytes) -> mmap.mmap:
    area = mmap.mmap(-1, len(data))
    area.write(data)
    return area


class FieldElement:
    """As other libraries have them: an integer only if asked for one."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __int__(self) -> int:
        return self.value


POINT_FORMS = {
    "pairs": POINTS,
    "Points": [msm.Point(*point) for point in POINTS],
    "None for infinity": [None if point == (0, 0) else point for point in POINTS],
    "lists": [list(point) for point in POINTS],
    "field elements": [(FieldElement(x), FieldElement(y)) for x, y in POINTS],
    "bytes": LITTLE,
    "bytearray": bytearray(LITTLE),
    "memoryview": memoryview(LITTLE),
    "array.array": array.array("B", LITTLE),
    "mmap": mapped(LITTLE),
    "uint8 flat": np.frombuffer(LITTLE, np.uint8),
    "uint8 rows": np.frombuffer(LITTLE, np.uint8).reshape(N, 64),
    "uint8 strided": strided(LITTLE, 64),
    "uint8 reversed twice": np.frombuffer(LITTLE, np.uint8).reshape(N, 64)[::-1].copy()[::-1],
    "uint64": np.frombuffer(LITTLE, np.uint64).reshape(N, 8),
    "uint8 x and y apart": np.frombuffer(LITTLE, np.uint8).reshape(N, 2, 32),
    "uint64 x and y apart": np.frombuffer(LITTLE, np.uint64).reshape(N, 2, 4),
    "uint64 unaligned": unaligned(LITTLE, 8),
    "uint64 column order": np.asfortranarray(np.frombuffer(LITTLE, np.uint64).reshape(N, 8)),
}
SCALAR_FORMS = {
    "integers": SCALARS,
    "tuple": tuple(SCALARS),
    "field elements": [FieldElement(value) for value in SCALARS],
    "bytes": SCALARS_LITTLE,
    "memoryview strided": memoryview(strided(SCALARS_LITTLE, 32).tobytes()),
    "uint8 rows": np.frombuffer(SCALARS_LITTLE, np.uint8).reshape(N, 32),
    "uint8 strided": strided(SCALARS_LITTLE, 32),
    "uint64": np.frombuffer(SCALARS_LITTLE, np.uint64).reshape(N, 4),
    "uint64 unaligned": unaligned(SCALARS_LITTLE, 4),
    "uint64 reversed": np.ascontiguousarray(np.frombuffer(SCALARS_LITTLE, np.uint64).reshape(N, 4)[::-1])[::-1],
}


@pytest.mark.parametrize("form", POINT_FORMS)
def test_point_forms(form):
    assert msm.msm(POINT_FORMS[form], SCALARS) == WANT


@pytest.mark.parametrize("form", SCALAR_FORMS)
def test_scalar_forms(form):
    assert msm.msm(POINTS, SCALAR_FORMS[form]) == WANT


def test_big_endian():
    assert msm.msm(BIG, SCALARS_BIG, endian="big") == WANT
    rows = np.frombuffer(BIG, np.uint8).reshape(N, 64)
    assert msm.msm(rows, np.frombuffer(SCALARS_BIG, np.uint8).reshape(N, 32), endian="big") == WANT
    assert msm.msm(POINTS, SCALARS, endian="big") == WANT  # integers have no byte order


def test_montgomery_forms():
    points = b"".join((v * 2**256 % P).to_bytes(32, "little") for point in POINTS for v in point)
    scalars = b"".join((v * 2**256 % R).to_bytes(32, "little") for v in SCALARS)
    assert msm.msm(points, SCALARS, points_montgomery=True) == WANT
    assert msm.msm(POINTS, scalars, scalars_montgomery=True) == WANT
    limbs = np.frombuffer(points, np.uint64).reshape(N, 8)
    with msm.Engine(limbs, montgomery=True) as engine:
        assert engine(scalars, montgomery=True) == WANT


def test_inputs_are_never_modified():
    points = np.frombuffer(LITTLE, np.uint64).reshape(N, 8).copy()
    scalars = np.frombuffer(SCALARS_LITTLE, np.uint64).reshape(N, 4).copy()
    for variant in ("plain", "pippenger", "pippenger:glv=true"):
        msm.msm(points, scalars, variant=variant)
    assert points.tobytes() == LITTLE and scalars.tobytes() == SCALARS_LITTLE


def test_prepared_points_do_not_follow_the_callers_array():
    points = np.frombuffer(LITTLE, np.uint64).reshape(N, 8).copy()
    with msm.Engine(points) as engine:
        points[:] = 0
        assert engine(SCALARS) == WANT


def test_nothing_is_infinity():
    for points in ([], b"", np.empty((0, 64), np.uint8), np.empty((0, 8), np.uint64)):
        for scalars in ([], b"", np.empty((0, 4), np.uint64)):
            assert msm.msm(points, scalars).is_infinity


def test_batch_and_views():
    with msm.Engine(POINTS) as engine:
        assert len(engine) == N
        vectors = [SCALARS, SCALARS[::-1], [0] * N]
        assert engine.batch(vectors) == [known_multiples(LOGS, scalars) for scalars in vectors]
        for offset, size in [(0, N), (0, 5), (3, 7), (N - 1, 1), (N, 0), (4, None)]:
            view = engine.view(offset, size)
            part = LOGS[offset:] if size is None else LOGS[offset : offset + size]
            assert len(view) == len(part)
            assert view(SCALARS[: len(part)]) == known_multiples(part, SCALARS[: len(part)])
            assert view.batch([SCALARS[: len(part)]]) == [known_multiples(part, SCALARS[: len(part)])]
        for offset, size in [(-1, 1), (0, N + 1), (N + 1, 0), (2, -1), (N + 1, None)]:
            with pytest.raises(BadInput):
                engine.view(offset, size)
        with pytest.raises(BadInput) as caught:
            engine.view(0, 5)(SCALARS)
        assert caught.value.index == 5


def test_a_closed_engine_says_so():
    engine = msm.Engine(POINTS)
    view = engine.view(0, 1)
    engine.close()
    engine.close()
    for call in (lambda: engine(SCALARS), lambda: view([1])):
        with pytest.raises(BadInput, match="closed"):
            call()


def test_check_can_be_left_out_but_not_the_range():
    off_curve = [(1, 3)]
    assert msm.msm(off_curve, [1], check=False) == msm.Point(1, 3)
    too_large = (P).to_bytes(32, "little") + (2).to_bytes(32, "little")
    with pytest.raises(BadInput):
        msm.msm(too_large, [1], check=False)


def test_unknown_choices():
    with pytest.raises(BadInput, match="variant"):
        msm.Engine(POINTS, variant="fastest")
    with pytest.raises(BadInput, match="c="):
        msm.Engine(POINTS, variant="pippenger:c=99")
    with pytest.raises(BadInput, match="endian"):
        msm.Engine(POINTS, endian="middle")
    with pytest.raises(BadInput, match="threads"):
        msm.Engine(POINTS, threads=0)


@pytest.mark.parametrize(
    ("options", "cause"),
    [
        ({"threads": 100_000}, "threads=100000 is not from 1 to 256"),
        ({"threads": "2"}, "threads='2' is not a number"),
        ({"threads": 1.5}, "threads=1.5 is not a number"),
        ({"threads": True}, "threads=True is not a number"),
        ({"memory_budget": "100MB"}, "memory_budget='100MB' is not a number of bytes"),
        ({"memory_budget": 1e8}, "is not a number of bytes"),
        ({"memory_budget": 0}, "budget of 0 bytes"),
        ({"device": None}, "no device None"),
        ({"device": "phone"}, "no device 'phone'"),
    ],
)
def test_options_that_make_no_sense_are_named(options, cause):
    with pytest.raises((BadInput, Unsupported), match=cause):
        msm.Engine(POINTS, **options)


@pytest.mark.parametrize("options", [{"cancel": 3}, {"progress": 3}])
def test_callbacks_that_cannot_be_called_are_named(options):
    with msm.Engine(POINTS) as engine, pytest.raises(BadInput, match=next(iter(options))):
        engine([1] * len(POINTS), **options)
    with pytest.raises(Unsupported):
        msm.Engine(POINTS, device="abacus")


def test_threads_share_an_engine_while_python_runs_on():
    """The lock is released: this thread counts while four others compute, and all five are right."""
    logs = inputs.logs("random", 2000, 5)
    scalars = [inputs.scalars("random", 2000, seed) for seed in range(4)]
    want = [known_multiples(inputs.to_ints(logs), inputs.to_ints(s)) for s in scalars]
    got: dict[int, msm.Point] = {}
    with msm.Engine(inputs.points_from_logs(logs), montgomery=True, variant="pippenger") as engine:
        workers = [threading.Thread(target=lambda i=i: got.update({i: engine(scalars[i])})) for i in range(4)]
        for worker in workers:
            worker.start()
        turns = 0
        while any(worker.is_alive() for worker in workers):
            turns += 1
        for worker in workers:
            worker.join()
    assert [got[i] for i in range(4)] == want
    assert turns > 100


def test_point_shows_itself():
    assert str(msm.Point.infinity()) == "infinity"
    assert str(msm.Point(1, 2)).startswith("(0x000")
    with pytest.raises(BadInput):
        msm.Point.from_bytes(b"short")


def test_field_backend_is_reported():
    assert field.fp.backend() in field.fp.backends()


@pytest.mark.parametrize("form", ["limbs", "bytes", "buffer"])
def test_scalars_are_read_where_they_lie(form):
    """A call allocates much less than its input: no copy is made on the way in."""
    n = 1 << 14
    points = inputs.points_from_logs(inputs.logs("random", n, 5))
    scalars = inputs.scalars("random", n, 6)
    octets = scalars.view(np.uint8).reshape(n, 32)
    given = {"limbs": scalars, "bytes": octets, "buffer": memoryview(octets.reshape(-1))}[form]
    with msm.Engine(points, montgomery=True, check=False, variant="affine") as engine:
        engine(scalars)
        tracemalloc.start()
        try:
            engine(given)
            most_bytes = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert most_bytes < scalars.nbytes / 8
