"""Typed messages between the processes of a trial: msgpack behind a length, over a socket pair, with descriptors."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import time
from typing import Any

import msgspec

_HEAD = struct.Struct("<I")
# A process that runs foreign code may say anything; nothing it has to say is longer.
LONGEST_BYTES = 1 << 28


class PeerGone(Exception):
    """The other process closed its end: it exited or crashed."""


class PeerSilent(Exception):
    """The other process did not answer in time."""


class NoMessage(Exception):
    """The other process sent bytes that are no message of the agreed kind."""


class Channel:
    """One end of a conversation. Owns its socket. `hears` is the union of records that may arrive."""

    def __init__(self, sock: socket.socket, hears: Any) -> None:
        self._sock = sock
        self._decoder = msgspec.msgpack.Decoder(hears)

    def send(self, message: msgspec.Struct, fds: list[int] | None = None) -> None:
        body = msgspec.msgpack.encode(message)
        try:
            self._sock.settimeout(None)
            self._sock.sendall(_HEAD.pack(len(body)) + body)
            if fds:
                socket.send_fds(self._sock, [b"\0"], fds)
        except OSError:
            raise PeerGone from None

    def receive(self, limit_s: float | None = None) -> Any:
        deadline = None if limit_s is None else time.monotonic() + limit_s
        (size,) = _HEAD.unpack(self._exactly(_HEAD.size, deadline))
        if size > LONGEST_BYTES:
            raise NoMessage(f"it announced {size:,} bytes")
        try:
            return self._decoder.decode(self._exactly(size, deadline))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise NoMessage(str(error)) from None

    def receive_fds(self, count: int) -> list[int]:
        """The descriptors behind the last message; exactly so many, or NoMessage."""
        self._sock.settimeout(None)
        try:
            _, fds, _, _ = socket.recv_fds(self._sock, 1, count)
        except OSError:
            raise PeerGone from None
        if len(fds) != count:
            for fd in fds:
                with contextlib.suppress(OSError):
                    os.close(fd)
            raise NoMessage(f"{len(fds)} descriptors came, not {count}")
        return fds

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
