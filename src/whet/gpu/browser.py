"""Programs in a headless Chromium: the browser's own compiler and limits, on whatever adapter it finds.

Nothing listens and nothing is fetched: the page is made up by the driver, under a name that counts as a secure
context. A browser without a GPU runs WebGPU on SwiftShader, at about a twentieth of lavapipe's speed.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from whet.errors import DeviceError, DeviceTimeout, Unsupported
from whet.gpu.faults import CURES
from whet.gpu.portable import Outcome, decode, encode
from whet.gpu.program import Program
from whet.gpu.schedule import Pace
from whet.gpu.trust import require_good_runner

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
# Without the unsafe flag a headless Chromium offers no software adapter for WebGPU, and rounds timestamps.
FLAGS = ("--no-sandbox", "--enable-unsafe-webgpu")
PAGE = "http://localhost/whet"
UPLOADS = f"{PAGE}/upload/"
RUNNER = f"{PAGE}/runner.js"
START_LIMIT_S = 60
RUNNER_FILE = Path(__file__).with_name("runner.js")
_LOAD = "async (url) => { globalThis.runner = { ...(await import(url)) }; }"


class Browser:
    """One browser with one page; use as a context manager. Its runs share a device and the kernels compiled on it."""

    def __init__(self) -> None:
        executable = next((path for name in BROWSERS if (path := shutil.which(name))), None)
        if executable is None:
            raise Unsupported("no Chromium in PATH", cure="apt install chromium")
        try:
            from playwright.sync_api import Error, sync_playwright
        except ImportError:
            raise Unsupported("the playwright package is not installed", cure="pip install playwright") from None
        self._failures = Error
        self._closed = False
        self._uploads: list[bytes] = []  # of the run that is going on
        self._believed = False
        try:
            self._driver = sync_playwright().start()
        except Error as error:
            cure = "use it from a thread without a running asyncio loop, one Browser per thread at a time"
            raise Unsupported(f"Playwright cannot start here: {_first(error)}", cure=cure) from error
        try:
            self._browser = self._driver.chromium.launch(
                executable_path=executable, args=list(FLAGS), timeout=1000 * START_LIMIT_S
            )
            self.version = self._browser.version
            self._page = self._browser.new_page()
            self._page.route("**/*", self._serve)
            self._page.goto(PAGE)
            self._page.evaluate(_LOAD, RUNNER)
        except Error as error:
            self._driver.stop()
            raise Unsupported(
                f"{executable} does not start: {_first(error)}", cure="start it by hand to see why"
            ) from error

    def run(
        self,
        program: Program,
        inputs: Mapping[str, npt.NDArray[Any]],
        outputs: Sequence[str],
        *,
        timed: bool = True,
        pace: Pace | None = None,
        time_limit_s: float = 300,
    ) -> Outcome:
        """Runs the program once in the page. A run that is given up takes its device with it.

        Before its first one a page is asked for a known answer.
        """
        if not self._believed:
            require_good_runner(partial(self._run, timed=False, pace=None, time_limit_s=time_limit_s))
            self._believed = True
        return self._run(program, inputs, outputs, timed=timed, pace=pace, time_limit_s=time_limit_s)

    def _run(
        self,
        program: Program,
        inputs: Mapping[str, npt.NDArray[Any]],
        outputs: Sequence[str],
        *,
        timed: bool,
        pace: Pace | None,
        time_limit_s: float,
    ) -> Outcome:
        self._uploads = []
        request = encode(program, inputs, outputs, timed=timed, pace=pace, carry=self._carry)
        script = """([request, limit]) => Promise.race([
            runner.runProgram(request),
            new Promise(done => setTimeout(() => done({ fault: { kind: "timeout" } }), limit)),
        ]).then(answer => { if (answer.fault?.kind === "timeout") runner.resetSession(); return answer; })"""
        try:
            answer = self._page.evaluate(script, [request, 1000 * time_limit_s])
        except self._failures as error:
            raise DeviceError(f"Chromium failed: {_first(error)}", cure="open a new Browser") from error
        if answer.get("fault", {}).get("kind") == "timeout":
            raise DeviceTimeout(f"Chromium gave no answer within {time_limit_s:g} s", cure=CURES[DeviceTimeout])
        return decode(answer, where=f"Chromium {self.version}", program=program)

    def _carry(self, data: npt.NDArray[Any]) -> dict[str, str]:
        """Bytes that the page fetches as they are: as text in the request they would be decoded one by one."""
        self._uploads.append(np.ascontiguousarray(data).tobytes())
        return {"url": f"{UPLOADS}{len(self._uploads) - 1}"}

    def _serve(self, route: Any) -> None:
        """The empty page, the runner, and what a run uploads; nothing leaves this machine."""
        url = str(route.request.url)
        if url == RUNNER:
            route.fulfill(body=RUNNER_FILE.read_text(), content_type="text/javascript")
            return
        if not url.startswith(UPLOADS):
            route.fulfill(body="<!doctype html>", content_type="text/html")
            return
        route.fulfill(body=self._uploads[int(url.removeprefix(UPLOADS))], content_type="application/octet-stream")

    def close(self) -> None:
        """Ends the browser. Safe to call again."""
        if not self._closed:
            self._closed = True
            self._browser.close()
            self._driver.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _first(error: Exception) -> str:
    return str(error).splitlines()[0]
