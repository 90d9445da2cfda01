"""`python -m whet.gpu.identity [KEY]` prints, as JSON, what an adapter is and what its driver gets wrong.

It is asked in a process of its own: loading a driver costs seconds and can crash.
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Any

import msgspec

from whet.errors import WhetError
from whet.gpu.adapter import BROWSER_FLOOR, AdapterInfo
from whet.gpu.opening import open_device
from whet.gpu.trust import examine


def facts(info: AdapterInfo) -> dict[str, Any]:
    """What is stored with a run. Of the limits only those that a program can press on."""
    return {
        "key": info.key,
        "device": info.name,
        "driver": info.driver,
        "backend": info.backend,
        "type": info.kind,
        "software": info.software,
        "features": list(info.features),
        "limits": {name: info.limits[name] for name in BROWSER_FLOOR if name in info.limits},
    }


def identity(key: str | None) -> dict[str, Any]:
    """The facts with complaints, or the error that opening it gave."""
    try:
        with open_device(key, believe=True) as device:
            return {"adapter": facts(device.info), "complaints": [asdict(one) for one in examine(device)]}
    except WhetError as error:
        return {"error": {"cause": error.cause, "cure": error.cure}}


if __name__ == "__main__":
    key = sys.argv[1] if len(sys.argv) > 1 else None
    sys.stdout.buffer.write(msgspec.json.encode(identity(key)) + b"\n")
