"""`whet cluster status`, as a person and as a script call it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from test_cluster_connection import closed_port
from test_cluster_faults import plant
from test_cluster_sums import N, made, scalars

from whet.cluster import MsmCluster
from whet.cluster.status import look
from whet.errors import ExitCode


def whet(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "whet", *arguments],
        env=dict(os.environ),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_status_shows_machines_and_who_holds_what(connection):
    rows, _ = made(N)
    with MsmCluster(rows, workers=2, threads=1, shards=[100, 157]) as cluster:
        cluster(scalars(N))
        shown = whet("cluster", "status", connection.address)
        assert shown.returncode == 0, shown.stderr
        assert f"at {connection.address}" in shown.stdout and "127.0.0.1" in shown.stdout
        assert "0 to 100" in shown.stdout and "100 to 257" in shown.stdout
        told = json.loads(whet("cluster", "status", connection.address, "--json").stdout)
        assert [worker["pid"] for worker in told["workers"]] == [row.pid for row in cluster.describe().rows]
        assert told["nodes"][0]["cpus"] == 8
        stop_answering = lambda worker: setattr(worker, "_resident", None)  # noqa: E731
        plant(cluster._crew[0], stop_answering)
        assert [worker.answers for worker in look(connection).workers] == [False, True]
    assert not look(connection).workers
    assert "no worker of a sum holds points" in whet("cluster", "status", connection.address).stdout


@pytest.mark.parametrize("address", ["nowhere", None])
def test_an_address_without_a_ray_is_one_line_and_a_cure(ray_installed, address):
    shown = whet("cluster", "status", address or f"127.0.0.1:{closed_port()}")
    assert shown.returncode == ExitCode.ENVIRONMENT and "Traceback" not in shown.stderr
    assert "ray start" in shown.stderr
