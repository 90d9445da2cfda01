"""Arguments that nobody should give: each is an answer or a typed error with a cure, on every kind of engine."""

from __future__ import annotations

import resource
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from whet.errors import BadInput, WhetError
from whet.msm import Engine, Point, Scalars, Srs, inputs, msm
from whet.msm.points import msm_from_files, write_points, write_scalars

HUGE = 10**5000  # Python refuses to write it in decimal digits
N = 3_000
LOGS = np.arange(1, N + 1)
KINDS: dict[str, dict[str, Any]] = {
    "affine": {},
    "few": {},
    "plain": {"variant": "plain"},
    "pippenger": {"variant": "pippenger"},
    "in pieces": {"memory_budget": 1_500_000},
    "within a budget": {"memory_budget": 10**9},
    "precompute": {"precompute": 4},
}


class NoText:
    def __repr__(self) -> str:
        raise RuntimeError("no text")


class Whole:
    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value


class Failing:
    def __int__(self) -> int:
        raise ValueError("not today")


def refused(call: Callable[[], object], what: object = "") -> WhetError:
    with pytest.raises(WhetError) as caught:
        call()
    assert caught.value.cause and caught.value.cure, what
    return caught.value


@pytest.fixture(scope="module")
def points() -> Any:
    return inputs.points_from_logs(inputs.to_limbs(LOGS.tolist()))


@pytest.fixture(scope="module", params=KINDS)
def engine(request, points):
    rows = points[:20] if request.param in ("few", "plain", "pippenger") else points
    with Engine(rows, montgomery=True, **KINDS[request.param]) as made:
        yield made


def ones(count: int) -> Any:
    return inputs.to_limbs([1] * count)


NOT_OFFSETS = [1.0, 1.5, "1", None, True, NoText(), [1], np.float64(1)]


def test_parts_outside_of_the_points_are_refused(engine, tried):
    """An engine that reads its points in pieces used to answer with points of another piece."""
    n = len(engine)
    wrong: list[tuple[Any, Any]] = [(bad, 3) for bad in NOT_OFFSETS]
    wrong += [(0, bad) for bad in NOT_OFFSETS if bad is not None]
    wrong += [(bad, 0) for bad in (-1, -n, n + 1, 2**31, 2**63, 2**64, -(2**63), HUGE, -HUGE)]
    wrong += [
        (-1, 3),
        (-n, 3),
        (n - 2, 3),
        (n, 3),
        (1, n),
        (5, n),
        (2**63, 3),
        (2**64, 3),
        (0, -1),
        (0, HUGE),
        (0, n + 1),
    ]
    for offset, size in wrong:
        scalars = ones(size if isinstance(size, int) and 0 <= size <= n + 1 else 3)
        refused(lambda o=offset, s=size, k=scalars: engine.compute(k, offset=o, size=s), (offset, size))
        refused(lambda o=offset, s=size, k=scalars: engine.answer(k, offset=o, size=s), (offset, size))
        refused(lambda o=offset, s=size, k=scalars: engine.compute_batch([k], offset=o, size=s), (offset, size))
        refused(lambda o=offset, s=size: engine.view(o, s), (offset, size))
    for offset in (1, n, -1):
        refused(lambda o=offset: engine.compute(ones(n), offset=o), offset)
        refused(lambda o=offset: engine.compute_batch([ones(n)], offset=o), offset)
    tried("malformed inputs", 4 * len(wrong) + 6)


def test_parts_within_the_points_are_answered(engine):
    n = len(engine)
    for offset, size in ((0, n), (1, n - 1), (n - 3, 3), (n, 0), (np.int64(2), np.uint8(5)), (Whole(2), Whole(5))):
        first, count = int(offset.__index__()), int(size.__index__())
        expected = msm([(1, 2)], [int(LOGS[first : first + count].sum())])
        assert engine.compute(ones(count), offset=offset, size=size) == expected
        assert engine.compute_batch([ones(count)], offset=offset, size=size) == [expected]
        assert engine.view(offset, size)([1] * count) == expected


