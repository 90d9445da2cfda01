"""Who is connected, what each device is asked, and what came back. One event loop owns all of it.

A device has at most one command at a time, under a ticket that nobody can guess and that answers it once. Whoever asks
holds the device by a lease. A device that falls silent is given up by a watchdog: before its first sign after a
command, when its signs stop, or at the command's deadline. While its tab is hidden only the last one rests.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import re
import secrets
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from whet.errors import BadInput, DeviceError, DeviceGone, DeviceLost, DeviceTimeout, Unsupported
from whet.evidence.elsewhere import Disturbed
from whet.lab import wire
from whet.lab.wire import Answer, Beat, Facts, Hello, Seated, Wish

log = logging.getLogger("whet.lab")

MOST_DEVICES = 256
POLL_S = 20.0
LEASE_S = 120.0
TICK_S = 0.25
# A tick that is late by more says that this process did not run.
LATE_S = 1.0


@dataclass(frozen=True)
class Patience:
    """How long a device may be silent, in seconds: before its first sign, between two, and after it said goodbye.

    `stuck_s` is what a page that shows signs gets on top of `first_s` to take the next command.
    """

    first_s: float = 30.0
    stuck_s: float = 60.0
    stall_s: float = 30.0
    leave_s: float = 10.0
    hidden_s: float = 600.0
    idle_s: float = 120.0


def span_ns() -> int:
    """A clock for spans that a page measures as well: it goes on while this machine sleeps, where there is one."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic_ns()


