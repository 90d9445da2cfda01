"""What the server refuses, and that it is alive and unharmed afterwards."""

from __future__ import annotations

import http.client
import json
import os
import random
import secrets
import socket
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from simulated import FACTS, Page, post

from whet.errors import BadInput
from whet.lab import wire
from whet.lab.guard import SMALL_BODY_BYTES
from whet.lab.serving import LabServer, PatientProtocol

JUNK_REQUESTS = int(os.environ.get("WHET_JUNK_REQUESTS", "400"))
ANYTHING = st.recursive(
    st.none() | st.integers() | st.text(), lambda c: st.lists(c) | st.dictionaries(st.text(), c), max_leaves=8
)
HELLO = {"run": "ab" * 16, "key": "cd" * 16, "name": "one", "facts": FACTS}


def framed(value):
    head = json.dumps(value).encode()
    return len(head).to_bytes(4, "little") + head


@pytest.fixture(scope="module")
def server():
    with LabServer(poll_s=0.05) as started:
        # Only the rates are tested on their own: everything else comes faster than any page.
        started.pages._hellos.per_s = started.pages._hellos.burst = 1e9
        started.pages._rate.per_s = started.pages._rate.burst = 1e9
        yield started


@pytest.fixture
def alive(server):
    yield
    page = Page(server.port, "afterwards")
    assert page.hello() == 200 and page.next({})[0] == 204


def get(server, path, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    try:
        connection.putrequest("GET", path, skip_host="host" in headers)
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        connection.close()


def test_the_page_comes_with_its_armour(server):
    status, headers, body = get(server, "/")
    assert status == 200 and b"whet" in body
    assert headers["cross-origin-opener-policy"] == "same-origin"
    assert headers["cross-origin-embedder-policy"] == "require-corp"
    assert "default-src 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    sizes = [len(get(server, path)[2]) for path in server.pages.files if path != "/"]
    assert sum(sizes) < 100_000


@pytest.mark.parametrize(
    "path",
    [
        "/../pyproject.toml",
        "/..%2f..%2fapp.py",
        "/%2e%2e/app.py",
        "/page/../app.py",
        "//etc/passwd",
        "/app.py",
        "/index.html/../../wire.py",
        "/main.js%00.html",
    ],
)
def test_files_come_from_a_table_and_nowhere_else(server, path, alive):
    assert get(server, path)[0] in (400, 404)


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "[", "a" * 300])
def test_names_that_are_not_ours_are_refused(server, host, alive):
    """A name that somebody's name server points here makes the browser believe that page and server are one."""
    assert get(server, "/", host=host)[0] in (400, 421)
    assert post(server.port, "hello", HELLO, headers={"host": host})[0] in (400, 421)


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://localhost:1"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"content-type": "text/plain"},
        {"content-type": "application/x-www-form-urlencoded"},
    ],
)
def test_pages_from_elsewhere_are_refused(server, headers, alive):
    assert post(server.port, "hello", HELLO, headers=headers)[0] in (403, 415)


def test_bodies_that_are_none(server, alive):
    head = json.dumps(HELLO).encode()
    bodies = [
        b"",
        b"\x00",
        b"\xff" * 4,
        (2**31).to_bytes(4, "little") + b"{}",
        (2).to_bytes(4, "little") + b"{",
        (2).to_bytes(4, "little") + b"\xff\xfe",
        (len(head) + 5).to_bytes(4, "little") + head,
        (60000).to_bytes(4, "little") + b"[" * 60000,
    ]
    for body in bodies:
        assert post(server.port, "hello", {}, body=body)[0] == 400
    for wrong in (
        {**HELLO, "more": 1},
        {**HELLO, "run": "../../x"},
        {**HELLO, "run": "AB" * 16},
        {**HELLO, "name": "x" * 65},
        {**HELLO, "facts": {**FACTS, "limits": {"a": -1}}},
        {**HELLO, "facts": {**FACTS, "features": ["x"] * 101}},
        {"run": HELLO["run"]},
        [],
    ):
        assert post(server.port, "hello", wrong)[0] == 400


def test_bodies_beyond_what_was_asked_for(server, alive):
    assert post(server.port, "hello", {}, body=b"x" * (SMALL_BODY_BYTES + 1))[0] == 413
    page = Page(server.port)
    page.hello()
    assert page.next({}, {"0/y": bytes(SMALL_BODY_BYTES)})[0] == 413
    # Without a length the bytes are counted as they come.
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    kind = {"content-type": "application/octet-stream"}
    connection.request("POST", "/api/hello", iter([b"x" * 50_000] * 3), kind, encode_chunked=True)
    assert connection.getresponse().status == 413


def test_nobody_takes_the_place_of_another(server, alive):
    page = Page(server.port)
    assert page.hello() == 200
    thief = Page(server.port)
    thief.identity = {"run": page.identity["run"], "key": secrets.token_hex(16)}
    assert thief.hello() == 403
    thief.seat = secrets.token_hex(16)
    assert thief.beat() == 410 and thief.next({})[0] == 410
    assert page.next({})[0] == 204


