"""Two "machines" on this one: network namespaces joined by a link with a set rate and delay, which can be cut.

The link is a pair of TUN devices whose packets this module carries, so that rate and delay need no kernel module (the
shaper `netem` is missing in many). `python link.py A B BYTES_PER_S DELAY_S` carries packets between namespaces until
its input ends; the lines `cut` and `mend` do what they say.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import heapq
import json
import os
import select
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

DEVICE = "link0"
MTU = 1500
# What a router would hold before it drops.
QUEUE_BYTES = 1 << 20
CLONE_NEWNET = 0x40000000
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000


class Forbidden(Exception):
    """The system does not allow namespaces or TUN devices; the text says which."""


class Link:
    """Namespaces `names`, at `addresses`. Made by `joined`."""

    def __init__(self, names: tuple[str, str], addresses: tuple[str, str], carrier: subprocess.Popen[str]) -> None:
        self.names, self.addresses, self._carrier = names, addresses, carrier

    def order(self, word: str) -> None:
        self._carrier.stdin.write(f"{word}\n")
        self._carrier.stdin.flush()
        assert self._carrier.stdout.readline().strip() == word

    def sent(self) -> tuple[int, int, int]:
        """Bytes out of the first machine, bytes into it, and packets both ways, as its kernel counts them."""
        (told,) = json.loads(ip("-n", self.names[0], "-s", "-j", "link", "show", DEVICE))
        out, back = told["stats64"]["tx"], told["stats64"]["rx"]
        return out["bytes"], back["bytes"], out["packets"] + back["packets"]


def ip(*words: str) -> str:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False, timeout=60)
    if done.returncode:
        raise Forbidden(f"ip {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


@contextlib.contextmanager
def joined(bytes_per_s: float, delay_s: float) -> Iterator[Link]:
    """Two namespaces and the link between them. Whatever still runs in them when this ends is ended."""
    names = (f"whet-{os.getpid()}-a", f"whet-{os.getpid()}-b")
    addresses = ("10.231.77.1", "10.231.77.2")
    if not Path("/dev/net/tun").exists():
        raise Forbidden("there is no /dev/net/tun")
    made: list[str] = []
    command = [sys.executable, __file__, *names, str(bytes_per_s), str(delay_s)]
    try:
        for name in names:
            ip("netns", "add", name)
            made.append(name)
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as carrier:
            try:
                said = carrier.stdout.readline().strip()
                if said != "ready":
                    raise Forbidden(said or "a TUN device cannot be made")
                for name, address in zip(names, addresses, strict=True):
                    ip("-n", name, "address", "add", f"{address}/30", "dev", DEVICE)
                    ip("-n", name, "link", "set", DEVICE, "mtu", str(MTU), "up")
                    ip("-n", name, "link", "set", "lo", "up")
                    # Nobody else is there, but Ray finds its own address by the way to the rest of the world.
                    ip("-n", name, "route", "add", "default", "dev", DEVICE)
                yield Link(names, addresses, carrier)
            finally:
                for name in names:
                    end_all(name)
                carrier.stdin.close()
    finally:
        for name in made:
            ip("netns", "delete", name)


def processes_of(name: str) -> list[int]:
    return [int(pid) for pid in ip("netns", "pids", name).split()]


def end_all(name: str) -> None:
    """Ends every process of a namespace, by its number."""
    for _ in range(50):
        pids = processes_of(name)
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, 9)
        if not pids:
            return
        time.sleep(0.1)


def open_tun(namespace: str) -> int:
    """A TUN device in that namespace; this process stays where it is."""
    libc = ctypes.CDLL(None, use_errno=True)
    here = os.open("/proc/self/ns/net", os.O_RDONLY)
    there = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    try:
        if libc.setns(there, CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")
        try:
            handle = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
            fcntl.ioctl(handle, TUNSETIFF, struct.pack("16sH", DEVICE.encode(), IFF_TUN | IFF_NO_PI))
            return handle
        finally:
            libc.setns(here, CLONE_NEWNET)
    finally:
        os.close(here)
        os.close(there)


def carry(tuns: list[int], bytes_per_s: float, delay_s: float) -> None:
    """Each direction has its own rate; a packet leaves when those before it have left, and arrives `delay_s` later."""
    free_at, held = [0.0, 0.0], [0, 0]
    under_way: list[tuple[float, int, int, bytes]] = []
    number, whole = 0, True
    while True:
        wait_s = max(0.0, under_way[0][0] - time.monotonic()) if under_way else None
        ready, _, _ = select.select([0, *tuns], [], [], wait_s)
        now = time.monotonic()
        for at, tun in enumerate(tuns):
            while tun in ready:
                try:
                    packet = os.read(tun, 65536)
                except BlockingIOError:
                    break
                if whole and held[at] + len(packet) <= QUEUE_BYTES:
                    free_at[at] = max(now, free_at[at]) + len(packet) / bytes_per_s
                    held[at] += len(packet)
                    number += 1
                    heapq.heappush(under_way, (free_at[at] + delay_s, number, at, packet))
        while under_way and under_way[0][0] <= time.monotonic():
            _, _, at, packet = heapq.heappop(under_way)
            held[at] -= len(packet)
            # A device that is not up yet, or no longer, takes nothing.
            with contextlib.suppress(OSError):
                if whole:
                    os.write(tuns[1 - at], packet)
        if 0 in ready:
            word = os.read(0, 100).decode().strip()
            if not word:
                return
            whole = word != "cut"
            print(word, flush=True)


if __name__ == "__main__":
    first, second, rate, delay = sys.argv[1:]
    try:
        opened = [open_tun(first), open_tun(second)]
    except OSError as error:
        sys.exit(print(f"a TUN device cannot be made: {error}"))
    print("ready", flush=True)
    carry(opened, float(rate), float(delay))
