"""Sums of a cluster against one engine and against known answers."""

from __future__ import annotations

import itertools
import os

import numpy as np
import pytest

from whet.cluster import MsmCluster, PointsFile, ScalarsFile
from whet.cluster.check import agree, by_vector, draw_weights, joined, weighted
from whet.cluster.errors import ObjectStoreFull, UnreadableShard
from whet.cluster.messages import digest_of
from whet.cluster.shards import borders_by_size, borders_by_speed
from whet.cluster.sources import Shard
from whet.cluster.worker import Resident
from whet.errors import BadInput
from whet.msm import Engine, Point, Scalars, Srs, msm
from whet.msm.adversarial import KINDS, adversarial_cases
from whet.msm.inputs import generator, points_from_logs, to_ints, uniform
from whet.msm.oracle import known_multiples

SEED = 20261117
N = 257


def made(n: int, name: str = "points"):
    """Points as bytes and their logarithms."""
    from whet._native import curve

    logs = uniform(generator(SEED, name), n)
    return curve.write_points(points_from_logs(logs)), to_ints(logs)


def scalars(n: int, number: int = 0):
    return uniform(generator(SEED, f"scalars {number}"), n)


def expected(logs, limbs) -> Point:
    """Shares no code with any sum: one multiple of the generator."""
    return known_multiples(logs, to_ints(limbs))


@pytest.fixture(scope="module")
def points_file(tmp_path_factory):
    rows, logs = made(N)
    path = tmp_path_factory.mktemp("points") / "points.npy"
    np.save(path, rows.reshape(-1, 64) if rows.dtype == np.uint8 else rows.view(np.uint8).reshape(-1, 64))
    return path, logs


def test_adversarial_inputs_agree_with_one_engine(connection, tried):
    """Every kind of them, joined to one set of points: the shards cut across the kinds."""
    cases = list(adversarial_cases(SEED, 2 * len(KINDS)))
    points = np.concatenate([case.points for case in cases])
    limbs = np.concatenate([case.scalars for case in cases])
    shares = sum((case.expected for case in cases), Point.infinity())
    with MsmCluster(points, workers=3, threads=1) as cluster, Engine(points, threads=1) as engine:
        assert cluster(limbs) == engine(limbs) == shares
        spans = [0, *itertools.accumulate(len(case.points) for case in cases)]
        for at, case in enumerate(cases):  # each alone, the others times zero
            alone = np.zeros_like(limbs)
            alone[spans[at] : spans[at + 1]] = case.scalars
            assert cluster(alone) == case.expected
    tried("adversarial sums of a cluster", len(cases) + 1)


@pytest.mark.parametrize("workers", [1, 2, 5, 8])
def test_one_to_eight_workers(connection, workers):
    rows, logs = made(N)
    limbs = scalars(N)
    with MsmCluster(rows, workers=workers, threads=1) as cluster:
        assert len(cluster) == N and sum(cluster.shards) == N and len(cluster.shards) == workers
        assert cluster(limbs) == expected(logs, limbs)
        if workers == 8:  # and all between, as shards that the others do not have
            for fewer in (3, 4, 6, 7):
                cluster.rebalance(
                    [*(stop - start for start, stop in borders_by_speed(N, [1] * fewer)), *[0] * (8 - fewer)]
                )
                assert cluster(limbs) == expected(logs, limbs)


@pytest.mark.parametrize("verify", [False, True])
def test_uneven_single_and_empty_shards(connection, points_file, verify):
    path, logs = points_file
    limbs = scalars(N)
    sizes = ([N, 0, 0], [0, N, 0], [1, N - 2, 1], [1, 0, N - 1], [200, 50, 7])
    with MsmCluster(path, workers=3, threads=1, shards=sizes[0], verify=verify) as cluster:
        for given in sizes:
            assert cluster.rebalance(given) == given
            assert cluster(limbs) == expected(logs, limbs)


@pytest.mark.parametrize("n", [0, 1])
def test_fewer_points_than_workers(connection, n):
    rows, logs = made(n)
    with MsmCluster(rows, workers=2, threads=1) as cluster:
        assert cluster(scalars(n)) == expected(logs, scalars(n))


def test_batch_and_map_keep_the_order(connection):
    rows, logs = made(40)
    vectors = [scalars(40, number) for number in range(30)]
    wanted = [expected(logs, one) for one in vectors]
    with MsmCluster(rows, workers=2, threads=1, verify=True) as cluster:
        assert cluster.batch(vectors) == wanted
        assert list(cluster.map(iter(vectors))) == wanted
        assert cluster.batch([]) == [] and list(cluster.map([])) == []