def test_maps_and_batches_of_nonsense(engine, tried):
    for n in (-1, 2**70, HUGE, 1.5, "x", True, NoText()):
        refused(lambda n=n: engine.memory_map(n))
    for bits in (-1, 257, 2**40, HUGE, "x", 1.5, None):
        refused(lambda bits=bits: engine.memory_map(scalar_bits=bits))
    for vectors in (None, 5, 1.5, NoText()):
        refused(lambda vectors=vectors: engine.batch(vectors))
        refused(lambda vectors=vectors: engine.view().batch(vectors))
    for cancel in (threading.Event, 5, "x", NoText()):
        refused(lambda cancel=cancel: engine([1] * len(engine), cancel=cancel))
        refused(lambda cancel=cancel: engine([1] * len(engine), montgomery=cancel))
    tried("malformed inputs", 30)


OPTIONS: list[dict[str, Any]] = [
    *({"variant": bad} for bad in (5, None, [], NoText(), np.zeros(2))),
    *({"backend": bad} for bad in (5, None, "", "none", "adx,threads=3", NoText())),
    *({"threads": bad} for bad in (0, -1, 257, HUGE, -HUGE, 1.0, "2", True, NoText())),
    *({"memory_budget": bad} for bad in (0, -1, 1, -HUGE, 1e9, "1GB", True, float("nan"), NoText())),
    *({"precompute": bad} for bad in (0, -1, 17, HUGE, 2.0, "2", True, NoText())),
    *({"submission_limit_s": bad} for bad in (0, -1, float("nan"), float("inf"), HUGE, "1", NoText())),
    *({"device": bad} for bad in (5, "", "cuda", HUGE, NoText())),
    *({"check": bad} for bad in (None, "x", 5, NoText())),
    *({"montgomery": bad} for bad in (None, "false", 0, NoText())),
    *({"endian": bad} for bad in (None, "x", 5)),
]


def test_options_of_nonsense(tried):
    for options in OPTIONS:
        refused(lambda options=options: Engine([(1, 2)] * 3, **options), list(options))
        if "precompute" not in options:
            renamed = {f"points_{name}" if name == "montgomery" else name: value for name, value in options.items()}
            if "submission_limit_s" not in options:  # not looked at for a few points on the CPU
                refused(lambda renamed=renamed: msm([(1, 2)] * 3, [1] * 3, **renamed), list(options))
    tried("malformed inputs", 2 * len(OPTIONS))


def test_a_budget_of_more_than_any_machine_has_is_none():
    for budget in (2**63, 2**64, 2**70, HUGE):
        assert Engine([(1, 2)] * 3, memory_budget=budget)([1, 2, 3]) == msm([(1, 2)], [6])


def test_elements_that_fail_are_told_by_number(tried):
    for bad in (HUGE, -HUGE, NoText(), Failing(), float("nan")):
        for points in ([(1, 2), bad], [(1, 2), (bad, 2)], [(1, 2), (1, bad)], [(1, 2), Point(bad, 2)]):
            for budget in (None, 10**9, 1_200_000):
                error = refused(lambda points=points, budget=budget: Engine(points, memory_budget=budget))
                assert isinstance(error, BadInput) and error.index == 1
        error = refused(lambda bad=bad: msm([(1, 2)] * 2, [1, bad]))
        assert isinstance(error, BadInput) and error.index == 1
    tried("malformed inputs", 65)


def test_an_interrupt_in_a_conversion_is_not_lost():
    class Interrupted:
        asked = 0

        def __index__(self) -> int:
            Interrupted.asked += 1
            if Interrupted.asked == 1:
                raise KeyboardInterrupt
            return 7

    with pytest.raises(KeyboardInterrupt):
        msm([(1, 2)], [Interrupted()])  # type: ignore[list-item]
    with pytest.raises(KeyboardInterrupt):
        Interrupted.asked = 0
        msm([(Interrupted(), 2)], [1])  # type: ignore[list-item]


def test_points_of_nonsense(tried):
    wrong: list[tuple[Any, Any]] = [(1.0, 2.0), ("a", 1), (None, None), (HUGE, 1), (-1, 2), (np.int64(1), np.int64(2))]
    for x, y in wrong:
        point = Point(x, y)
        assert not point.is_on_curve and isinstance(str(point), str)
        for call in (lambda p: -p, lambda p: p + p, lambda p: p - p, lambda p: sum([p]), lambda p: p.compress("ark")):
            refused(lambda call=call, point=point: call(point), (type(x), type(y)))
    for x, y in [(1.0, 2.0), ("a", 1), (None, None), (HUGE, 1), (-1, 2)]:
        refused(lambda x=x, y=y: Point(x, y).to_bytes())
    good = Point(1, 2)
    refused(lambda: good.to_bytes("x"))  # type: ignore[arg-type]
    for form in ("x", [], None, NoText()):
        refused(lambda form=form: good.compress(form))
        refused(lambda form=form: Point.decompress(bytes(32), form))
    for data in (None, 5, "x" * 64, "x" * 32, b"", [300] * 64, NoText(), np.zeros(64)):
        refused(lambda data=data: Point.from_bytes(data))
        refused(lambda data=data: Point.decompress(data, "gnark"))
    refused(lambda: Point.from_bytes(bytes(64), "x"))  # type: ignore[arg-type]
    tried("malformed inputs", 60)


