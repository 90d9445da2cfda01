"""The one form in which anything travels between page, server and command line, and the records that pages may send.

A body is a length (32 bits, little-endian), a header in JSON of that length, and the bytes of its parts back to back;
`parts` in the header names each with its size. Nothing is base64. What comes from a page is decoded strictly or not at
all.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from whet.errors import BadInput

_HEAD = struct.Struct("<I")
HEADER_LIMIT_BYTES = 1 << 20
MOST_PARTS = 65536

Short = Annotated[str, msgspec.Meta(max_length=64)]
Line = Annotated[str, msgspec.Meta(max_length=400)]
Secret = Annotated[str, msgspec.Meta(min_length=16, max_length=64, pattern=r"^[0-9a-f]+\Z")]
# Words of a command, of which none can be a path, an option or another revision.
EngineWord = Annotated[str, msgspec.Meta(max_length=32, pattern=r"^[a-z][a-z0-9_]*\Z")]
VariantWord = Annotated[str, msgspec.Meta(max_length=64, pattern=r"^[a-z][a-z0-9_]*(:[a-z0-9_]+=[a-z0-9_,=]+)?\Z")]
SizeWord = Annotated[str, msgspec.Meta(max_length=9, pattern=r"^(2\^[0-9]{1,2}|[1-9][0-9]*)\Z")]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class Sent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of what a page sends."""


class Facts(Sent, frozen=True, kw_only=True):
    """What a device is, by its own word."""

    agent: Line = ""
    vendor: Line = ""
    architecture: Line = ""
    device: Line = ""
    description: Line = ""
    fallback: bool = False
    timestamps: bool = False
    isolated: bool = False
    clock_step_ns: Count = 0
    features: Annotated[list[Short], msgspec.Meta(max_length=100)] = []
    limits: Annotated[dict[Short, Count], msgspec.Meta(max_length=100)] = {}


class Wish(Sent, frozen=True, kw_only=True):
    """What the address of a page asks to be compared on it as soon as it is there."""

    engine: EngineWord = "msm"
    variants: Annotated[list[VariantWord], msgspec.Meta(min_length=1, max_length=16)]
    n: SizeWord


class Hello(Sent, frozen=True, kw_only=True):
    """The first word of a page. `run` and `key` stay over reloads; `crashed` is what ran when the page died."""

    run: Secret
    key: Secret
    name: Short = ""
    facts: Facts
    crashed: Short = ""
    wish: Wish | None = None


class Seated(msgspec.Struct, frozen=True, kw_only=True):
    """The server's answer to a hello."""

    name: str
    seat: str


class Beat(Sent, frozen=True, kw_only=True):
    """A sign of life: what the page is doing, by which ticket, whether it is hidden, and whether it leaves."""

    seat: Secret
    ticket: Secret | None = None
    stage: Line = ""
    hidden: bool = False
    leaves: bool = False


class Fault(Sent, frozen=True, kw_only=True):
    """What went wrong on the device, in the words of the runner."""

    kind: Short
    message: Annotated[str, msgspec.Meta(max_length=4000)] = ""
    kernel: Short | None = None
    line: Count | None = None
    number: Count | None = None


class Answer(Sent, frozen=True, kw_only=True):
    """What became of a command. `walls` has the wall time of each call, `passes` what the device's clock said."""

    seat: Secret
    ticket: Secret | None = None
    parts: Annotated[list[tuple[Line, Count]], msgspec.Meta(max_length=MOST_PARTS)] = []
    fault: Fault | None = None
    facts: Facts | None = None
    hidden: bool = False
    compile_ns: Count = 0
    first_ns: Count = 0
    walls_ns: Annotated[list[Count], msgspec.Meta(max_length=4096)] = []
    device_ns: Count | None = None
    regions_ns: Annotated[dict[Line, Count], msgspec.Meta(max_length=4096)] = {}
    log: Annotated[list[Line], msgspec.Meta(max_length=50)] = []


def pack(header: Mapping[str, Any], parts: Mapping[str, bytes] | None = None) -> bytes:
    """One body. The header must not name parts itself."""
    parts = parts or {}
    head = msgspec.json.encode({**header, "parts": [(name, len(data)) for name, data in parts.items()]})
    return b"".join([_HEAD.pack(len(head)), head, *parts.values()])


def split(body: bytes) -> tuple[bytes, memoryview]:
    """Header and the rest; BadInput where the body is not even that."""
    view = memoryview(body)
    if len(view) < _HEAD.size:
        raise BadInput("a body without a header", cure="send the length of the header first")
    (size,) = _HEAD.unpack(view[: _HEAD.size])
    if size > HEADER_LIMIT_BYTES or _HEAD.size + size > len(view):
        raise BadInput("a header that does not fit its body", cure="send the length of the header first")
    return bytes(view[_HEAD.size : _HEAD.size + size]), view[_HEAD.size + size :]


def take_apart(parts: list[tuple[str, int]], rest: memoryview) -> dict[str, bytes]:
    """The parts by name; their sizes must be those of the bytes that came, to the byte."""
    if sum(size for _, size in parts) != len(rest) or len({name for name, _ in parts}) != len(parts):
        raise BadInput("parts that are not what the header says", cure="send every part once, with its size")
    found, at = {}, 0
    for name, size in parts:
        found[name] = bytes(rest[at : at + size])
        at += size
    return found


def unpack(body: bytes) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Header and parts of a body from the other end of the same program."""
    head, rest = split(body)
    try:
        header = msgspec.json.decode(head, type=dict[str, Any])
        parts = [(str(name), int(size)) for name, size in header.pop("parts", [])]
    except (msgspec.MsgspecError, ValueError, TypeError) as error:
        raise BadInput(f"a header that is none: {error}", cure="send JSON") from error
    return header, take_apart(parts, rest)
