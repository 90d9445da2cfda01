"""Workers that die, lie, dawdle; files that vanish; calls that are closed, interrupted and forked."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest
from test_cluster_connection import run_alone
from test_cluster_sums import N, expected, made, scalars

from whet.cluster import MsmCluster, sums
from whet.cluster import connection as connections
from whet.cluster import flight as flights
from whet.cluster.crew import Crew
from whet.cluster.errors import (
    ClusterError,
    DeadlinePassed,
    UnreadableShard,
    VersionMismatch,
    WorkerLies,
    WorkerLost,
)
from whet.cluster.messages import Partial, Request, digest_of
from whet.errors import BadInput
from whet.msm import Point

KILLS = int(os.environ.get("WHET_RAY_KILLS", "4"))  # 20 in `make soak`; each takes the start of a process
LONG_S = 300  # longer than any test


def plant(member, change) -> None:
    """Runs `change(worker)` inside the worker's process. What it changes is gone with the process."""
    import ray

    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # the worker cannot import this file
    ray.get(member.actor.__ray_call__.remote(change), timeout=120)


def stop_in_compute(marker: str, seconds: float = LONG_S):
    """The next request leaves a mark, then sleeps in the middle; the mark is gone when it wakes."""

    def change(worker):
        honest = worker._points_of

        def slow(shard):
            Path(marker).touch()
            time.sleep(seconds)
            Path(marker).unlink()
            return honest(shard)

        worker._points_of = slow

    return change


def wake(worker) -> None:
    del worker._points_of


def lie(ways, bend):
    """Answers to requests of these ways pass through `bend`."""

    def change(worker):
        honest = worker._answer

        def answer(request, limbs):
            given = honest(request, limbs)
            return Partial(bend(given.points), given.seconds) if request.way in ways else given

        worker._answer = answer

    return change


def one_more(points: bytes) -> bytes:
    """A point of the curve, and the wrong one."""
    return (Point.from_bytes(points[:64]) + Point(1, 2)).to_bytes() + points[64:]


def off_the_curve(points: bytes) -> bytes:
    return b"\5" + points[1:]


def wait_for(marker: Path) -> None:
    for _ in range(12_000):
        if marker.exists():
            return
        time.sleep(0.01)
    raise AssertionError(f"{marker} never came")


class Call(threading.Thread):
    """A call in a thread of its own, and what came of it."""

    def __init__(self, function, *arguments) -> None:
        super().__init__()
        self.function, self.arguments = function, arguments
        self.answer = self.error = None
        self.start()

    def run(self):
        try:
            self.answer = self.function(*self.arguments)
        except BaseException as error:
            self.error = error

    def result(self):
        self.join(240)
        assert not self.is_alive()
        if self.error is not None:
            raise self.error
        return self.answer


@pytest.fixture
def two(connection):
    """Two workers, and what they know."""
    rows, logs = made(N)
    with MsmCluster(rows, workers=2, threads=1, slow_after_s=LONG_S) as cluster:
        yield cluster, logs


def test_kill_9_in_the_middle_of_a_sum(two, tmp_path, tried):
    cluster, logs = two
    marker = tmp_path / "busy"
    for number in range(KILLS):
        limbs = scalars(N, number)
        member = cluster._crew[number % 2]
        plant(member, stop_in_compute(str(marker)))
        pid = plant_pid(member)
        call = Call(cluster, limbs)
        wait_for(marker)
        os.kill(pid, signal.SIGKILL)
        marker.unlink()
        assert call.result() == expected(logs, limbs), number
    assert sum(member.losses for member in cluster._crew.members()) >= KILLS
    tried("kills in the middle of a cluster's sum", KILLS)


def plant_pid(member) -> int:
    import ray

    return ray.get(member.actor.status.remote(), timeout=120)["pid"]


