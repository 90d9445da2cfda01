"""One process's place in a Ray: its own, started on loopback and ended by it, or one that it joins.

Ray knows one connection per process. Connections to the same Ray share it, and the last one out ends what was started.
A Ray that the process had already joined by itself is used and left as it was.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from whet import __version__
from whet.cluster.errors import ClusterError, HeadLost, MissingExtra, Unreachable, VersionMismatch
from whet.cluster.greeting import greet, split
from whet.errors import BadInput

DEADLINE_S = 120.0
LOOK_S = 2.0  # how long a look at the head may take
OBJECT_STORE_BYTES = 512 << 20
LEAST_STORE_BYTES = 80 << 20  # Ray's own lower bound is 75 MiB
MOST_WORKERS = 4096
LOOPBACK = ("127.0.0.1", "localhost", "::1")
REMOVALS = 30
LONGEST_FOLDER = 40  # below it Ray makes sockets, and their paths have 107 bytes
# No message about this machine leaves it, no worker starts before it is asked for, and no call starts a Ray by itself.
# Read when Ray is imported or starts.
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_enable_worker_prestart": "0",
    "RAY_ENABLE_AUTO_CONNECT": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}


@dataclass(frozen=True)
class Node:
    """One machine of the cluster, as Ray lists it."""

    id: str
    host: str
    cpus: float
    labels: Mapping[str, str] = field(default_factory=dict)
    resources: Mapping[str, float] = field(default_factory=dict)


class Connection:
    """What `connect` gives. `ray` is the module, connected; `started` says whether this process started that Ray."""

    def __init__(self, ray: Any, address: str, *, started: bool, owned: bool, raylet: str, folder: str | None) -> None:
        self.ray = ray
        self.address = address
        self.started = started
        self._owned = owned
        self._raylet = raylet
        self._folder = folder
        self._pid = os.getpid()
        self._users = 0

    def nodes(self) -> list[Node]:
        """The machines that are there now, the one of this process among them."""
        self.require_head()
        return [
            Node(
                id=row["NodeID"],
                host=row["NodeManagerAddress"],
                cpus=row["Resources"].get("CPU", 0.0),
                labels=dict(row.get("Labels") or {}),
                resources=dict(row["Resources"]),
            )
            for row in self.ray.nodes()
            if row["Alive"]
        ]

    def require_head(self) -> None:
        """HeadLost unless the head and this machine's part of Ray answer. Takes LOOK_S at most."""
        self.require_own_process()
        cure = "start Ray again, then make a new cluster"
        try:
            socket.create_connection(split(self.address), timeout=LOOK_S).close()
        except OSError as error:
            raise HeadLost(f"the head of Ray at {self.address} is gone: {error}", cure=cure) from None
        if not self._raylet:
            return
        try:
            with socket.socket(socket.AF_UNIX) as link:
                link.settimeout(LOOK_S)
                link.connect(self._raylet)
        except OSError as error:
            raise HeadLost(f"Ray's process on this machine is gone: {error}", cure=cure) from None

    @property
    def is_own_process(self) -> bool:
        return os.getpid() == self._pid

    def require_own_process(self) -> None:
        """A connection does not survive a fork."""
        if not self.is_own_process:
            raise ClusterError("this connection to Ray belongs to the process before the fork", cure="connect again")

    def _end(self) -> None:
        if not self.is_own_process:
            return
        if self._owned:
            self.ray.shutdown()
        if self._folder is not None:
            _remove(self._folder)


class _Shared:
    """The connection of this process, and how many use it. Under the lock."""

    lock = threading.Lock()
    current: Connection | None = None


os.register_at_fork(after_in_child=lambda: setattr(_Shared, "lock", threading.Lock()))


