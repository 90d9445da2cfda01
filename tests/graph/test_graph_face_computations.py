"""Workloads with real bodies give the answer of numpy and LAPACK under every policy, also when the rings are tight."""

from __future__ import annotations

import mmap

import numpy as np
import pytest

from whet.graph import Graph, workloads
from whet.graph.batch import Batch
from whet.graph.bodies import kernel
from whet.graph.computations import (
    batched_product,
    from_bfloat16,
    mixing,
    paged_attention,
    tiled_cholesky,
    to_bfloat16,
    untile_lower,
)
from whet.graph.errors import TaskFailed
from whet.graph.oracle import ATTENTION_TOLERANCE, attention_by_numpy
from whet.graph.runtime import POLICIES, Runtime
from whet.graph.workloads import attention


def mixed_by_python(work, seed: int) -> np.ndarray:
    """The mixing kernel again, with Python integers, in submission order."""
    mask = 2**64 - 1

    def scramble(x: int) -> int:
        x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & mask
        x = (x ^ (x >> 27)) * 0x94D049BB133111EB & mask
        return x ^ (x >> 31)

    cells: list[int] = []
    for task in range(work.tasks):
        value = scramble((seed + task) & mask)
        for before in work.predecessors(task).tolist():
            value = scramble(value ^ cells[before])
        cells.append(value)
    return np.array(cells, np.uint64)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", ["pa:CaseSmall1", "pa:Case4"])
def test_paged_attention_gives_the_attention_answer(policy, name):
    done = paged_attention(workloads.make(name))
    with Runtime(policy=policy, workers=2) as rt:
        done.batch.submit(rt)
    np.testing.assert_allclose(
        done.answer, attention_by_numpy(done.inputs, done.batch.work.parameters["context"]), atol=ATTENTION_TOLERANCE
    )


@pytest.mark.parametrize("unroll", [False, True])
@pytest.mark.parametrize("policy", POLICIES)
def test_manual_edges_give_the_same_answer(policy, unroll):
    """A context of 70 blocks: two groups when 64 blocks are unrolled, the last block not full."""
    sizes = attention.Sizes(3, 8, 16, 4, 70 * 4 - 3)
    work = attention.attention("pa-manual", sizes, manual=True, unroll=unroll, seed=5)
    done = paged_attention(work, seed=9)
    with Runtime(policy=policy, workers=2) as rt:
        done.batch.submit(rt)
    np.testing.assert_allclose(done.answer, attention_by_numpy(done.inputs, sizes.context), atol=ATTENTION_TOLERANCE)


@pytest.mark.parametrize("policy", POLICIES)
def test_tight_heap_never_overwrites_live_buffers(policy, tried):
    """One sequence needs 65 slots and 84,992 bytes; window 128 and 128 KiB must be enough, every time."""
    done = paged_attention(workloads.make("pa:Case4"))
    want = attention_by_numpy(done.inputs, 256)
    runs = 100
    with Runtime(policy=policy, workers=2, window=128, heap_bytes=128 << 10, output_align=1024) as rt:
        for _ in range(runs):
            done.answer.fill(np.nan)
            done.batch.submit(rt)
            rt.wait()
            np.testing.assert_allclose(done.answer, want, atol=ATTENTION_TOLERANCE)
        peaks = rt.peaks()
        assert peaks["heap_bytes"].blocked > 0, "the heap was never full: the test does not press on it"
        assert peaks["heap_bytes"].peak <= 128 << 10
    tried("tight-heap runs", runs)