def test_answers_to_other_questions_are_refused(server, alive):
    """What a page sends for another round's inputs, once more, or unasked."""
    from whet.lab.chromium import LocalLink

    seen = {}

    def compute(header, parts):
        ticket = header["ticket"]
        if "first" in seen:
            unasked = secrets.token_hex(16)
            seen["unasked"] = page.next({"ticket": unasked, "walls_ns": [1]})[0]
            seen["other parts"] = page.next({"ticket": ticket, "parts": [["0/y", 5]]})[0]
        seen.setdefault("first", ticket)
        return {"walls_ns": [len(seen)]}, {}

    page = Page(server.port, "answers", compute).start()
    link = LocalLink(server, page.device)
    assert link.ask({"kind": "reference"}, {}, limit_s=20)[0].walls_ns == [1]
    # The first one once more: heard, and nothing comes of it.
    assert page.next({"ticket": seen["first"], "walls_ns": [99]})[0] in (200, 204)
    assert link.ask({"kind": "reference"}, {}, limit_s=20)[0].walls_ns != [99]
    assert (seen["unasked"], seen["other parts"]) == (409, 400)
    page.stop()


def test_too_many_requests():
    with LabServer(poll_s=0.01) as server:
        page = Page(server.port)
        page.hello()
        statuses = [post(server.port, "hello", {}, body=b"x")[0] for _ in range(70)]
        assert statuses.count(429) >= 5 and statuses[0] == 400
        # Whoever is seated does not pay for it.
        assert page.beat() == 204


def test_answers_are_sent_without_delay(monkeypatch):
    """Head and body are two writes: with delay, the second waits for the other side's acknowledgement of the first."""
    seen, made = [], PatientProtocol.connection_made

    def look(self, transport):
        made(self, transport)
        seen.append(transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

    monkeypatch.setattr(PatientProtocol, "connection_made", look)
    with LabServer(poll_s=0.01) as server:
        assert Page(server.port).hello() == 200
    assert seen and all(seen)


def test_slow_clients_are_not_waited_for(server, monkeypatch, alive):
    monkeypatch.setattr("whet.lab.serving.HEAD_LIMIT_S", 0.3)
    monkeypatch.setattr("whet.lab.guard.BODY_LIMIT_S", 0.3)
    monkeypatch.setattr("whet.lab.guard.LEAST_BYTES_PER_S", 1e9)
    with socket.create_connection(("127.0.0.1", server.port), 20) as slow:
        slow.sendall(b"POST /api/hello HTTP/1.1\r\nHost: localhost\r\n")
        assert slow.recv(100) == b""
    with socket.create_connection(("127.0.0.1", server.port), 20) as slow:
        head = b"POST /api/hello HTTP/1.1\r\nHost: localhost\r\ncontent-type: application/octet-stream\r\n"
        slow.sendall(head + b"content-length: 1000\r\n\r\nabc")
        assert b"408" in slow.recv(1000)


def test_the_network_needs_a_token():
    with pytest.raises(BadInput, match="token"):
        LabServer(host="0.0.0.0")


def test_a_token_in_its_place_and_nowhere_else():
    token = secrets.token_urlsafe(24)
    with LabServer(token=token, poll_s=0.05) as server:
        right = Page(server.port, token=token)
        assert right.hello() == 200 and right.next({})[0] == 204
        for wrong in ("", token[:-1], token + "x", token.upper(), "é"):
            headers = {"authorization": f"Bearer {wrong}".encode("latin-1", "replace").decode("latin-1")}
            assert post(server.port, "hello", HELLO, headers=headers)[0] == 401
        assert post(server.port, "hello", HELLO, headers={"authorization": token})[0] == 401
        assert post(server.port, "hello", HELLO, headers={"cookie": f"token={token}"})[0] == 401
        assert post(server.port, f"hello?token={token}", HELLO)[0] == 401
        assert post(server.port, "hello", {**HELLO, "token": token})[0] == 401


def test_junk(server, alive, tried):
    """Random methods, paths, headers and bodies over one connection after another; `make soak` sends 10,000."""
    rng = random.Random(7)
    before = time.monotonic()
    for _ in range(JUNK_REQUESTS):
        method = rng.choice(["GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD", "PATCH", "BREW"])
        path = rng.choice(["/", "/api/hello", "/api/next", "/api/beat", "/" + rng.randbytes(8).hex(), "*", "http://x/"])
        body = rng.randbytes(rng.choice([0, 1, 4, 100, 5000]))
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
        headers = {"content-type": rng.choice(["application/octet-stream", "text/html", ""]), "x-whet-seat": "junk"}
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        allowed = {200} if path == "/" and method in ("GET", "HEAD") else set()
        assert answer.status in allowed | {400, 403, 404, 405, 408, 413, 415, 421, 429}, (method, path)
        answer.read()
        connection.close()
    with socket.create_connection(("127.0.0.1", server.port), 20) as raw:
        raw.sendall(rng.randbytes(2000))
        raw.recv(1000)
    assert time.monotonic() > before
    tried("junk requests refused", JUNK_REQUESTS)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=st.binary(max_size=300) | ANYTHING.map(framed))
def test_whatever_is_no_record_is_refused(body):
    """The decoders themselves, without a network in between."""
    from whet.lab.app import _decoded
    from whet.lab.hub import Refused

    for kind in (wire.Hello, wire.Beat, wire.Answer):
        with pytest.raises(Refused) as refused:
            _decoded(body, kind)
        assert refused.value.status == 400
