"""Opens devices: an adapter that grants the limits, with a driver that can be believed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from whet.errors import BadInput, Unsupported, WhetError
from whet.gpu.adapter import BROWSER_FLOOR, AdapterInfo, adapters, choose_adapter
from whet.gpu.device import TIME_LIMIT_S, Device
from whet.gpu.faults import translate
from whet.gpu.trust import Complaint, examine, require_good_driver


def open_device(
    adapter: str | None = None,
    *,
    limits: Mapping[str, int] | None = None,
    features: Sequence[str] = ("timestamp-query",),
    debug: bool = False,
    time_limit_s: float = TIME_LIMIT_S,
    believe: bool = False,
) -> Device:
    """Opens the best adapter, or the one named. `limits` raises single limits above the browser's floor.

    A submission that takes longer than `time_limit_s` raises DeviceTimeout, and the device is given up. A driver that
    computes wrong answers is refused; with `believe` it is not asked.
    """
    info, handle = choose_adapter(adapter)
    wanted = {**BROWSER_FLOOR, **(limits or {})}
    for name, value in wanted.items():
        if name not in info.limits:
            raise BadInput(f"there is no limit {name!r}", cure="see `whet doctor --json` for the names")
        if value > info.limits[name]:
            raise Unsupported(
                f"{info.key} grants {name} = {info.limits[name]:,}, {value:,} are needed",
                cure="choose another adapter or a variant that presses less on this limit",
            )
    try:
        granted = [name for name in features if name in info.features]
        device = handle.request_device_sync(required_limits=wanted, required_features=granted)
    except Exception as error:
        raise translate(error, doing=f"opening {info.key}") from error
    opened = Device(info, device, debug=debug, time_limit_s=time_limit_s)
    if not believe:
        try:
            require_good_driver(opened)
        except BaseException:
            opened.close()
            raise
    return opened


def survey() -> list[tuple[AdapterInfo, list[Complaint]]]:
    """Every adapter of this machine with what its driver gets wrong."""
    found = []
    for info, _ in adapters():
        try:
            with open_device(info.key, believe=True) as device:
                complaints = examine(device)
        except WhetError as error:
            complaints = [Complaint(error.cause, error.cure)]
        found.append((info, complaints))
    return found
