"""The WebGPU substrate: adapters, devices with the browser's limits, buffers with a ledger, passes with timestamps.

It knows no engine. What runs on a device opened here with the default limits runs in a browser as well.
"""

from whet.gpu.adapter import AdapterInfo, adapters, choose_adapter
from whet.gpu.device import Buffer, Device
from whet.gpu.ledger import Ledger
from whet.gpu.opening import open_device
from whet.gpu.program import Clear, Copy, Kernel, Pass, Program, Span, Step, Write

__all__ = [
    "AdapterInfo",
    "Buffer",
    "Clear",
    "Copy",
    "Device",
    "Kernel",
    "Ledger",
    "Pass",
    "Program",
    "Span",
    "Step",
    "Write",
    "adapters",
    "choose_adapter",
    "open_device",
]