def test_ten_thousand_small_jobs_stream_with_back_pressure(connection, tried):
    rows, _ = made(8)
    taken = 0

    def jobs():
        nonlocal taken
        for number in range(10_000):
            taken += 1
            yield [number, 1, 0, 0, 0, 0, 0, number]

    ahead = 0
    with MsmCluster(rows, workers=2, threads=1) as cluster:
        base, second = (Point.from_bytes(row.tobytes()) for row in (rows[0], rows[1]))
        step, total = base + Point.from_bytes(rows[7].tobytes()), second
        for given, answer in enumerate(cluster.map(jobs())):
            ahead = max(ahead, taken - given)
            assert answer == total, given
            total = total + step
    assert given == 9999 and ahead < 2000
    tried("small sums of a cluster", 10_000)


def test_every_form_of_points_and_scalars(connection, tmp_path, points_file):
    path, logs = points_file
    limbs = scalars(N)
    wanted = expected(logs, limbs)
    scalar_path = tmp_path / "scalars.bin"
    scalar_path.write_bytes(limbs.tobytes())
    prepared = tmp_path / "prepared"
    with Srs.open(path) as srs:
        srs.prepare(variant="affine").save(prepared)
        with MsmCluster(srs, workers=2, threads=1) as cluster:
            assert cluster(limbs) == wanted
    ray = connection.ray
    with MsmCluster(prepared, workers=2, threads=1) as cluster:
        assert cluster(ScalarsFile(str(scalar_path), "raw-le")) == wanted
        with Scalars.open(scalar_path, "raw-le") as opened:
            assert cluster(opened) == wanted
        assert cluster(ray.put(limbs)) == wanted
        borders = [0, *itertools.accumulate(cluster.shards)]
        owned = [ray.put(limbs[start:stop]) for start, stop in itertools.pairwise(borders)]
        assert cluster(owned) == wanted
        mixed = [limbs, ScalarsFile(str(scalar_path), "raw-le"), to_ints(limbs), ray.put(limbs)]
        assert cluster.batch(mixed) == [wanted] * 4
        assert cluster(limbs.tobytes()) == wanted
    whole = PointsFile(str(path), "npy", offset=7, n=100)
    with MsmCluster(whole, workers=2, threads=1) as cluster:
        assert cluster(limbs[:100]) == expected(logs[7:107], limbs[:100])


def test_a_prepared_file_cut_short_later_does_not_matter_to_a_worker(tmp_path, points_file):
    """It is read into memory: a map would end the worker with SIGBUS, or refuse the call."""
    path, logs = points_file
    prepared = tmp_path / "prepared"
    with Srs.open(path) as srs:
        srs.prepare(variant="affine").save(prepared)
    source = PointsFile.of(prepared, check="none")
    assert source.is_prepared
    resident = Resident(Shard("part", 3, N - 2, source), {"threads": 1}, lambda points: None)
    os.truncate(prepared, 4096)
    limbs = scalars(N - 5)
    assert resident.sum(limbs) == expected(logs[3 : N - 2], limbs)
    resident.close()


def test_bad_scalars_are_refused_and_the_cluster_goes_on(connection, points_file, tmp_path):
    path, logs = points_file
    short = tmp_path / "short.bin"
    short.write_bytes(bytes(32 * (N - 1)))
    limbs = scalars(N)
    with MsmCluster(path, workers=2, threads=1) as cluster:
        for wrong in (limbs[:-1], [1] * (N + 1), [-1] * N, "no such file", ScalarsFile(str(short), "raw-le"), 3.5):
            with pytest.raises(BadInput):
                cluster(wrong)
        for wrong in (connection.ray.put(limbs[:-1]), [connection.ray.put(limbs)], [connection.ray.put(limbs)] * 2):
            with pytest.raises(BadInput):
                cluster(wrong)
        assert cluster(limbs) == expected(logs, limbs)


def test_bad_points_are_refused(connection, tmp_path):
    with pytest.raises(BadInput, match="point 1"):
        MsmCluster([(1, 2), (1, 3)], workers=1, threads=1)
    with pytest.raises(UnreadableShard, match="every machine needs the file"):
        MsmCluster(tmp_path / "missing.npy", workers=2, threads=1)
    for sizes in ([1], [1, 2], [3, -1], []):
        with pytest.raises(BadInput, match="one size per worker"):
            MsmCluster([(1, 2)] * 2, workers=2, threads=1, shards=sizes)


