"""The server's face to the command line of the same user: which devices there are, and asking one something.

It listens on a socket in the file system that only this user can open, so a page can never reach it.
"""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from whet.errors import WhetError
from whet.evidence.elsewhere import Disturbed
from whet.lab import wire
from whet.lab.hub import Device, Hub

BINARY = "application/octet-stream"
FAILED = 409


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """A device as `whet lab --list` shows it."""

    name: str
    stage: str
    hidden: bool
    taken: bool
    facts: wire.Facts


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line wants of a device; the command itself is the rest of the header."""

    device: str
    lease: str
    limit_s: float
    expects: int
    command: dict[str, Any]


def listed(device: Device) -> Listed:
    return Listed(
        name=device.name, stage=device.stage, hidden=device.hidden, taken=bool(device.lease), facts=device.facts
    )


def failure(error: BaseException) -> dict[str, str]:
    """An error as it goes over a socket; `operator_link` makes the same one of it."""
    if isinstance(error, WhetError):
        return {"kind": type(error).__name__, "cause": error.cause, "cure": error.cure}
    if isinstance(error, Disturbed):
        return {"kind": "Disturbed", "cause": str(error), "cure": ""}
    raise error


def operator_app(hub: Hub) -> Starlette:
    async def devices(_: Request) -> Response:
        return Response(msgspec.json.encode([listed(device) for device in hub.present()]))

    async def take(request: Request) -> Response:
        name = request.path_params["name"]
        try:
            lease = hub.take(name)
        except WhetError as error:
            return Response(msgspec.json.encode(failure(error)), FAILED)
        return Response(msgspec.json.encode({"lease": lease, "device": listed(hub.named(name))}))

    async def give_back(request: Request) -> Response:
        hub.give_back(request.path_params["name"], (await request.body()).decode())
        return Response(status_code=204)

    async def ask(request: Request) -> Response:
        header, parts = wire.unpack(await request.body())
        asked = msgspec.convert(header, Asked)
        try:
            said, got, spent_ns = await hub.ask(
                asked.device, asked.lease, asked.command, parts, limit_s=asked.limit_s, expects=asked.expects
            )
        except (WhetError, Disturbed) as error:
            return Response(msgspec.json.encode(failure(error)), FAILED)
        told = {"spent_ns": spent_ns, "answer": msgspec.to_builtins(msgspec.structs.replace(said, parts=[]))}
        return Response(wire.pack(told, got), media_type=BINARY)

    return Starlette(
        routes=[
            Route("/devices", devices),
            Route("/devices/{name}/take", take, methods=["POST"]),
            Route("/devices/{name}/give-back", give_back, methods=["POST"]),
            Route("/ask", ask, methods=["POST"]),
        ]
    )
