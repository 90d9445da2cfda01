"""Every byte a device allocates, by name. A closed-form memory map is checked against it: nothing may bypass it."""

from __future__ import annotations

from dataclasses import dataclass, field

from whet.errors import BadInput


@dataclass
class Ledger:
    """Live and peak bytes. One device owns one ledger; names are unique among live buffers."""

    live: dict[str, int] = field(default_factory=dict)
    live_bytes: int = 0
    peak_bytes: int = 0
    peak: dict[str, int] = field(default_factory=dict)
    allocations: int = 0

    def add(self, name: str, size_bytes: int) -> None:
        if name in self.live:
            raise BadInput(f"a buffer named {name!r} is live already", cure="release it first or use another name")
        self.live[name] = size_bytes
        self.live_bytes += size_bytes
        self.allocations += 1
        if self.live_bytes > self.peak_bytes:
            self.peak_bytes = self.live_bytes
            self.peak = dict(self.live)

    def remove(self, name: str) -> None:
        self.live_bytes -= self.live.pop(name)