class Refused(Exception):
    """A request that is not obeyed: an HTTP status and what to say."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status, self.why = status, why


@dataclass
class Command:
    """One thing a device is asked to do. `expects` is how many bytes its answer may have beyond its header."""

    ticket: str
    kind: str
    arm: str
    body: bytes
    expects: int
    limit_s: float
    future: asyncio.Future[tuple[Answer, dict[str, bytes], int]]
    asked_at: float
    sent_ns: int = 0
    taken_at: float = 0.0
    paused_s: float = 0.0


@dataclass
class Device:
    """One page. `seat` changes with every load of it, so that only the latest one is heard."""

    name: str
    run: str
    key: str
    seat: str
    facts: Facts
    seen_at: float
    stage: str = "connected"
    hidden: bool = False
    leaving_at: float = 0.0
    loads: int = 1
    command: Command | None = None
    # Of the last few: a page that did not hear that it was heard sends its answer again.
    answered: deque[str] = field(default_factory=lambda: deque(maxlen=16))
    lease: str = ""
    leased_at: float = 0.0
    wish: Wish | None = None
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    log: list[str] = field(default_factory=list)


class Hub:
    """All devices of one server. Every method runs on the server's loop."""

    def __init__(self, patience: Patience | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.devices: dict[str, Device] = {}
        self.patience = patience or Patience()
        self.clock = clock
        self.refusals = 0
        self._by_seat: dict[str, Device] = {}
        # Seats of pages that were loaded again since.
        self._left: deque[str] = deque(maxlen=4 * MOST_DEVICES)
        self._arrival = asyncio.Event()

    def hello(self, said: Hello) -> Seated:
        """A new device, or one whose page was loaded again."""
        self._forget_the_absent()
        known = next((one for one in self.devices.values() if one.run == said.run), None)
        if known is not None:
            if not hmac.compare_digest(known.key, said.key):
                raise Refused(403, "this page belongs to somebody else")
            return self._again(known, said)
        if len(self.devices) >= MOST_DEVICES:
            raise Refused(503, f"{MOST_DEVICES} devices are connected, which is all there is room for")
        seat = secrets.token_hex(16)
        device = Device(self._free_name(said), said.run, said.key, seat, said.facts, self.clock(), wish=said.wish)
        self.devices[device.name] = self._by_seat[seat] = device
        log.info("%s connected: %s", device.name, said.facts.agent)
        self._arrival.set()
        return Seated(name=device.name, seat=seat)

    def beat(self, said: Beat) -> bool:
        """Takes a sign of life; whether what the page says it is doing is still wanted."""
        device = self._seated(said.seat)
        self._sign(device, said.stage or device.stage, hidden=said.hidden)
        if said.leaves:
            device.leaving_at = self.clock()
        wanted = device.command.ticket if device.command is not None else ""
        return said.ticket is None or said.ticket in device.answered or hmac.compare_digest(wanted, said.ticket)

    def room_for(self, seat: str) -> int:
        """How many bytes this page may send now beyond a header."""
        device = self._by_seat.get(seat)
        return device.command.expects if device is not None and device.command is not None else 0

    def answer(self, said: Answer, rest: memoryview) -> None:
        """Takes an answer to the present command. One that came before is heard once and then ignored."""
        device = self._seated(said.seat)
        self._sign(device, device.stage, hidden=said.hidden)
        if said.ticket is None or said.ticket in device.answered:
            return
        command = device.command
        if command is None or not hmac.compare_digest(command.ticket, said.ticket):
            raise Refused(409, "this is the answer to another question")
        try:
            parts = wire.take_apart(said.parts, rest)
        except BadInput as error:
            raise Refused(400, error.cause) from error
        device.log = [*device.log, *said.log][-200:]
        device.answered.append(said.ticket)
        device.command = None
        if said.facts is not None:
            device.facts = said.facts
        if not command.future.done():
            command.future.set_result((said, parts, span_ns()))

    async def next(self, seat: str, wait_s: float = POLL_S) -> bytes | None:
        """The command for this page, as soon as there is one; None if there is none for a while."""
        device = self._seated(seat)
        deadline = self.clock() + wait_s
        while True:
            self._sign(device, device.stage, hidden=device.hidden)
            if device.command is not None:
                device.command.taken_at = device.command.taken_at or self.clock()
                device.command.sent_ns = device.command.sent_ns or span_ns()
                return device.command.body
            left = deadline - self.clock()
            if left <= 0:
                return None
            device.wake.clear()
            try:
                await asyncio.wait_for(device.wake.wait(), left)
            except TimeoutError:
                return None
            device = self._seated(seat)

    def take(self, name: str) -> str:
        """A lease on a device, by its name."""
        device = self.named(name)
        if device.lease and self.clock() - device.leased_at < LEASE_S:
            raise DeviceError(f"{name} is taken by another run", cure="wait until it is done, or take another device")
        device.lease, device.leased_at = secrets.token_hex(16), self.clock()
        return device.lease

    def give_back(self, name: str, lease: str) -> None:
        device = self.devices.get(name)
        if device is not None and hmac.compare_digest(device.lease, lease):
            device.lease = ""
            self._drop_command(device)

    def next_wish(self) -> tuple[str, Wish] | None:
        """A device that nobody uses and what its address asked for; it is told once."""
        for device in self.present():
            if device.wish is not None and not device.lease:
                wish, device.wish = device.wish, None
                return device.name, wish
        return None

    def named(self, name: str) -> Device:
        device = self.devices.get(name)
        if device is None:
            offer = ", ".join(self.devices) or "none; open the page on one"
            raise Unsupported(f"no device {name!r} is connected", cure=f"connected: {offer}")
        return device

    async def arrived(self, name: str, wait_s: float) -> Device:
        """The device of that name, or any if none is named, as soon as it is there."""
        deadline = self.clock() + wait_s
        while True:
            found = self.devices.get(name) if name else next(iter(self.devices.values()), None)
            if found is not None:
                return found
            left = deadline - self.clock()
            if left <= 0:
                raise DeviceTimeout(
                    f"no page connected within {wait_s:g} s", cure="look at the browser; run whet doctor"
                )
            self._arrival.clear()
            try:
                await asyncio.wait_for(self._arrival.wait(), min(left, 1.0))
            except TimeoutError:
                continue

    async def ask(
        self,
        name: str,
        lease: str,
        header: Mapping[str, Any],
        parts: Mapping[str, bytes],
        *,
        limit_s: float,
        expects: int = 0,
    ) -> tuple[Answer, dict[str, bytes], int]:
        """Has a device do something; its answer with its parts, and the nanoseconds from sending to hearing."""
        device = self.devices.get(name)
        if device is None:
            raise DeviceGone(f"{name} is gone", cure="open the page again, and run again")
        if not device.lease or not hmac.compare_digest(device.lease, lease):
            # It was held when the run began, so no variant is to blame.
            raise DeviceGone(f"{name} is no longer held by this run", cure="run again when it is free")
        if device.command is not None:
            raise DeviceError(f"{name} is busy", cure="wait for what it does")
        device.leased_at = self.clock()
        ticket = secrets.token_hex(16)
        command = Command(
            ticket=ticket,
            kind=str(header["kind"]),
            arm=str(header.get("arm", "")),
            body=wire.pack({**header, "ticket": ticket}, parts),
            expects=expects,
            limit_s=limit_s,
            future=asyncio.get_running_loop().create_future(),
            asked_at=self.clock(),
        )
        device.command = command
        device.wake.set()
        try:
            while not command.future.done():
                before = self.clock()
                await asyncio.wait([command.future], timeout=TICK_S)
                device.leased_at = self.clock()
                self._forgive(device, command, device.leased_at - before)
                self._watch(device, command)
            said, got, heard_ns = command.future.result()
            return said, got, heard_ns - command.sent_ns
        finally:
            if device.command is command:
                device.command = None

    def _forgive(self, device: Device, command: Command, passed_s: float) -> None:
        """Time in which this server did not run counts against no device, nor does that of a hidden tab."""
        late_s = passed_s - TICK_S
        if late_s > LATE_S:
            device.seen_at += late_s
            command.asked_at += late_s
            device.leaving_at += late_s if device.leaving_at else 0.0
        if command.taken_at and (device.hidden or late_s > LATE_S):
            command.paused_s += passed_s

    def _watch(self, device: Device, command: Command) -> None:
        """Gives up on a device that shows no sign, or on a command that takes too long."""
        if command.future.done():
            return
        now, patience = self.clock(), self.patience
        silent_s = now - device.seen_at
        if device.leaving_at and now - device.leaving_at > patience.leave_s:
            self._remove(device)
            raise DeviceGone(f"{device.name} went away: its page was closed", cure="open the page again, and run again")
        if not command.taken_at:
            if min(silent_s, now - command.asked_at) > patience.first_s:
                self._remove(device)
                raise DeviceGone(f"{device.name} took no work for {patience.first_s:g} s", cure="look at its page")
            if not device.hidden and now - command.asked_at > patience.first_s + patience.stuck_s:
                self._remove(device)
                raise DeviceGone(f"{device.name} hangs: {device.stage}", cure="load its page again")
            return
        if silent_s > (patience.hidden_s if device.hidden else patience.stall_s):
            self._remove(device)
            raise DeviceGone(
                f"{device.name} gave no sign for {silent_s:.0f} s: {device.stage}", cure="look at its page"
            )
        if now - command.taken_at - command.paused_s > command.limit_s:
            raise DeviceTimeout(
                f"{device.name} did not finish within {command.limit_s:g} s: {device.stage}",
                cure="try a smaller case, or a longer --call-limit",
            )

    def _again(self, device: Device, said: Hello) -> Seated:
        """The page was loaded again. What it was doing is lost; if it died of it, that is told."""
        self._by_seat.pop(device.seat, None)
        self._left.append(device.seat)
        device.seat = secrets.token_hex(16)
        self._by_seat[device.seat] = device
        device.facts, device.loads, device.leaving_at = said.facts, device.loads + 1, 0.0
        device.wish = said.wish or device.wish
        self._sign(device, "connected again", hidden=False)
        log.info("%s connected again%s", device.name, f" after {said.crashed} took it down" if said.crashed else "")
        command = device.command
        device.command = None
        device.wake.set()
        if command is not None and not command.future.done():
            if said.crashed and said.crashed == command.arm:
                died = DeviceLost(f"the page on {device.name} died while it ran", cure="try a smaller case")
                command.future.set_exception(died)
            else:
                command.future.set_exception(Disturbed(f"the page on {device.name} was loaded again"))
        return Seated(name=device.name, seat=device.seat)

    def _seated(self, seat: str) -> Device:
        device = self._by_seat.get(seat)
        if device is None and seat in self._left:
            raise Refused(423, "this page was opened once more elsewhere")
        if device is None:
            raise Refused(410, "no page is known by this; say hello again")
        return device

    def _sign(self, device: Device, stage: str, *, hidden: bool) -> None:
        device.seen_at, device.stage, device.hidden = self.clock(), stage, hidden

    def _drop_command(self, device: Device) -> None:
        command, device.command = device.command, None
        if command is not None and not command.future.done():
            command.future.cancel()

    def _remove(self, device: Device) -> None:
        self.devices.pop(device.name, None)
        self._by_seat.pop(device.seat, None)
        device.wake.set()
        log.info("%s is gone", device.name)

    def _forget_the_absent(self) -> None:
        """Pages that nobody runs anything on and that were closed or fell silent."""
        now = self.clock()
        for device in list(self.devices.values()):
            left = device.leaving_at and now - device.leaving_at > self.patience.leave_s
            if device.command is None and (left or now - device.seen_at > self.patience.idle_s):
                self._remove(device)

    def present(self) -> list[Device]:
        """Those that are connected now."""
        self._forget_the_absent()
        return list(self.devices.values())

    def _free_name(self, said: Hello) -> str:
        wanted = re.sub(r"[^a-z0-9]+", "-", (said.name or "device").lower()).strip("-")[:32] or "device"
        return next(
            name
            for k in range(1, MOST_DEVICES + 2)
            if (name := wanted if k == 1 else f"{wanted}-{k}") not in self.devices
        )