@pytest.mark.parametrize("policy", POLICIES)
def test_batched_product(policy):
    done = batched_product(workloads.make("bgemm:Case0", groups=12, depth=3, rows=2, tile=16))
    with Runtime(policy=policy, workers=2, retain="consumers") as rt:
        done.batch.submit(rt)
    np.testing.assert_allclose(done.answer, (done.inputs["a"] @ done.inputs["b"]).sum(axis=1), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("dependencies", ["inferred", "both"])
def test_tiled_cholesky_equals_lapack(policy, dependencies):
    from scipy.linalg import lapack

    work = workloads.make("cholesky", tiles=9, tile=12)
    rng = np.random.default_rng(4)
    root = rng.standard_normal((108, 108))
    positive = root @ root.T + 108 * np.eye(108)
    done = tiled_cholesky(work, positive, dependencies=dependencies)
    with Runtime(policy=policy, workers=3) as rt:
        done.batch.submit(rt)
    want, info = lapack.dpotrf(positive, lower=1)
    assert info == 0
    np.testing.assert_allclose(untile_lower(done.answer), np.tril(want), rtol=1e-10, atol=1e-10)


def test_a_matrix_that_is_not_positive_definite_fails_in_potrf():
    work = workloads.make("cholesky", tiles=4, tile=8)
    bad = np.eye(32)
    bad[20, 20] = -1
    done = tiled_cholesky(work, bad)
    with Runtime(workers=2) as rt:
        done.batch.submit(rt)
        with pytest.raises(TaskFailed, match="potrf") as caught:
            rt.wait()
        assert caught.value.status == 5  # row 20 is the fifth of its tile
        assert rt.totals()["cancelled"] > 0


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize("dependencies", ["inferred", "given"])
def test_order_shows_in_the_mixed_numbers(policy, workers, dependencies, tried):
    names = {
        "wavefront": {"side": 24},
        "random": {"tasks": 700},
        "fan": {"width": 60, "rounds": 5},
        "chain": {"tasks": 99},
    }
    for name, sizes in names.items():
        work = workloads.make(name, **sizes)
        done = mixing(work, seed=11, dependencies=dependencies)
        with Runtime(policy=policy, workers=workers, window=64, retain="consumers") as rt:
            done.batch.submit(rt)
        np.testing.assert_array_equal(done.answer, mixed_by_python(work, 11))
        tried("tasks checked by their mixed numbers", work.tasks)


def test_a_wrong_order_shows_in_the_mixed_numbers():
    """The check can fail: the same bodies run backwards leave other numbers."""
    work = workloads.make("chain", tasks=50)
    done = mixing(work, seed=1)
    backwards = [(t + 1, t) for t in range(49)]
    Graph.from_edges(50, backwards, [kernel("mix").with_user(done.inputs["words"])]).replay(workers=2)
    assert (done.answer != mixed_by_python(work, 1)).sum() == 49


def test_inputs_are_never_written():
    """The cache lies in memory that the system has write-protected."""
    work = workloads.make("pa:CaseSmall1")
    done = paged_attention(work)
    want = attention_by_numpy(done.inputs, 33)
    protected = {}
    for number, name in ((attention.QUERY, "query"), (attention.KEY, "keys"), (attention.VALUE, "values")):
        source = done.inputs[name]
        with mmap.mmap(-1, source.nbytes) as scratch:
            scratch.write(source.tobytes())
            image = bytes(scratch[:])
        fresh = mmap.mmap(-1, len(image))
        fresh.write(image)
        memory = np.frombuffer(fresh, source.dtype).reshape(source.shape)
        _write_protect(memory)
        protected[number] = memory
    out = np.zeros_like(done.answer)
    protected[attention.OUT] = out
    batch = Batch(
        work,
        [None, kernel("scores"), kernel("softmax"), kernel("weighted_values"), kernel("update")],
        buffers=protected,
        scalars=done.batch.scalars,
    )
    with Runtime(workers=2) as rt:
        batch.submit(rt)
    np.testing.assert_allclose(out, want, atol=ATTENTION_TOLERANCE)


def _write_protect(array: np.ndarray) -> None:
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    size = -(-array.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
    assert libc.mprotect(ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(size), mmap.PROT_READ) == 0


def test_bfloat16_rounds_to_nearest_even():
    values = np.array([1.0, 1.00390625, 1.01171875, -2.5, 3.0e-39, 65504.0], np.float32)
    back = from_bfloat16(to_bfloat16(values))
    assert back.tolist()[:4] == [1.0, 1.0, 1.015625, -2.5]
    assert np.all(np.abs(back - values) <= np.abs(values) / 256 + 1e-40)
