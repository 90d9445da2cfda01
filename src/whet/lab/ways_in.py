"""How a device reaches the server: this machine, USB, or the local network by https; links, code and token."""

from __future__ import annotations

import base64
import io
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec

from whet.errors import Unsupported

ADB_LIMIT_S = 20.0


def link(scheme: str, host: str, port: int, token: str = "", settings: Mapping[str, Any] | None = None) -> str:
    """The page's address. The token stands behind `#`, which no browser sends; settings travel as one `cfg`."""
    name = f"[{host}]" if ":" in host else host
    query = ""
    if settings:
        query = "?cfg=" + base64.urlsafe_b64encode(msgspec.json.encode(settings)).decode().rstrip("=")
    return f"{scheme}://{name}:{port}/{query}" + (f"#token={token}" if token else "")


def code(text: str) -> str:
    """A QR code for a terminal, in half blocks."""
    import segno

    drawn = io.StringIO()
    segno.make(text, error="m", micro=False).terminal(drawn, compact=True, border=2)
    return drawn.getvalue()


def _adb(*words: str) -> str:
    executable = shutil.which("adb")
    if executable is None:
        raise Unsupported("adb is not installed", cure="install the Android platform tools, or use --lan")
    try:
        done = subprocess.run([executable, *words], capture_output=True, text=True, timeout=ADB_LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        raise Unsupported("adb does not answer", cure="unplug the phone and plug it in again") from None
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
        raise Unsupported(f"adb {' '.join(words)}: {said[-1]}", cure="allow USB debugging on the phone")
    return done.stdout


@contextmanager
def usb(port: int) -> Iterator[list[str]]:
    """This machine's port on every phone that is plugged in, for as long as the context lasts; their serial numbers."""
    phones = [words[0] for line in _adb("devices").splitlines()[1:] if (words := line.split())[1:2] == ["device"]]
    if not phones:
        raise Unsupported("no phone is plugged in, or none allows USB debugging", cure="look at the phone's screen")
    there = f"tcp:{port}"
    for phone in phones:
        _adb("-s", phone, "reverse", there, there)
    try:
        yield phones
    finally:
        for phone in phones:
            try:
                _adb("-s", phone, "reverse", "--remove", there)
            except Unsupported:
                continue
