"""Starting, sharing, joining and losing a Ray."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import textwrap
import threading
import time

import psutil
import pytest

from whet.cluster import connect
from whet.cluster.connection import _join, load_ray, require_same_versions, versions
from whet.cluster.errors import ClusterError, Unreachable, VersionMismatch
from whet.errors import BadInput


def run_alone(code: str, timeout_s: float = 300, **environment: str) -> str:
    """What a program of its own prints. Its errors are this test's."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def join(address: str, deadline_s: float = 60) -> None:
    """What `connect` does with an address, also where this process has a Ray already."""
    _join(load_ray(), address, deadline_s)


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def test_importing_whet_and_its_cluster_imports_no_ray():
    assert run_alone("import sys, whet, whet.cluster, whet.cli.app; print('ray' in sys.modules)") == "False\n"


def test_a_missing_extra_is_named_with_its_cure():
    printed = run_alone(
        """
        import sys
        sys.modules["ray"] = None
        from whet.cluster import connect
        from whet.cluster.errors import ClusterError, MissingExtra
        from whet.errors import Unsupported
        try:
            with connect():
                pass
        except MissingExtra as error:
            assert isinstance(error, ClusterError) and isinstance(error, Unsupported)
            print(error)
        """
    )
    assert "ray" in printed and "whet[cluster]" in printed


@pytest.mark.parametrize("address", ["", "nowhere", "host:", ":1", "host:port", "host:0", "host:65536", "host:1e3"])
def test_what_is_no_address_is_refused(ray_installed, address):
    with pytest.raises(Unreachable, match="HOST:PORT"):
        join(address)


def test_a_closed_port_is_unreachable(ray_installed):
    with pytest.raises(Unreachable, match="ray start"):
        join(f"127.0.0.1:{closed_port()}")


def test_a_port_that_never_answers_is_left_at_the_deadline(ray_installed):
    with socket.create_server(("127.0.0.1", 0)) as server:
        began = time.monotonic()
        with pytest.raises(Unreachable, match=r"within 0\.3 s"):
            join(f"127.0.0.1:{server.getsockname()[1]}", deadline_s=0.3)
        assert time.monotonic() - began < 30  # Ray's own client waits for 40


@pytest.mark.parametrize("reply", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b""])
def test_another_server_is_no_ray(ray_installed, reply):
    def answer_once():
        link, _ = server.accept()
        with link:
            link.recv(100)
            link.sendall(reply)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=answer_once, daemon=True)
        thread.start()
        with pytest.raises(Unreachable, match="no Ray"):
            join(f"127.0.0.1:{server.getsockname()[1]}")
        thread.join(60)


@pytest.mark.parametrize("wrong", [{"workers": 0}, {"workers": 10**6}, {"deadline_s": 0}, {"object_store_bytes": 5}])
def test_bad_arguments_are_refused_before_anything_starts(wrong):
    with pytest.raises(BadInput), connect(**wrong):
        pass


def test_other_versions_are_told_apart():
    require_same_versions(versions(), "a worker")
    for name in versions():
        with pytest.raises(VersionMismatch, match=f"{name} 0.0.0"):
            require_same_versions({**versions(), name: "0.0.0"}, "a worker")


def test_a_head_of_another_ray_is_refused_before_joining(connection):
    printed = run_alone(
        f"""
        import ray
        ray.__version__ = "2.0.0"
        from whet.cluster import connect
        from whet.cluster.errors import VersionMismatch
        try:
            with connect("{connection.address}"):
                pass
        except VersionMismatch as error:
            print(error)
        assert not ray.is_initialized()
        """
    )
    assert "this process 2.0.0" in printed and "install the same Ray" in printed


def test_another_token_is_turned_away(connection):
    printed = run_alone(
        f"""
        from whet.cluster import connect
        from whet.cluster.errors import Unreachable
        try:
            with connect("{connection.address}"):
                pass
        except Unreachable as error:
            print(error)
        """,
        RAY_AUTH_TOKEN="f" * 32,
    )
    assert "token" in printed


def test_joining_and_leaving_leaves_a_ray_as_it_was(connection):
    before = {node.id for node in connection.nodes()}
    printed = run_alone(
        f"""
        from whet.cluster import connect
        with connect("{connection.address}") as joined:
            print(joined.started, len(joined.nodes()), joined.address)
            with connect() as again:
                print(again is joined)
        """
    )
    assert printed.split() == ["False", str(len(before)), connection.address, "True"]
    assert {node.id for node in connection.nodes()} == before


def test_everything_listens_on_loopback_alone(connection):
    listening = set()
    for child in psutil.Process().children():
        if connection._folder not in " ".join(child.cmdline()):
            continue
        for one in [child, *child.children(recursive=True)]:
            try:
                links = one.net_connections("tcp")
            except psutil.Error:  # a worker of an earlier test that has just ended
                continue
            listening |= {link.laddr.ip for link in links if link.status == psutil.CONN_LISTEN}
    assert {ip.removeprefix("::ffff:") for ip in listening} == {"127.0.0.1"}


def test_connections_of_one_process_share_a_ray(connection):
    with connect() as again, connect(connection.address) as third:
        assert again is connection and third is connection
    connection.require_head()
    with pytest.raises(ClusterError, match="a process has one"), connect("127.0.0.1:1"):
        pass


def test_a_forked_process_refuses(connection):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        told = []
        for attempt in (connection.nodes, lambda: connect().__enter__()):
            try:
                attempt()
            except ClusterError as error:
                told.append(type(error).__name__)
        os.write(write, " ".join(told).encode())
        os._exit(0)
    os.close(write)
    assert os.waitpid(child, 0)[1] == 0
    with os.fdopen(read) as pipe:
        assert pipe.read() == "ClusterError ClusterError"
    connection.require_head()