@contextmanager
def connect(
    address: str | None = None,
    *,
    workers: int | None = None,
    deadline_s: float = DEADLINE_S,
    object_store_bytes: int = OBJECT_STORE_BYTES,
    dashboard: bool = False,
) -> Iterator[Connection]:
    """Joins the Ray at `address` (HOST:PORT), or starts one on this machine's loopback with room for `workers`.

    A Ray is joined from one of its own machines: `ray start --address=HOST:PORT` makes this one of them. Who joins
    needs its token: RAY_AUTH_TOKEN, or ~/.ray/auth_token, which Ray makes where there is none.
    """
    if workers is not None and not 1 <= workers <= MOST_WORKERS:
        raise BadInput(f"{workers} workers", cure=f"ask for 1 to {MOST_WORKERS}")
    if not deadline_s > 0:
        raise BadInput(f"a deadline of {deadline_s} s", cure="give a time above zero")
    if not object_store_bytes >= LEAST_STORE_BYTES:
        raise BadInput(f"an object store of {object_store_bytes} bytes", cure=f"give at least {LEAST_STORE_BYTES}")
    connection = _enter(address, workers, deadline_s, object_store_bytes, dashboard)
    try:
        yield connection
    finally:
        _leave(connection)


def _enter(
    address: str | None, workers: int | None, deadline_s: float, store_bytes: int, dashboard: bool
) -> Connection:
    ray = load_ray()
    with _Shared.lock:
        if _Shared.current is not None and _Shared.current._pid != os.getpid():
            raise ClusterError(
                "this process was forked from one that is connected to Ray",
                cure="start it afresh (spawn), then connect",
            )
        if _Shared.current is not None:
            _require_same(_Shared.current, address)
            _Shared.current.require_head()
        elif ray.is_initialized():
            _Shared.current = _adopt(ray, address)
        elif address is None:
            _Shared.current = _start(ray, workers or os.cpu_count() or 1, deadline_s, store_bytes, dashboard)
        else:
            _Shared.current = _join(ray, address, deadline_s)
        _Shared.current._users += 1
        return _Shared.current


def _leave(connection: Connection) -> None:
    with _Shared.lock:
        connection._users -= 1
        if connection._users == 0:
            if _Shared.current is connection:
                _Shared.current = None
            connection._end()


def load_ray() -> Any:
    """The module, quiet; MissingExtra where there is none."""
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    try:
        import ray
    except ModuleNotFoundError as error:
        raise MissingExtra(f"the package {error.name} is not installed", cure="pip install 'whet[cluster]'") from None
    return ray


def _require_same(connection: Connection, address: str | None) -> None:
    if address is not None and address != connection.address:
        raise ClusterError(
            f"this process is connected to the Ray at {connection.address}, not {address}",
            cure="close that connection first: a process has one",
        )


def _adopt(ray: Any, address: str | None) -> Connection:
    """A Ray that the caller has joined already."""
    found = Connection(ray, ray.get_runtime_context().gcs_address, started=False, owned=False, raylet="", folder=None)
    _require_same(found, address)
    return found


def _start(ray: Any, workers: int, deadline_s: float, store_bytes: int, dashboard: bool) -> Connection:
    place = tempfile.gettempdir()
    folder = tempfile.mkdtemp(prefix="whet-ray-", dir=place if len(place) < LONGEST_FOLDER else "/tmp")
    began = time.monotonic()
    try:
        with _driver(loopback=True):
            context = ray.init(
                "local",
                num_cpus=workers,
                object_store_memory=store_bytes,
                include_dashboard=dashboard,
                log_to_driver=False,
                logging_level="ERROR",
                _temp_dir=folder,
                _node_ip_address=LOOPBACK[0],
            )
        if time.monotonic() - began > deadline_s:
            ray.shutdown()
            raise Unreachable(
                f"Ray took more than {deadline_s:g} s to start", cure="try again with a longer deadline_s"
            )
    except BaseException as error:
        ray.shutdown()
        _remove(folder)
        if isinstance(error, ClusterError) or not isinstance(error, Exception):
            raise
        raise Unreachable(
            f"Ray does not start here: {_first_line(error)}",
            cure="see that /dev/shm and the temporary folder have room",
        ) from None
    info = context.address_info
    return Connection(ray, info["address"], started=True, owned=True, raylet=info["raylet_socket_name"], folder=folder)


