"""Sums over a link between two network namespaces: right, slow, cut and mended, and as many bytes as the model says."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from link import Forbidden, end_all, joined, processes_of
from machines_here import ENVIRONMENT

HERE = Path(__file__).parent
POINTS = 1 << 16
SUMS = 4
BYTES_PER_S = 100e6 / 8
DELAY_S = 0.005
CUT_S = 3.0
LIMIT_S = 300
# Of IP and TCP with time stamps; the rest of a packet is payload.
HEADER_BYTES = 52
PORT = 6399


@pytest.fixture(scope="module")
def link(ray_installed):
    """Skipped where the system forbids namespaces, and only there; the reason is printed."""
    if shutil.which("ip") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("there is no program `ip`: tools/install-system installs it")
        pytest.skip("there is no program `ip`: install iproute2")
    with contextlib.ExitStack() as stack:
        try:
            made = stack.enter_context(joined(BYTES_PER_S, DELAY_S))
        except Forbidden as why:
            print(f"two machines in network namespaces: the system forbids it: {why}", file=sys.__stderr__)
            pytest.skip(f"the system forbids it: {why}")
        yield made


def inside(stack, name, *words):
    """A program in a namespace; whatever it started ends with the namespace."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": os.environ | ENVIRONMENT}
    process = stack.enter_context(subprocess.Popen(["ip", "netns", "exec", name, *map(str, words)], **pipes))
    stack.callback(end_all, name)  # before the process is waited for
    return process


def start_node(stack, name, address, *words):
    sizes = ("--num-cpus=1", f"--object-store-memory={80 << 20}", "--disable-usage-stats", "--block")
    ray = Path(sys.executable).parent / "ray"
    process = inside(stack, name, ray, "start", f"--node-ip-address={address}", *sizes, *words)
    for line in process.stdout:
        if "Ray runtime started" in line:
            return
    pytest.fail(f"no Ray in {name}")


def test_sums_over_a_link(link):
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="whet-ray-", ignore_cleanup_errors=True))
        (a, b), (home, away) = link.names, link.addresses
        start_node(*(stack, a, home, "--head", f"--port={PORT}", f"--temp-dir={folder}", "--include-dashboard=false"))
        start_node(stack, b, away, f"--address={home}:{PORT}")
        driver = inside(stack, a, sys.executable, HERE / "sums_over_a_link.py", f"{home}:{PORT}", POINTS)
        shards = {int(pid): points for pid, points in json.loads(driver.stdout.readline()).items()}
        (there,) = [points for pid, points in shards.items() if pid in processes_of(b)]
        assert len(shards) == 2 and there == POINTS // 2
        assert computed(driver, 1) == 1

        before = link.sent()
        began = time.monotonic()
        assert computed(driver, SUMS) == SUMS
        taken_s = time.monotonic() - began
        out, back, packets = (now - then for now, then in zip(link.sent(), before, strict=True))
        payload = SUMS * (32 * there + 64)
        seen = out + back - HEADER_BYTES * packets
        counted = f"{out} bytes out, {back} back, {packets} packets, {taken_s:.3f} s"
        print(f"{there} points there: {counted}; payload {payload}, seen {seen}")
        assert abs(seen - payload) < 0.1 * payload
        # The link is as slow as it was set: no sum has its scalars sooner.
        assert taken_s > SUMS * (32 * there / BYTES_PER_S + 2 * DELAY_S)

        link.order("cut")
        ask(driver, 1)
        assert not select.select([driver.stdout], [], [], CUT_S)[0], "a sum came through a link that was cut"
        link.order("mend")
        assert int(driver.stdout.readline()) == 1
        assert computed(driver, 1) == 1
        driver.stdin.close()
        assert driver.wait(LIMIT_S) == 0


def ask(driver, sums):
    driver.stdin.write(f"{sums}\n")
    driver.stdin.flush()


def computed(driver, sums) -> int:
    ask(driver, sums)
    return int(driver.stdout.readline() or -1)
