"""A page without a browser: it speaks the page's side of the protocol and computes saxpy with numpy."""

from __future__ import annotations

import contextlib
import http.client
import json
import secrets
import threading
import time

import numpy as np

from whet.lab import wire

FACTS = {
    "agent": "simulated",
    "vendor": "none",
    "timestamps": False,
    "clock_step_ns": 5000,
    "limits": {},
    "features": [],
}


CALL_NS = 200_000


def post(port, path, header, parts=None, *, headers=None, body=None, timeout=60, context=None, host="127.0.0.1"):
    """Status and body of one request, sent as the page sends it unless `headers` and `body` say otherwise."""
    kind = http.client.HTTPSConnection if context else http.client.HTTPConnection
    more = {"context": context} if context else {}
    connection = kind(host, port, timeout=timeout, **more)
    try:
        sent = {"content-type": "application/octet-stream", **(headers or {})}
        packed = wire.pack(header, parts) if parts else _plain(header)
        connection.request("POST", f"/api/{path}", packed if body is None else body, sent)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def _plain(header):
    head = json.dumps(header).encode()
    return len(head).to_bytes(4, "little") + head


def saxpy(header, parts):
    """What a right device answers to any command."""
    if header["kind"] == "turn":
        # What it claims has passed: a device that says more than was seen from outside is refused.
        time.sleep(header["calls"] * CALL_NS / 1e9)
        read = {}
        for number in range(header["calls"] if header["arm"] != "(empty)" else 0):
            x, y = (np.frombuffer(parts[f"{number}/{name}"], np.uint32) for name in "xy")
            read[f"{number}/y"] = (3 * x.astype(np.uint64) + y).astype(np.uint32).tobytes()
        return {"walls_ns": [CALL_NS] * header["calls"]}, read
    if header["kind"] == "reference":
        return {"walls_ns": [100_000]}, {}
    if header["kind"] == "open":
        return {"facts": FACTS}, {}
    return {"compile_ns": 5, "first_ns": 7} if header["kind"] == "prepare" else {}, {}


class Page(threading.Thread):
    """Serves commands until `stop`. `compute(header, parts)` gives an answer and its parts, or raises `Closed`."""

    def __init__(self, port, name="simulated", compute=saxpy, *, token="", context=None, host="127.0.0.1", beat_s=0.0):
        super().__init__(daemon=True)
        self.port, self.name_wanted, self.compute, self.beat_s = port, name, compute, beat_s
        self.more = {"context": context, "host": host}
        self.token = {"authorization": f"Bearer {token}"} if token else {}
        self.identity = {"run": secrets.token_hex(16), "key": secrets.token_hex(16)}
        self.seat, self.device = "", ""
        self.stopped = threading.Event()
        self.statuses: list[int] = []
        self.beats = 0

    def hello(self, **more):
        said = {**self.identity, "name": self.name_wanted, "facts": FACTS, **more}
        status, body = post(self.port, "hello", said, headers=self.token, **self.more)
        if status == 200:
            told = json.loads(body)
            self.seat, self.device = told["seat"], told["name"]
        return status

    def next(self, header, parts=None):
        headers = {"x-whet-seat": self.seat, **self.token}
        return post(self.port, "next", {**header, "seat": self.seat}, parts, headers=headers, **self.more)

    def beat(self, **more):
        self.beats += 1
        return post(self.port, "beat", {"seat": self.seat, **more}, headers=self.token, **self.more)[0]

    def run(self):
        answer, parts = {}, {}
        beaten = time.monotonic()
        while not self.stopped.is_set():
            try:
                status, body = self.next(answer, parts)
            except (OSError, http.client.HTTPException):
                if self.stopped.wait(0.05):
                    return
                continue
            self.statuses.append(status)
            answer, parts = {}, {}
            if self.beat_s and time.monotonic() - beaten > self.beat_s:
                beaten = time.monotonic()
                self.beat(stage="running")
            if status == 200:
                header, given = wire.unpack(body)
                try:
                    told, parts = self.compute(header, given)
                except Closed:
                    return
                answer = {"ticket": header["ticket"], **told}
            elif status == 410:
                with contextlib.suppress(OSError):
                    self.hello()
            elif status >= 500:
                self.stopped.wait(0.05)
            elif status not in (204, 409):
                return

    def start(self):
        assert self.hello() == 200
        return self.run_without_hello()

    def run_without_hello(self):
        super().start()
        return self

    def stop(self):
        self.stopped.set()
        self.join(30)


class Closed(Exception):
    """The page is gone, without a word."""
