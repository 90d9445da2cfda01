"""Whether a Ray answers at an address, asked with a deadline.

Ray's own client waits for 40 seconds for whatever does not answer. A gRPC server shows itself earlier: to the preface
of HTTP/2 it replies with a frame of settings, and a web server or a port that swallows everything does not.
"""

from __future__ import annotations

import socket
import time

from whet.cluster.errors import Unreachable

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])  # and an empty frame of settings
FRAME_HEADER_BYTES = 9
SETTINGS = 4
START_A_HEAD = "start one with `ray start --head`, or leave the address out"


def split(address: str) -> tuple[str, int]:
    """Host and port. Anything else is Unreachable: nobody can be there."""
    host, colon, port = address.rpartition(":")
    if not (colon and host and port.isascii() and port.isdigit() and 0 < int(port) < 1 << 16):
        raise Unreachable(
            f"{address!r} is no address of a Ray", cure="write HOST:PORT, as `ray start --head` prints it"
        )
    return host.strip("[]"), int(port)


def greet(address: str, deadline_s: float) -> None:
    """Returns once something there speaks as Ray's head does."""
    end = time.monotonic() + deadline_s
    try:
        with socket.create_connection(split(address), timeout=deadline_s) as link:
            link.sendall(PREFACE)
            reply = b""
            while len(reply) < FRAME_HEADER_BYTES:
                link.settimeout(max(end - time.monotonic(), 1e-3))
                piece = link.recv(FRAME_HEADER_BYTES - len(reply))
                if not piece:
                    break
                reply += piece
    except TimeoutError:
        raise Unreachable(
            f"nothing at {address} answers within {deadline_s:g} s",
            cure=f"check the address and the way there; {START_A_HEAD}",
        ) from None
    except OSError as error:
        raise Unreachable(f"{address} cannot be reached: {error}", cure=START_A_HEAD) from None
    if len(reply) < FRAME_HEADER_BYTES or reply[3] != SETTINGS:
        raise Unreachable(f"what answers at {address} is no Ray", cure="give the port that `ray start --head` prints")
