"""The server's face to pages: a handful of files by name, and three requests. Everything else is refused."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from importlib import resources
from typing import Any, TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from whet.errors import BadInput
from whet.lab import wire
from whet.lab.guard import SECURITY_HEADERS, Door, Rate, body_of
from whet.lab.hub import POLL_S, Hub, Refused
from whet.lab.wire import Answer, Beat, Hello

log = logging.getLogger("whet.lab")
T = TypeVar("T", bound=wire.Sent)

TYPES = {"html": "text/html; charset=utf-8", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
BINARY = "application/octet-stream"
SEAT = "x-whet-seat"
# The answer to a sign of life from a page that still does what nobody waits for.
GIVEN_UP = 205
Handler = Callable[[Request], Awaitable[Response]]


def page_files() -> dict[str, bytes]:
    """What the page is made of, by the path it is asked for by. Nothing else is ever read from a disk."""
    page, gpu = resources.files("whet.lab") / "page", resources.files("whet.gpu")
    found = {f"/{one.name}": one.read_bytes() for one in page.iterdir() if one.name.rpartition(".")[2] in TYPES}
    found["/runner.js"] = (gpu / "runner.js").read_bytes()
    found["/"] = found["/index.html"]
    return found


class Pages:
    """Requests of pages, checked by the door and passed to the hub."""

    def __init__(self, hub: Hub, door: Door, *, poll_s: float = POLL_S) -> None:
        self.hub, self.door, self.poll_s = hub, door, poll_s
        self.files = page_files()
        self._hellos, self._rate = Rate(2, 60), Rate(400, 800)

    def app(self) -> ASGIApp:
        posts = {"hello": self.hello, "next": self.next, "beat": self.beat}
        routes = [Route(f"/api/{name}", self._checked(handler), methods=["POST"]) for name, handler in posts.items()]
        routes += [Route(path, self._checked(self.file, page=True), methods=["GET"]) for path in self.files]
        return Hardened(Starlette(routes=routes))

    async def file(self, request: Request) -> Response:
        path = request.url.path
        kind = TYPES["html" if path == "/" else path.rpartition(".")[2]]
        return Response(self.files[path], media_type=kind, headers={"cache-control": "no-cache"})

    async def hello(self, request: Request) -> Response:
        self._hellos.check(_client(request))
        said = _decoded(await body_of(request, 0), Hello)[0]
        return Response(msgspec.json.encode(self.hub.hello(said)), media_type="application/json")

    async def beat(self, request: Request) -> Response:
        wanted = self.hub.beat(_decoded(await body_of(request, 0), Beat)[0])
        return Response(status_code=204 if wanted else GIVEN_UP)

    async def next(self, request: Request) -> Response:
        """The answer to the last command, if any, and in return the next one."""
        room = self.hub.room_for(request.headers.get(SEAT, ""))
        said, rest = _decoded(await body_of(request, room), Answer)
        self.hub.answer(said, rest)
        body = await self.hub.next(said.seat, self.poll_s)
        return Response(status_code=204) if body is None else Response(body, media_type=BINARY)

    def _checked(self, handler: Handler, *, page: bool = False) -> Handler:
        async def checked(request: Request) -> Response:
            try:
                self.door.check_host(request.headers)
                self._rate.check(request.headers.get(SEAT) or _client(request))
                if not page:
                    self.door.check_sender(request.headers, request.url.scheme)
                return await handler(request)
            except Refused as refused:
                self.hub.refusals += 1
                log.warning("%s %s from %s: %s", refused.status, request.url.path, _client(request), refused.why)
                return Response(refused.why, refused.status, media_type="text/plain")

        return checked


class Hardened:
    """Security headers on every answer, and no traceback in any."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return

        async def hardened(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = [(name.encode(), value.encode()) for name, value in SECURITY_HEADERS.items()]
                message["headers"] = [*message.get("headers", []), *own]
            await send(message)

        await self._app(scope, receive, hardened)


def _decoded(body: bytes, kind: type[T]) -> tuple[T, memoryview]:
    try:
        head, rest = wire.split(body)
        return msgspec.json.decode(head, type=kind), rest
    except (BadInput, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Refused(400, f"this is no {kind.__name__.lower()}: {error}") from None


def _client(request: Request) -> str:
    client: Any = request.client
    return client.host if client else "?"
