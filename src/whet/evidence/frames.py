"""Messages between the processes of a trial: msgpack behind a length, over a socket pair."""

from __future__ import annotations

import socket
import struct
import time
from typing import Any

import msgspec

_HEAD = struct.Struct("<I")


class PeerGone(Exception):
    """The other process closed its end: it exited or crashed."""


class PeerSilent(Exception):
    """The other process did not answer in time."""


class Channel:
    """One end of a conversation. Owns its socket."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    def send(self, message: dict[str, Any]) -> None:
        body = msgspec.msgpack.encode(message)
        try:
            self._sock.settimeout(None)
            self._sock.sendall(_HEAD.pack(len(body)) + body)
        except OSError:
            raise PeerGone from None

    def receive(self, limit_s: float | None = None) -> dict[str, Any]:
        deadline = None if limit_s is None else time.monotonic() + limit_s
        (size,) = _HEAD.unpack(self._exactly(_HEAD.size, deadline))
        message: dict[str, Any] = msgspec.msgpack.decode(self._exactly(size, deadline))
        return message

    def _exactly(self, size: int, deadline: float | None) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            if deadline is not None:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise PeerSilent
                self._sock.settimeout(left)
            else:
                self._sock.settimeout(None)
            try:
                part = self._sock.recv(min(size - len(parts), 1 << 20))
            except TimeoutError:
                raise PeerSilent from None
            except OSError:
                raise PeerGone from None
            if not part:
                raise PeerGone
            parts += part
        return bytes(parts)

    def close(self) -> None:
        self._sock.close()
