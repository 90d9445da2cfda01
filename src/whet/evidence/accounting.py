"""What comes out of a repeat, and whether a variant's clock may be believed.

The variant's process stamps its own clock; the parent stamps the messages around it. Both read the same system-wide
clock, so a claim must lie inside the span that the parent saw and must explain it, but for the cost of a message and
for the time that either process waited for a core, which the kernel counts.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import Any

import msgspec

from whet.protocol import Clock

CLOCK_REPEATS = 5
MESSAGE_COST_NS = 2_000_000
COPY_NS_PER_BYTE = 2
UNEXPLAINED_SHARE = 0.2
DEVICE_SHARE = 0.5
DEVICE_REPEATS = 3


class Claim(msgspec.Struct, kw_only=True):
    """What a variant's process says about one repeat. Decoded strictly: that process is not to be trusted."""

    start_ns: int
    stop_ns: int
    cpu_ns: int
    device_ns: int | None
    regions_ns: dict[str, int]
    patched: list[str]

    @property
    def wall_ns(self) -> int:
        return self.stop_ns - self.start_ns


@dataclass(frozen=True)
class Reading:
    """One green repeat."""

    calls: int
    wall_ns: int
    cpu_ns: int
    device_ns: int | None
    seed: int
    digest: str
    check: str


@dataclass(frozen=True)
class Red:
    """One refused repeat. `slot` says which call of a batch was wrong."""

    reason: str
    detail: str
    slot: int = 0
    expected: dict[str, Any] = field(default_factory=dict)
    got: dict[str, Any] = field(default_factory=dict)


@dataclass
class ClockTrack:
    """The claims of one variant on one case beside what the parent saw. `ping_ns` is the cost of an empty message."""

    ping_ns: int = 0
    copy_bytes: int = 0
    unexplained_ns: list[int] = field(default_factory=list)
    elapsed_ns: list[int] = field(default_factory=list)
    device_shares: list[float] = field(default_factory=list)
    outside: bool = False

    def heard(self, claim: Claim, sent_ns: int, heard_ns: int, waited_ns: int = 0) -> None:
        self.elapsed_ns.append(heard_ns - sent_ns)
        self.unexplained_ns.append(heard_ns - sent_ns - claim.wall_ns - waited_ns)
        self.outside = not sent_ns <= claim.start_ns <= claim.stop_ns <= heard_ns

    def complaint(self, claim: Claim, clock: Clock) -> Red | None:
        """Why the claim that was heard last cannot be believed; None if it can."""
        if claim.patched:
            return Red("timer patched", f"time.{claim.patched[0]} was replaced in the variant's process")
        if self.outside:
            return Red("timer patched", "the variant's time stamps lie outside the span in which it ran")
        if len(self.unexplained_ns) >= CLOCK_REPEATS:
            # The quietest quarter: a liar hides time in every repeat, a busy machine only in some.
            unexplained = statistics.quantiles(self.unexplained_ns, n=4)[0]
            elapsed = statistics.median(self.elapsed_ns)
            overhead = MESSAGE_COST_NS + 4 * self.ping_ns + COPY_NS_PER_BYTE * self.copy_bytes
            if unexplained > overhead + UNEXPLAINED_SHARE * elapsed:
                hidden, whole = f"{unexplained / 1e6:.2f}", f"{elapsed / 1e6:.2f}"
                return Red("timer patched", f"{hidden} ms of {whole} ms lie outside the claimed time")
        return self._device_complaint(claim) if clock == "device" else None

    def _device_complaint(self, claim: Claim) -> Red | None:
        if claim.device_ns is None:
            return Red("no device clock", "the engine reports no device time; compare with --clock wall")
        self.device_shares.append(claim.device_ns / max(1, claim.wall_ns))
        share = statistics.median(self.device_shares)
        # The median: a host that was kept waiting once has not done the device's work.
        if claim.device_ns > claim.wall_ns or (len(self.device_shares) >= DEVICE_REPEATS and share < DEVICE_SHARE):
            return Red(
                "host work",
                f"the device clock explains {claim.device_ns / 1e6:.3f} of {claim.wall_ns / 1e6:.3f} ms on the wall: "
                "either work is done on the host, or the case is too small for this clock; compare with --clock wall",
            )
        return None
