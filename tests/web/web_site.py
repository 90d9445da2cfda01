"""A site without a server: pages of several folders, under a name that is a secure context, in a headless Chromium."""

from __future__ import annotations

import json
import mimetypes
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path

from whet.errors import Unsupported
from whet.gpu.browser import BROWSERS, FLAGS, START_LIMIT_S

ROOT = Path(__file__).parents[2]
WEB = ROOT / "web"
MODULES = WEB / "node_modules"
SITE = "http://localhost/"
LIMIT_S = 600
# Modules of noble by the names that they import each other with.
IMPORTS = {
    "@whet/msm": "/app/node_modules/@whet/msm/src/index.js",
    "@noble/curves/": "/modules/@noble/curves/esm/",
    "@noble/curves/bn254": "/modules/@noble/curves/esm/bn254.js",
    "@noble/hashes/": "/modules/@noble/hashes/esm/",
    **{
        f"@noble/hashes/{name}": f"/modules/@noble/hashes/esm/{name}.js" for name in ("crypto", "hmac", "sha2", "utils")
    },
}
PLAIN = f"""<!doctype html><meta charset="utf-8"><title>plain</title>
<script type="importmap">{json.dumps({"imports": IMPORTS})}</script>
<script type="module">import * as msm from "@whet/msm"; globalThis.msm = msm; globalThis.ready = true;</script>"""
mimetypes.add_type("text/javascript", ".js")


def npm(*arguments: str, cwd: Path, limit_s: int = LIMIT_S) -> str:
    """What npm prints. Where there is none, the test cannot run and says why."""
    if shutil.which("npm") is None:
        raise Unsupported("no npm in PATH", cure="apt install nodejs npm")
    return command("npm", *arguments, "--no-fund", "--no-audit", "--loglevel=error", cwd=cwd, limit_s=limit_s)


def command(*arguments: str | Path, cwd: Path, limit_s: int = LIMIT_S) -> str:
    done = subprocess.run(arguments, cwd=cwd, capture_output=True, text=True, timeout=limit_s, check=False)
    assert done.returncode == 0, f"{arguments}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout


def modules() -> Path:
    """web/node_modules: the exact versions that package.json names, installed once.

    There is no lock file: npm refuses one without the optional packages of other systems, which some registries lack.
    """
    made = MODULES / ".package-lock.json"
    wanted = json.loads((WEB / "package.json").read_text())["devDependencies"]
    if not made.exists() or any(_version(name) != version for name, version in wanted.items()):
        npm("install", "--no-package-lock", "--ignore-scripts", cwd=WEB)
    return MODULES


def _version(name: str) -> str | None:
    file = MODULES / name / "package.json"
    return json.loads(file.read_text())["version"] if file.exists() else None


def pack(folder: Path) -> Path:
    """The package as it would be published, made by `npm pack` and installed into an empty folder."""
    modules()
    (made,) = json.loads(npm("pack", "--json", f"--pack-destination={folder}", cwd=WEB))
    app = folder / "app"
    app.mkdir()
    (app / "package.json").write_text('{"private": true, "type": "module"}\n')
    npm("install", str(folder / made["filename"]), cwd=app)
    (folder / "packed.json").write_text(json.dumps(made))
    return app


class Site:
    """Folders by the first part of their address, and pages by name."""

    def __init__(self, browser) -> None:
        self.browser = browser
        self.folders = {"modules": MODULES, "test": WEB / "test"}
        self.pages = {"plain.html": PLAIN, "bare.html": "<!doctype html><title>bare</title>"}

    @contextmanager
    def page(self, name: str, site: str = SITE, **more):
        context = self.browser.new_context(**more)
        page = context.new_page()
        said: list[str] = []
        page.on("pageerror", lambda error: said.append(str(error)))
        page.set_default_timeout(1000 * LIMIT_S)
        page.route("**/*", lambda route: self.serve(route, site))
        page.goto(site + name)
        try:
            yield page
        finally:
            context.close()
        assert not said, said

    def serve(self, route, site: str) -> None:
        path = route.request.url.removeprefix(site).split("?")[0]
        if path in self.pages:
            route.fulfill(body=self.pages[path], content_type="text/html")
            return
        at = max((name for name in self.folders if path.startswith(f"{name}/")), key=len, default="nowhere")
        file = self.folders.get(at, WEB / "nowhere") / path.removeprefix(f"{at}/")
        if not file.is_file():
            route.fulfill(status=404, body="")
            return
        kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
        route.fulfill(body=file.read_bytes(), content_type=kind)


@contextmanager
def opened():
    """A Chromium with the flags under which a software adapter is offered."""
    executable = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if executable is None:
        raise Unsupported("no Chromium in PATH", cure="apt install chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise Unsupported("the playwright package is not installed", cure="pip install playwright") from None
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=executable, args=list(FLAGS), timeout=1000 * START_LIMIT_S)
        try:
            yield Site(browser)
        finally:
            browser.close()
