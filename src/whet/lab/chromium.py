"""`--device browser`: a headless Chromium of this machine, started for the run and ended with it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from whet.errors import DeviceTimeout, Unsupported
from whet.lab.device import LabDevice
from whet.lab.hub import Patience
from whet.lab.serving import LabServer
from whet.lab.wire import Answer, Facts

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
# Without the unsafe flag a headless Chromium offers no software adapter for WebGPU, and rounds timestamps.
FLAGS = (
    "--headless=new",
    "--enable-unsafe-webgpu",
    "--no-first-run",
    "--disable-background-networking",
    "--mute-audio",
    # On a busy machine a slow GPU process is not a hung one, and one that died may be started again.
    "--disable-gpu-watchdog",
    "--disable-gpu-process-crash-limit",
    "--disable-domain-blocking-for-3d-apis",
    "--disable-hang-monitor",
    "--disable-renderer-backgrounding",
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
)
NAME = "chromium"
# A browser that this program started is there: however busy the machine is, it is waited for.
NEAR = Patience(first_s=180.0, stuck_s=180.0, stall_s=180.0)
SHARED_MEMORY = Path("/dev/shm")
LEAST_SHARED_BYTES = 512 << 20
CONNECT_LIMIT_S = 90.0


class LocalLink:
    """A device of a server in this process."""

    def __init__(self, server: LabServer, name: str) -> None:
        self._server, self.name = server, name
        self._lease = server.call(_later(lambda: server.hub.take(name)))
        self.facts: Facts = server.hub.devices[name].facts

    def ask(
        self, command: Mapping[str, Any], parts: Mapping[str, bytes], *, limit_s: float, expects: int = 0
    ) -> tuple[Answer, dict[str, bytes], int]:
        asked = self._server.hub.ask(self.name, self._lease, command, parts, limit_s=limit_s, expects=expects)
        return self._server.call(asked)

    def close(self) -> None:
        self._server.call(_later(lambda: self._server.hub.give_back(self.name, self._lease)))


async def _later(step: Any) -> Any:
    return step()


@contextmanager
def open_browser(rest: str) -> Iterator[LabDevice]:
    """A server on a port of its own, a Chromium on its page, and the device that it is."""
    if rest:
        raise Unsupported(
            f"there is no browser {rest!r}", cure="write --device browser; it takes this machine's Chromium"
        )
    with LabServer(patience=NEAR) as server, chromium(f"{server.url}?name={NAME}"):
        try:
            device = server.call(server.hub.arrived("", CONNECT_LIMIT_S))
        except DeviceTimeout:
            raise Unsupported(
                "the page in Chromium did not come up: it has no WebGPU adapter, or did not start",
                cure="open chrome://gpu in it; run whet doctor",
            ) from None
        link = LocalLink(server, device.name)
        try:
            yield LabDevice(link, "browser")
        finally:
            link.close()


def own_flags() -> list[str]:
    """What a Chromium of this machine is started with."""
    found = [*FLAGS]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        found.append("--no-sandbox")
    if SHARED_MEMORY.is_dir() and shutil.disk_usage(SHARED_MEMORY).total < LEAST_SHARED_BYTES:
        # In a container with the usual 64 MB a page dies of its buffers.
        found.append("--disable-dev-shm-usage")
    return found


@contextmanager
def chromium(url: str, more: Sequence[str] = ()) -> Iterator[subprocess.Popen[bytes]]:
    """A Chromium with a profile of its own. It and all its processes end with the context."""
    executable = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if executable is None:
        raise Unsupported("no Chromium in PATH", cure="apt install chromium")
    flags = [*own_flags(), *more]
    with tempfile.TemporaryDirectory(prefix="whet-chromium-", ignore_cleanup_errors=True) as profile:
        command = [executable, *flags, f"--user-data-dir={profile}", url]
        with (Path(profile) / "log").open("wb") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
            try:
                yield process
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGTERM)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(5)
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
