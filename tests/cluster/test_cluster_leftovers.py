"""Nothing is left after a cluster that started its own Ray: no process, no shared memory, no file."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path

import psutil
import pytest
from test_cluster_connection import run_alone

# 50 in `make soak`. Beside builds a start was seen to take a minute: the system gives Ray's workers the least of it.
STARTS = int(os.environ.get("WHET_RAY_STARTS", "3"))


def mentioning(text: str) -> list[str]:
    found = []
    for process in psutil.process_iter():
        try:
            if text in " ".join(process.cmdline()):
                found.append(" ".join(process.cmdline()))
        except psutil.Error:
            continue
    return found


@pytest.mark.timeout(60 + 200 * STARTS)
def test_starts_leave_nothing(ray_installed, tried):
    """The last thread's call is under way when the cluster is closed; the first start ends by an error, the second by a
    signal handler that closes in the middle of a call.
    """
    folder = tempfile.mkdtemp(prefix="wl-", dir="/tmp")  # Ray's sockets need a short path
    shared = set(os.listdir("/dev/shm"))  # noqa: PTH208
    try:
        printed = run_alone(
            f"""
            import os, signal, threading, time
            import psutil, ray
            from whet.cluster import MsmCluster
            from whet.errors import BadInput
            from whet.msm import msm

            def asleep(cluster):
                slow = lambda worker: setattr(worker, "_points_of", lambda shard: time.sleep(300))
                ray.get(cluster._crew[0].actor.__ray_call__.remote(slow))

            def refused(cluster):
                try:
                    cluster([1, 2, 3])
                except BadInput as error:
                    told.append(error.cause)

            told = []
            points = [(1, 2)] * 3
            for start in range({STARTS}):
                try:
                    with MsmCluster(points, workers=1, threads=1, start_deadline_s=300) as cluster:
                        assert cluster([1, 2, 3]) == msm(points, [1, 2, 3])
                        if start == 0:
                            raise OSError("on the way")
                        asleep(cluster)
                        if start == 1:
                            signal.signal(signal.SIGALRM, lambda *_: cluster.close())
                            signal.alarm(1)
                            refused(cluster)
                        else:
                            thread = threading.Thread(target=refused, args=[cluster])
                            thread.start()
                            time.sleep(0.2)
                except OSError:
                    pass
                if start > 1:
                    thread.join(60)
                assert not ray.is_initialized()
                gone, left = psutil.wait_procs(psutil.Process().children(recursive=True), timeout=30)
                assert not left, left
            print(*told, sep="; ")
            """,
            timeout_s=200 * STARTS,
            TMPDIR=folder,
        )
        assert printed.strip() == "; ".join(["the cluster is closed"] * (STARTS - 1))
        for _ in range(300):  # the last of them may be about to end
            if not (left := mentioning(folder)):
                break
            time.sleep(0.1)
        assert not left
        assert not list(Path(folder).iterdir())
        assert set(os.listdir("/dev/shm")) <= shared  # noqa: PTH208
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    tried("starts of a Ray that left nothing", STARTS)