def test_a_worker_killed_while_it_loads(connection, tmp_path, monkeypatch):
    marker = tmp_path / "loading"
    pids = []

    class Planting(Crew):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            plant(self[1], stop_in_compute(str(marker)))
            pids.append(self[1].hello.pid)

    monkeypatch.setattr(sums, "Crew", Planting)
    rows, logs = made(N)
    call = Call(lambda: MsmCluster(rows, workers=2, threads=1))
    wait_for(marker)
    os.kill(pids[0], signal.SIGKILL)
    with call.result() as cluster:
        assert cluster(scalars(N)) == expected(logs, scalars(N))
        assert any("worker 1" in event and "lost" in event for event in cluster.events)


def test_a_worker_that_always_dies_is_given_up(two, tmp_path, monkeypatch):
    cluster, _ = two
    monkeypatch.setattr(flights, "MOST_LOSSES", 0)
    monkeypatch.setattr(flights, "LOSSES_S", 0)
    marker = tmp_path / "busy"
    plant(cluster._crew[0], stop_in_compute(str(marker)))
    call = Call(cluster, scalars(N))
    wait_for(marker)
    os.kill(cluster._crew[0].hello.pid, signal.SIGKILL)
    with pytest.raises(WorkerLost, match="worker 0"):
        call.result()


def test_a_lying_worker_is_found_named_and_replaced(connection):
    rows, logs = made(N)
    limbs = scalars(N)
    with MsmCluster(rows, workers=2, threads=1, verify=True) as cluster:
        for liar, ways in ((0, ["limbs"]), (1, ["limbs"]), (1, ["check"])):
            before = cluster._crew[liar]
            plant(before, lie(ways, one_more))
            assert cluster(limbs) == expected(logs, limbs)
            assert cluster._crew[liar].hello.pid != before.hello.pid
            assert f"{before} was replaced: it lied about points" in cluster.events[-1]
        replaced = len(cluster.events)
        assert cluster.batch([limbs, scalars(N, 1)]) == [expected(logs, limbs), expected(logs, scalars(N, 1))]
        assert len(cluster.events) == replaced == 3


def test_three_that_disagree_are_refused(two):
    cluster, _ = two
    request = Request("job", cluster._shards[0], 1, "")
    main, check = (flights.Task(request, at, answered_by=cluster._crew[at]) for at in (0, 1))
    assert cluster._liar(main, check, True, False) is cluster._crew[1]
    assert cluster._liar(main, check, False, True) is cluster._crew[0]
    with pytest.raises(WorkerLies, match="disagree"):
        cluster._liar(main, check, False, False)


def test_an_answer_off_the_curve_is_never_taken(two):
    """Nor one of the wrong length. One on the curve is, without `verify`: that is what it is for."""
    cluster, logs = two
    limbs = scalars(N)
    for bend in (off_the_curve, lambda points: points[:-1], lambda points: points * 2):
        before = cluster._crew[1]
        plant(before, lie(["sums"], bend))
        assert cluster(limbs) == expected(logs, limbs)
        assert cluster._crew[1].hello.pid != before.hello.pid
    plant(cluster._crew[0], lie(["sums"], one_more))
    assert cluster(limbs) == expected(logs, limbs) + Point(1, 2)


def test_a_slow_worker_is_overtaken(connection, tmp_path):
    rows, logs = made(N)
    marker = tmp_path / "asleep"
    with MsmCluster(rows, workers=2, threads=1, slow_after_s=0.2) as cluster:
        plant(cluster._crew[0], stop_in_compute(str(marker)))
        assert cluster(scalars(N)) == expected(logs, scalars(N))
        assert marker.exists()  # it sleeps still
        assert any("worker 0" in event and "slow" in event for event in cluster.events)


def test_a_deadline_names_who_is_late_and_the_cluster_goes_on(two, tmp_path):
    cluster, logs = two
    plant(cluster._crew[1], stop_in_compute(str(tmp_path / "asleep"), 1.0))
    with pytest.raises(DeadlinePassed, match="worker 1"):
        cluster(scalars(N), deadline_s=0.3)
    plant(cluster._crew[1], wake)
    assert cluster(scalars(N)) == expected(logs, scalars(N))