def test_files_with_nonsense_beside_them(tmp_path, tried):
    write_points(tmp_path / "points", [(1, 2)] * 3)
    write_scalars(tmp_path / "scalars", [1, 2, 3])
    nonsense = (-1, 4, 2**70, HUGE, 1.5, "1", True, NoText())
    for bad in nonsense:
        refused(lambda bad=bad: Srs.open(tmp_path / "points", "raw-le", offset=bad))
        refused(lambda bad=bad: Srs.open(tmp_path / "points", "raw-le", n=bad))
    for bad in (5, [], None, "x", NoText()):
        refused(lambda bad=bad: Srs.open(tmp_path / "points", bad))
        refused(lambda bad=bad: Srs.open(tmp_path / "points", "raw-le", check=bad))
    with Srs.open(tmp_path / "points", "raw-le") as srs, Scalars.open(tmp_path / "scalars", "raw-le") as scalars:
        for bad in nonsense:
            refused(lambda bad=bad: srs.read(bad))
            refused(lambda bad=bad: srs.limbs(0, bad))
            refused(lambda bad=bad: srs.commit([1], offset=bad))
        for bad in (0, -1, 1.5, "1", None, NoText()):
            refused(lambda bad=bad: list(srs.chunks(bad)))
            refused(lambda bad=bad: msm_from_files(srs, scalars, records=bad))
        for bad in (HUGE, -HUGE, 3, "0", 1.0, NoText()):
            refused(lambda bad=bad: srs[bad])
        for bad in (None, 5, [(1, 2)] * 3, NoText()):
            refused(lambda bad=bad: msm_from_files(bad, scalars))
            refused(lambda bad=bad: msm_from_files(srs, bad))
            refused(lambda bad=bad: msm_from_files(srs, scalars, progress=bad if bad != [(1, 2)] * 3 else None))
        refused(lambda: srs.commit_many(5))
        assert srs.commit(scalars) == msm([(1, 2)], [6])
    Engine([(1, 2)] * 3).save(tmp_path / "prepared")
    for options in (
        {"verify": "no"},
        {"copy": None},
        {"check": []},
        {"backend": 5},
        {"backend": "x"},
        {"threads": HUGE},
    ):
        refused(lambda options=options: Engine.open(tmp_path / "prepared", **options), options)
    tried("malformed inputs", 90)


SHORT_OF_MEMORY = """
import numpy as np, sys
from whet.errors import BadInput
from whet.msm import Engine, Scalars, Srs, msm
from whet.msm.points import write_points
write_points(sys.argv[1], [(1, 2)] * 3)
with open(sys.argv[2], "wb") as sparse:
    sparse.truncate(40 << 30)
many = np.broadcast_to(np.ones((1, 4), np.uint64), (1 << 32, 4))
integers = np.broadcast_to(np.ones(1, np.int64), (1 << 33,))
engine = Engine([(1, 2)] * 3)
calls = {
    "engine": engine, "view": engine.view(1), "msm": lambda s: msm([(1, 2)] * 3, s),
    "commit": Srs.open(sys.argv[1], "raw-le").commit, "batch": lambda s: engine.batch([s]),
}
for name, call in calls.items():
    for scalars in (many, integers, range(1 << 36), Scalars.open(sys.argv[2], "raw-le")):
        try:
            print(name, call(scalars))
        except BadInput as refused:
            assert "scalars" in str(refused) and refused.cure, refused
print("refused")
"""


def test_more_scalars_than_points_are_refused_before_they_take_memory(tmp_path):
    """Within 3 GB of address space, of which these would take up to two terabytes."""
    limit = 3 << 30
    done = subprocess.run(
        [sys.executable, "-c", SHORT_OF_MEMORY, str(tmp_path / "points"), str(tmp_path / "sparse")],
        capture_output=True, text=True, timeout=120, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    )  # fmt: skip
    assert (done.stdout, done.returncode) == ("refused\n", 0), done.stderr
