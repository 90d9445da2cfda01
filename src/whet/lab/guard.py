"""What every request must satisfy before it is looked at: host, origin, token, size, rate and patience."""

from __future__ import annotations

import asyncio
import hmac
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from starlette.requests import ClientDisconnect, Request

from whet.lab.hub import Refused

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
SMALL_BODY_BYTES = 64 << 10
BODY_LIMIT_S = 30.0
# However slow the way is, this much has to come per second.
LEAST_BYTES_PER_S = 64 << 10
MOST_CLIENTS = 4096

SECURITY_HEADERS = {
    # Cross-origin isolated pages have a clock of 5 µs instead of 100.
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-embedder-policy": "require-corp",
    "cross-origin-resource-policy": "same-origin",
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "permissions-policy": "camera=(), microphone=(), geolocation=(), screen-wake-lock=(self)",
}


@dataclass(frozen=True)
class Door:
    """Who may come in. Without a token nobody but this machine."""

    hosts: frozenset[str] = LOOPBACK
    token: str = ""

    def check_host(self, headers: Mapping[str, str]) -> None:
        """A name that this server does not go by leads here only through a forged answer of a name server."""
        if host_of(headers.get("host", "")) not in self.hosts:
            raise Refused(421, "this server does not go by that name; see --allow-host")

    def check_sender(self, headers: Mapping[str, str], scheme: str) -> None:
        """The page of this very server and nobody else, with the token if there is one."""
        origin = headers.get("origin")
        if origin is not None:
            parts = urlsplit(origin)
            if parts.netloc.lower() != headers.get("host", "").lower() or parts.scheme not in (scheme, "https"):
                raise Refused(403, "a page from elsewhere may not talk to this server")
        if headers.get("sec-fetch-site", "same-origin") != "same-origin":
            raise Refused(403, "a page from elsewhere may not talk to this server")
        if headers.get("content-type", "").partition(";")[0] != "application/octet-stream":
            raise Refused(415, "send application/octet-stream")
        if self.token:
            kind, _, given = headers.get("authorization", "").partition(" ")
            if kind.lower() != "bearer" or not hmac.compare_digest(given.encode(), self.token.encode()):
                raise Refused(401, "the token is missing or wrong; scan the code or open the link that whet lab shows")


def host_of(text: str) -> str:
    """The name in a Host header, without its port."""
    try:
        return (urlsplit(f"//{text}").hostname or "").lower()
    except ValueError:
        return ""


async def body_of(request: Request, room_bytes: int) -> bytes:
    """The body, if it is no larger than allowed and comes at a fair pace."""
    limit = SMALL_BODY_BYTES + room_bytes
    announced = request.headers.get("content-length", "")
    if announced and (not announced.isdigit() or int(announced) > limit):
        raise Refused(413, f"at most {limit} bytes are taken here")
    collected = bytearray()
    try:
        async with asyncio.timeout(BODY_LIMIT_S + limit / LEAST_BYTES_PER_S):
            async for chunk in request.stream():
                collected += chunk
                if len(collected) > limit:
                    raise Refused(413, f"at most {limit} bytes are taken here")
    except TimeoutError:
        raise Refused(408, "the body did not come in time") from None
    except ClientDisconnect:
        raise Refused(400, "the body ended early") from None
    return bytes(collected)


@dataclass
class Rate:
    """So many requests per second and client, with a reserve; clients that were not heard of lately are forgotten."""

    per_s: float
    burst: float
    clock: Callable[[], float] = time.monotonic
    _left: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict)

    def check(self, client: str) -> None:
        now = self.clock()
        left, at = self._left.pop(client, (self.burst, now))
        left = min(self.burst, left + (now - at) * self.per_s)
        self._left[client] = (max(0.0, left - 1), now)
        if len(self._left) > MOST_CLIENTS:
            self._left.popitem(last=False)
        if left < 1:
            raise Refused(429, "too many requests")