def test_a_file_that_one_worker_cannot_read(connection, tmp_path):
    rows, _ = made(N)
    rows = np.array(rows).view(np.uint8).reshape(-1, 64)
    rows[200, 0] ^= 1
    np.save(tmp_path / "points.npy", rows)
    with pytest.raises(UnreadableShard, match=r"worker 1 .* points 128 to 257: .*point 200") as caught:
        MsmCluster(tmp_path / "points.npy", workers=2, threads=1, shards=[128, 129])
    assert "damaged" in caught.value.cure


def test_points_that_do_not_fit_into_the_store_are_refused(connection):
    room = connection.ray.cluster_resources()["object_store_memory"]
    rows = np.zeros((int(room) // 64 + 1, 64), np.uint8)
    with pytest.raises(ObjectStoreFull, match="file"):
        MsmCluster(rows, workers=1, threads=1, check="none")


def test_progress_and_who_holds_what(connection, points_file):
    told = []
    with MsmCluster(
        points_file[0], workers=3, threads=1, shards=[100, 0, 157], progress=lambda *heard: told.append(heard)
    ) as cluster:
        assert told[-1] == (N, N) and told == sorted(told)
        cluster(scalars(N))
        about = cluster.describe()
        assert [(row.start, row.stop) for row in about.rows] == [(0, 100), (100, 100), (100, N)]
        assert [row.sums for row in about.rows] == [1, 0, 1] and len({row.pid for row in about.rows}) == 3
        assert "0 to 100" in str(about) and "none" in str(about) and cluster.address in str(about)


def test_shards_move_with_measured_speed(connection):
    rows, logs = made(N)
    limbs = scalars(N)
    with MsmCluster(rows, workers=2, threads=1) as cluster:
        for member, speed in zip(cluster._crew.members(), (3e6, 1e6), strict=True):
            member.points_per_second = speed
        assert cluster.rebalance() == [193, 64]
        assert cluster(limbs) == expected(logs, limbs)


def test_borders():
    for points, speeds in itertools.product((0, 1, 7, 1000), ([1.0], [1, 1], [0, 0], [1e9, 1, 5], [0, 3, 0])):
        cut = borders_by_speed(points, speeds)
        assert cut[0][0] == 0 and cut[-1][1] == points and len(cut) == len(speeds)
        assert all(a[1] == b[0] for a, b in itertools.pairwise(cut)) and all(start <= stop for start, stop in cut)
    assert borders_by_speed(400, [1, 3]) == [(0, 100), (100, 400)]
    assert borders_by_size(5, [2, 0, 3], 3) == [(0, 2), (2, 2), (2, 5)]


def test_weighted_limbs_are_the_integer_sums():
    rows = np.vstack([scalars(50), np.full((1, 4), 2**64 - 1, np.uint64), np.zeros((1, 4), np.uint64)])
    for weights in (draw_weights(), (2**32 - 1,) * 4, (0, 1, 0, 0)):
        wanted = [sum(w * int(limb) for w, limb in zip(weights, row, strict=True)) for row in rows]
        assert to_ints(weighted(rows, weights)) == wanted


def test_every_change_of_the_scalars_changes_their_digest():
    limbs = scalars(3000)[None]
    seen = {digest_of(limbs), digest_of(limbs[:, :-1]), digest_of(limbs.reshape(2, 1500, 4)), digest_of(limbs[:, ::-1])}
    for row in (0, 1023, 1024, 2999):
        for word in range(4):
            changed = limbs.copy()
            changed[0, row, word] ^= np.uint64(1 << 63)
            seen.add(digest_of(changed))
    swapped = limbs.copy()
    swapped[0, [5, 6]] = swapped[0, [6, 5]]
    assert len(seen | {digest_of(swapped)}) == 4 + 16 + 1


def test_the_check_finds_one_wrong_limb_sum():
    rows, logs = made(5)
    limbs = scalars(5)
    ones = np.zeros((4, 5, 4), np.uint64)
    for limb in range(4):
        ones[limb, :, 0] = limbs[:, limb]
    sums = [msm(rows, one) for one in ones]
    weights = (3, 5, 7, 11)
    check = [msm(rows, weighted(limbs, weights))]
    assert agree(sums, check, weights) and joined(sums) == expected(logs, limbs) and len(by_vector(sums)) == 1
    for wrong in range(4):
        bent = [point + Point(1, 2) if at == wrong else point for at, point in enumerate(sums)]
        assert not agree(bent, check, weights)
    assert not agree(sums, [], weights)