def _join(ray: Any, address: str, deadline_s: float) -> Connection:
    greet(address, deadline_s)
    head = _ask_head(ray, address, deadline_s)
    _require_version("Ray", head.get("ray_version"), ray.__version__, f"the Ray at {address}")
    _require_version(
        "Python", head.get("python_version"), ".".join(map(str, sys.version_info[:3])), f"the Ray at {address}"
    )
    try:
        with _driver(loopback=any(host in LOOPBACK for host in head["hosts"])):
            context = ray.init(address, log_to_driver=False, logging_level="ERROR")
    except Exception as error:
        raise Unreachable(
            f"the Ray at {address} cannot be joined from here: {_first_line(error)}",
            cure=f"make this machine one of its own: ray start --address={address}",
        ) from None
    info = context.address_info
    return Connection(ray, address, started=False, owned=True, raylet=info["raylet_socket_name"] or "", folder=None)


def _ask_head(ray: Any, address: str, deadline_s: float) -> dict[str, Any]:
    """What the head says about itself before this process binds itself to it."""
    from ray._private.authentication.authentication_token_setup import maybe_enable_token_auth_if_token_available
    from ray._raylet import GcsClient

    maybe_enable_token_auth_if_token_available(warn_if_disabled=False)
    try:
        client = GcsClient(address=address)
        told = client.internal_kv_get(b"CLUSTER_METADATA", b"cluster", timeout=deadline_s)
        hosts = [info.node_manager_address for info in client.get_all_node_info(timeout=deadline_s).values()]
        return {**json.loads(told or b"{}"), "hosts": hosts}
    except ray.exceptions.AuthenticationError:
        raise Unreachable(
            f"the Ray at {address} does not know this process",
            cure="bring its token: set RAY_AUTH_TOKEN, or copy its ~/.ray/auth_token",
        ) from None
    except (ray.exceptions.RayError, ValueError) as error:
        raise Unreachable(
            f"the Ray at {address} does not say who it is: {_first_line(error)}",
            cure="give the port that `ray start --head` prints",
        ) from None


def versions() -> dict[str, str]:
    """What must be the same wherever parts of one sum are computed."""
    return {"whet": __version__, "Python": ".".join(map(str, sys.version_info[:3]))}


def require_same_versions(told: Mapping[str, str], where: str) -> None:
    """VersionMismatch unless a worker's `versions()` are this process's."""
    for name, here in versions().items():
        _require_version(name, told.get(name), here, where)


def _require_version(name: str, there: str | None, here: str, where: str) -> None:
    if there != here:
        raise VersionMismatch(
            f"{where} has {name} {there or 'of an unknown version'}, this process {here}",
            cure=f"install the same {name} everywhere",
        )


@contextmanager
def _driver(*, loopback: bool) -> Iterator[None]:
    """How this process enters Ray, where `ray.init` has no option for it.

    Ray takes 127.0.0.1 for the address of the network card unless it believes that there are no other machines. And it
    prints a paragraph for every worker that dies: callers learn that from `MsmCluster.events` and from errors.
    """
    from ray._private import ray_constants, worker

    before = ray_constants.ENABLE_RAY_CLUSTER, worker.listen_error_messages
    if loopback:
        ray_constants.ENABLE_RAY_CLUSTER = False
    worker.listen_error_messages = lambda *_: None
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER, worker.listen_error_messages = before


def _remove(folder: str) -> None:
    """Processes of Ray may write their last line into it while it is removed."""
    for _ in range(REMOVALS):
        shutil.rmtree(folder, ignore_errors=True)
        if not Path(folder).exists():
            return
        time.sleep(0.1)


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
