"""A server in a thread of its own: the page's interface on a port, the command line's on a socket of this user."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
import threading
from collections.abc import Coroutine, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from whet.errors import BadInput, DeviceError, Unsupported
from whet.lab.app import Pages
from whet.lab.guard import LOOPBACK, Door
from whet.lab.hub import POLL_S, Hub, Patience
from whet.lab.operator_app import Listed, listed, operator_app

T = TypeVar("T")
HEAD_LIMIT_S = 10.0
KEEP_ALIVE_S = 60
MOST_CONNECTIONS = 1024
START_LIMIT_S = 30.0


class PatientProtocol(H11Protocol):  # type: ignore[misc, unused-ignore]
    """Closes a connection that takes its time over the head of a request."""

    _slow: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._arm()

    def handle_events(self) -> None:
        super().handle_events()
        waiting = self.cycle is None or self.cycle.response_complete
        if not waiting:
            self._disarm()
        elif self._slow is None and self.conn.trailing_data[0]:
            self._arm()

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        super().connection_lost(exc)

    def _arm(self) -> None:
        self._slow = self.loop.call_later(HEAD_LIMIT_S, self._give_up)

    def _disarm(self) -> None:
        if self._slow is not None:
            self._slow.cancel()
            self._slow = None

    def _give_up(self) -> None:
        self._slow = None
        if not self.transport.is_closing():
            self.transport.close()


class LabServer:
    """Use as a context manager. `hub` lives on the server's loop: `call` runs something there and waits for it."""

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        hosts: Sequence[str] = (),
        token: str = "",
        certificate: tuple[Path, Path] | None = None,
        operator_path: Path | None = None,
        patience: Patience | None = None,
        poll_s: float = POLL_S,
    ) -> None:
        if host not in LOOPBACK and not token:
            raise BadInput(f"{host} is not this machine alone, and there is no token", cure="give a token")
        self._door = Door(LOOPBACK | {name.lower() for name in hosts}, token)
        self._certificate, self._operator_path = certificate, operator_path
        self._patience, self._poll_s = patience, poll_s
        self._socket = _listen(host, port)
        self.port: int = self._socket.getsockname()[1]
        self.scheme = "https" if certificate else "http"
        self.hub: Hub
        self.pages: Pages
        self._loop: asyncio.AbstractEventLoop
        self._ready = threading.Event()
        self._failed: BaseException | None = None
        self._servers: list[uvicorn.Server] = []
        self._thread = threading.Thread(target=self._serve, name="whet-lab", daemon=True)

    @property
    def url(self) -> str:
        return f"{self.scheme}://localhost:{self.port}/"

    def call(self, asked: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine on the server's loop. An interrupt here ends it there."""
        future = asyncio.run_coroutine_threadsafe(asked, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def listed(self) -> list[Listed]:
        """Who is connected."""

        async def look() -> list[Listed]:
            return [listed(device) for device in self.hub.present()]

        return self.call(look())

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._ready.wait(START_LIMIT_S) or self._failed is not None:
            self.close()
            raise DeviceError(f"the lab's server does not start: {self._failed}", cure="try another port")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        for server in self._servers:
            server.should_exit = server.force_exit = True
        if self._thread.is_alive():
            self._thread.join(START_LIMIT_S)
        self._socket.close()
        if self._operator_path is not None:
            with contextlib.suppress(OSError):
                self._operator_path.unlink()

    def wait(self) -> None:
        """Until it ends."""
        while self._thread.is_alive():
            self._thread.join(0.5)

    def _serve(self) -> None:
        try:
            asyncio.run(self._run())
        except BaseException as error:
            self._failed = error
        finally:
            self._ready.set()

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.hub = Hub(self._patience)
        self.pages = pages = Pages(self.hub, self._door, poll_s=self._poll_s)
        config = uvicorn.Config(
            pages.app(),
            http=PatientProtocol,
            ws="none",
            lifespan="off",
            log_level="critical",
            access_log=False,
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            limit_concurrency=MOST_CONNECTIONS,
            h11_max_incomplete_event_size=32 << 10,
            timeout_graceful_shutdown=1,
        )
        if self._certificate is not None:
            config.ssl_certfile, config.ssl_keyfile = self._certificate
        server = _Quiet(config)
        self._servers.append(server)
        tasks = [server.serve(sockets=[self._socket])]
        if self._operator_path is not None:
            place = _own_socket(self._operator_path)
            own = _Quiet(uvicorn.Config(operator_app(self.hub), ws="none", lifespan="off", log_level="critical"))
            self._servers.append(own)
            tasks.append(own.serve(sockets=[place]))
        watch = asyncio.create_task(self._announce())
        await asyncio.gather(*tasks)
        watch.cancel()

    async def _announce(self) -> None:
        while not all(server.started for server in self._servers):
            await asyncio.sleep(0.005)
        self._ready.set()


class _Quiet(uvicorn.Server):  # type: ignore[misc, unused-ignore]
    """Leaves the signals of the process alone."""

    @contextlib.contextmanager
    def capture_signals(self) -> Any:
        yield


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named as TCP: only then asyncio sends without delay, and a command does not wait 40 ms for an acknowledgement.
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
    except OSError as error:
        made.close()
        raise Unsupported(
            f"cannot listen on {host} port {port}: {error.strerror}", cure="give another --port"
        ) from error
    return made


def _own_socket(path: Path) -> socket.socket:
    """A socket in the file system that nobody but this user can open."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        made.bind(str(path))
    finally:
        os.umask(before)
    return made


def check_certificate(certificate: tuple[Path, Path]) -> None:
    """Refuses a certificate that does not load, before anything listens."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(*certificate)
    except (OSError, ssl.SSLError) as error:
        raise BadInput(f"the certificate cannot be used: {error}", cure="give --cert and --key in PEM") from error