def test_a_file_that_vanishes_under_a_lost_worker(connection, tmp_path):
    rows, _ = made(N)
    path = tmp_path / "points.bin"
    path.write_bytes(rows.tobytes())
    with MsmCluster(path, workers=2, threads=1, format="raw-le") as cluster:
        path.unlink()
        os.kill(cluster._crew[1].hello.pid, signal.SIGKILL)
        with pytest.raises(UnreadableShard, match=r"worker 1 .* does not exist"):
            cluster(scalars(N))


def test_a_request_asked_twice_is_computed_once(two):
    import ray

    cluster, _ = two
    limbs = scalars(N)[None, : cluster.shards[0]]
    request = Request("job", cluster._shards[0], 1, digest_of(limbs))
    first, second = (ray.get(cluster._crew[0].actor.compute.remote(request, limbs)) for _ in range(2))
    assert (first.again, second.again) == (False, True) and first.points == second.points
    mixed_up = Request("other", cluster._shards[0], 1, digest_of(limbs))
    fault = ray.get(cluster._crew[0].actor.compute.remote(mixed_up, limbs ^ limbs))
    assert fault.kind == "scalars" and "not those that were sent" in fault.cause


def test_workers_of_another_whet_are_refused(connection, monkeypatch):
    monkeypatch.setattr(connections, "__version__", "9.9.9")
    with pytest.raises(VersionMismatch, match=r"whet 0.* this process 9\.9\.9"):
        MsmCluster([(1, 2)], workers=1, threads=1)


def test_close_interrupt_and_fork(two, tmp_path):
    cluster, logs = two
    limbs = scalars(N)
    marker = tmp_path / "asleep"

    child = os.fork()
    if child == 0:
        try:
            cluster(limbs)
        except ClusterError:
            cluster.close()
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert cluster(limbs) == expected(logs, limbs)

    plant(cluster._crew[0], stop_in_compute(str(marker), 1.0))
    interrupt = Call(lambda: (wait_for(marker), os.kill(os.getpid(), signal.SIGINT)))
    with pytest.raises(KeyboardInterrupt):
        cluster(limbs)
    interrupt.result()
    plant(cluster._crew[0], wake)
    assert cluster(limbs) == expected(logs, limbs)

    callers = [Call(lambda: cluster(limbs)) for _ in range(4)]  # from several threads at once
    assert [caller.result() for caller in callers] == [expected(logs, limbs)] * 4

    plant(cluster._crew[0], stop_in_compute(str(marker)))
    call = Call(cluster, limbs)
    wait_for(marker)
    cluster.close()
    with pytest.raises(BadInput, match="closed"):
        call.result()
    for refused in (lambda: cluster(limbs), lambda: cluster.map([]), cluster.rebalance):
        with pytest.raises(BadInput, match="closed"):
            refused()
    cluster.close()


def test_a_head_lost_in_the_middle_of_a_sum(ray_installed):
    """In a process of its own, so that the others keep their Ray."""
    printed = run_alone(
        """
        import os, psutil, signal, threading, time
        import ray
        from whet.cluster import MsmCluster
        from whet.cluster.errors import HeadLost

        def lose(process):
            process.send_signal(signal.SIGKILL)
            process.wait(60)

        with MsmCluster([(1, 2)] * 4, workers=1, threads=1, start_deadline_s=300) as cluster:
            folder = cluster._crew.connection._folder
            slow = lambda worker: setattr(worker, "_points_of", lambda shard: time.sleep(300))
            ray.get(cluster._crew[0].actor.__ray_call__.remote(slow))
            head = [child for child in psutil.Process().children() if "gcs_server" in child.name()]
            threading.Timer(0.5, lose, head).start()
            try:
                cluster([1, 2, 3, 4], deadline_s=120)
            except HeadLost as error:
                print(error)
        print(len(psutil.Process().children(recursive=True)), os.path.exists(folder))
        """
    )
    lost, left = printed.splitlines()
    assert "is gone" in lost and "make a new cluster" in lost and left == "0 False"
