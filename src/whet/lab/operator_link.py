"""The command line's way to the devices of a `whet lab` that runs in another process of this user."""

from __future__ import annotations

import contextlib
import http.client
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
from platformdirs import user_runtime_path

import whet.errors
from whet.errors import DeviceGone, Unsupported, WhetError
from whet.evidence.elsewhere import Disturbed
from whet.lab import wire
from whet.lab.device import LabDevice
from whet.lab.operator_app import FAILED, Asked, Listed
from whet.lab.wire import Answer, Facts

# Beyond the server's own watchdogs, which say more.
GRACE_S = 900.0
VARIABLE = "WHET_LAB"


def socket_path() -> Path:
    """Where this user's server listens for the command line."""
    if named := os.environ.get(VARIABLE):
        return Path(named)
    return Path(user_runtime_path("whet", appauthor=False)) / "lab.sock"


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: Path, limit_s: float) -> None:
        super().__init__("localhost", timeout=limit_s)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


class Operator:
    """Requests to the server, each on a connection of its own: nothing is left half said where one is given up."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path or socket_path()

    def request(self, method: str, path: str, body: bytes = b"", *, limit_s: float = 0.0) -> bytes:
        connection = _Connection(self._path, limit_s + GRACE_S)
        try:
            connection.request(method, path, body)
            answer = connection.getresponse()
            said = answer.read()
        except (OSError, http.client.HTTPException) as error:
            if isinstance(error, FileNotFoundError | ConnectionRefusedError):
                raise Unsupported("no lab is running here", cure="start one: whet lab") from None
            raise DeviceGone(f"the lab's server is gone: {error}", cure="start it again: whet lab") from None
        finally:
            connection.close()
        if answer.status == FAILED:
            raise _typed(msgspec.json.decode(said, type=dict[str, str]))
        if answer.status >= 300:
            raise DeviceGone(f"the lab's server answered {answer.status}", cure="start it again: whet lab")
        return said

    def devices(self) -> list[Listed]:
        return msgspec.json.decode(self.request("GET", "/devices"), type=list[Listed])


class OperatorLink:
    """One device of that server, held by a lease."""

    def __init__(self, operator: Operator, name: str, lease: str, facts: Facts) -> None:
        self._operator, self.name, self._lease, self.facts = operator, name, lease, facts

    def ask(
        self, command: Mapping[str, Any], parts: Mapping[str, bytes], *, limit_s: float, expects: int = 0
    ) -> tuple[Answer, dict[str, bytes], int]:
        asked = Asked(device=self.name, lease=self._lease, limit_s=limit_s, expects=expects, command=dict(command))
        body = wire.pack(msgspec.to_builtins(asked), parts)
        header, got = wire.unpack(self._operator.request("POST", "/ask", body, limit_s=limit_s))
        return msgspec.convert(header["answer"], Answer), got, int(header["spent_ns"])


@contextmanager
def open_lab(name: str) -> Iterator[LabDevice]:
    """`lab:NAME`, or the only device if there is just one."""
    operator = Operator()
    if not name:
        there = [one.name for one in operator.devices()]
        if len(there) != 1:
            offer = ", ".join(f"lab:{one}" for one in there) or "none; open the page on one"
            raise Unsupported(f"{len(there)} devices are connected", cure=f"name one: {offer}")
        (name,) = there
    taken = msgspec.json.decode(operator.request("POST", f"/devices/{quote(name, safe='')}/take"))
    lease, facts = taken["lease"], msgspec.convert(taken["device"]["facts"], Facts)
    try:
        yield LabDevice(OperatorLink(operator, name, lease, facts), "lab")
    finally:
        with contextlib.suppress(WhetError):
            operator.request("POST", f"/devices/{name}/give-back", lease.encode())


def _typed(said: Mapping[str, str]) -> Exception:
    if said["kind"] == "Disturbed":
        return Disturbed(said["cause"])
    kind = getattr(whet.errors, said["kind"], WhetError)
    raised: WhetError = kind(said["cause"], cure=said["cure"])
    return raised
