"""Which GPU adapter a run is made on, and whether its driver may be believed. Only `webgpu` devices have one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import msgspec

from whet.errors import DeviceLost, DeviceTimeout, Unsupported
from whet.protocol import Engine, Variant

ANSWER_LIMIT_S = 120


def identify(device: str) -> dict[str, Any]:
    """The facts about the adapter behind `webgpu` or `webgpu:<key>`; nothing for other devices.

    A driver that computes wrong answers is refused here, before any variant runs on it.
    """
    kind, _, key = device.partition(":")
    # The loader's variables choose the driver, so an answer holds for them only.
    chosen = tuple(os.environ.get(name) for name in ("VK_ICD_FILENAMES", "VK_DRIVER_FILES", "WHET_CACHE"))
    return _ask(key, chosen) if kind == "webgpu" else {}


def adapter_of(engine: Engine, variants: Sequence[Variant], device: str) -> dict[str, Any]:
    """The adapter that any of the variants runs on; nothing if all stay off the GPU."""
    places = {engine.device_of(variant, device) for variant in variants if not variant.file} | {device}
    return next((facts for place in sorted(places, reverse=True) if (facts := identify(place))), {})


def reachable(engine: Engine, device: str | None) -> tuple[list[str], dict[str, Unsupported]]:
    """The variants whose device is on this machine, and why the others have none."""
    names, missing = [], {}
    for spec in engine.variants():
        try:
            identify(engine.device_of(Variant(spec.name), device or engine.devices[0]))
            names.append(spec.name)
        except Unsupported as error:
            missing[spec.name] = error
    return names, missing


@lru_cache(maxsize=8)
def _ask(key: str, chosen: tuple[str | None, ...]) -> dict[str, Any]:
    command = [sys.executable, "-m", "whet.gpu.identity", *([key] if key else [])]
    try:
        done = subprocess.run(command, capture_output=True, timeout=ANSWER_LIMIT_S, check=True)
        answer = msgspec.json.decode(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        raise DeviceTimeout(f"the driver did not answer within {ANSWER_LIMIT_S} s", cure="update the driver") from None
    except (subprocess.CalledProcessError, msgspec.DecodeError, IndexError) as error:
        said = getattr(error, "stderr", b"").decode(errors="replace").strip().splitlines()[-1:] or [str(error)]
        raise DeviceLost(f"the driver took its process down: {said[0]}", cure="update the driver") from None
    if failed := answer.get("error"):
        raise Unsupported(failed["cause"], cure=failed["cure"])
    if complaints := answer["complaints"]:
        raise Unsupported(f"the gate refuses this driver: {complaints[0]['cause']}", cure=complaints[0]["cure"])
    adapter: dict[str, Any] = answer["adapter"]
    return adapter
