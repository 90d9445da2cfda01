"""`--device webdriver:URL`: a browser behind a WebDriver server, by the W3C protocol: a grid, a farm, Appium.

Three requests suffice: a session, an address to open, the end of the session. The page does the rest.
"""

from __future__ import annotations

import json
import os
import secrets
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from whet.errors import BadInput, DeviceTimeout, Unsupported
from whet.lab.certificate import likeliest_address, make_certificate
from whet.lab.chromium import CONNECT_LIMIT_S, NEAR, LocalLink, own_flags
from whet.lab.device import LabDevice
from whet.lab.guard import LOOPBACK
from whet.lab.hub import Patience
from whet.lab.serving import LabServer
from whet.lab.ways_in import link

CAPABILITIES = "WHET_WEBDRIVER_CAPABILITIES"
ANSWER_LIMIT_S = 120.0
MOST_BYTES = 1 << 20


@contextmanager
def open_webdriver(url: str) -> Iterator[LabDevice]:
    """A server that the browser can reach, a session that opens its page, and the device that it is."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadInput(f"{url!r} is no address of a WebDriver server", cure="write webdriver:http://127.0.0.1:9515")
    near = parts.hostname in LOOPBACK
    with ExitStack() as stack:
        server, page = _server(stack, near)
        session = stack.enter_context(_session(url, near))
        _ask(f"{url.rstrip('/')}/session/{session}/url", {"url": page})
        try:
            device = server.call(server.hub.arrived("", CONNECT_LIMIT_S))
        except DeviceTimeout:
            raise Unsupported(
                f"the page did not come up in the browser of {url}: it cannot reach {urlsplit(page).netloc}, or has no "
                "WebGPU",
                cure=f"look at its screen; {CAPABILITIES} may name another browser or its flags",
            ) from None
        local = LocalLink(server, device.name)
        stack.callback(local.close)
        yield LabDevice(local, "webdriver")


def _server(stack: ExitStack, near: bool) -> tuple[LabServer, str]:
    """For a driver on this machine by localhost, for any other by https with a token."""
    patience, settings = Patience(first_s=60.0, stall_s=60.0), {"name": "webdriver"}
    if near:
        server = stack.enter_context(LabServer(patience=NEAR))
        return server, link("http", "localhost", server.port, settings=settings)
    address, token = likeliest_address(), secrets.token_urlsafe(24)
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="whet-lab-")))
    made = make_certificate(folder, [address, "localhost"])
    pair = (made.certificate, made.key)
    server = stack.enter_context(
        LabServer(host=address, hosts=[address], token=token, certificate=pair, patience=patience)
    )
    # Farms that cut an address at `#` or `&` leave one parameter whole.
    return server, link("https", address, server.port, settings={**settings, "token": token})


@contextmanager
def _session(url: str, near: bool) -> Iterator[str]:
    wanted = os.environ.get(CAPABILITIES)
    try:
        match: dict[str, Any] = json.loads(wanted) if wanted else _own(near)
    except ValueError as error:
        raise BadInput(f"{CAPABILITIES} is not JSON: {error}", cure="write the object of alwaysMatch") from error
    made = _ask(f"{url.rstrip('/')}/session", {"capabilities": {"alwaysMatch": {"acceptInsecureCerts": True, **match}}})
    session = made.get("sessionId")
    if not isinstance(session, str) or not session.replace("-", "").isalnum():
        raise Unsupported(f"{url} gave no session", cure="look at the log of the WebDriver server")
    try:
        yield session
    finally:
        with suppress(Unsupported):
            _ask(f"{url.rstrip('/')}/session/{session}", None, "DELETE")


def _own(near: bool) -> dict[str, Any]:
    """Chromium as `--device browser` starts it, where the driver is on this machine; anything elsewhere."""
    return {"browserName": "chrome", "goog:chromeOptions": {"args": own_flags()}} if near else {}


def _ask(url: str, body: dict[str, Any] | None, method: str = "POST") -> dict[str, Any]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json; charset=utf-8"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=ANSWER_LIMIT_S) as answer:
            said = json.loads(answer.read(MOST_BYTES))
    except urllib.error.HTTPError as error:
        try:
            why = str(json.loads(error.read(MOST_BYTES))["value"]["message"]).splitlines()[0]
        except (ValueError, KeyError, TypeError, IndexError):
            why = str(error)
        raise Unsupported(f"the WebDriver server refuses: {why}", cure=f"see {CAPABILITIES} in docs/lab.md") from None
    except (OSError, ValueError) as error:
        raise Unsupported(
            f"no WebDriver server answers at {url}: {error}", cure="start it, for example chromedriver"
        ) from None
    value = said.get("value") if isinstance(said, dict) else None
    return value if isinstance(value, dict) else {}
