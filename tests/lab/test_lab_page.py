"""The page itself in Chromium: what it does with a device, and what a person sees, hears and can reach by keyboard."""

from __future__ import annotations

import json
import threading
import time
from contextlib import contextmanager

import pytest

from needs import needed
from whet.errors import DeviceLost, Unsupported
from whet.evidence.elsewhere import Disturbed
from whet.evidence.messages import Described
from whet.lab.chromium import LocalLink
from whet.lab.device import LabDevice
from whet.lab.hub import Patience
from whet.lab.serving import LabServer
from whet.lab.ways_in import link

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.xdist_group("lab")]

DOUBLE = """@group(0) @binding(0) var<storage, read> x: array<u32>;
@group(0) @binding(1) var<storage, read_write> y: array<u32>;
@compute @workgroup_size(4) fn double(@builtin(global_invocation_id) id: vec3u) { y[id.x] = 2u * x[id.x]; }"""
STEP = {"pass": "double", "kernel": 0, "bindings": [{"buffer": "x"}, {"buffer": "y"}], "workgroups": [1, 1, 1]}
PROGRAM = {
    "buffers": {"x": 16, "y": 16},
    "kernels": [{"source": DOUBLE, "entry": "double", "constants": {}}],
    "submissions": [{"writes": [], "steps": [STEP]}],
    "outputs": ["y"],
}
WORK = Described(program=json.dumps(PROGRAM).encode(), kept={}, warm={"x": bytes(16)})
INPUT = b"".join(number.to_bytes(4, "little") for number in (1, 2, 3, 4))
OUTPUT = b"".join(number.to_bytes(4, "little") for number in (2, 4, 6, 8))
LIMIT_S = 120


@pytest.fixture(scope="module")
def chromium():
    def start():
        import shutil

        try:
            from playwright.sync_api import sync_playwright
        except ImportError:
            raise Unsupported("no playwright", cure="pip install playwright") from None
        executable = shutil.which("chromium")
        if executable is None:
            raise Unsupported("no Chromium", cure="apt install chromium")
        driver = sync_playwright().start()
        flags = ["--no-sandbox", "--enable-unsafe-webgpu", "--host-resolver-rules=MAP lab.example 127.0.0.1"]
        return driver, driver.chromium.launch(executable_path=executable, args=flags, timeout=1000 * LIMIT_S)

    driver, browser = needed(start)
    yield browser
    browser.close()
    driver.stop()


@contextmanager
def lab(**more):
    patience = Patience(first_s=60, stall_s=60, leave_s=1.0, hidden_s=120, idle_s=120)
    with LabServer(poll_s=2, patience=patience, **more) as server:
        yield server


def connected(server, name):
    return server.call(server.hub.arrived(name, LIMIT_S))


def device(server, name):
    return LabDevice(LocalLink(server, connected(server, name).name), "lab")


def doubled(place, arm="double"):
    return place.turn(arm, [{"x": INPUT}], timing=True, limit_s=LIMIT_S)


@contextmanager
def opened(browser, url, **context):
    made = browser.new_context(**context)
    made.set_default_timeout(1000 * LIMIT_S)
    page = made.new_page()
    page.goto(url)
    try:
        yield page
    finally:
        made.close()


def test_two_tabs_are_two_devices_and_a_reload_resumes(chromium):
    with lab() as server, opened(chromium, f"{server.url}?name=phone") as page:
        connected(server, "phone")
        other = page.context.new_page()
        other.goto(f"{server.url}?name=phone")
        places = [device(server, name) for name in ("phone", "phone-2")]
        for place in places:
            first = place.prepare("double", WORK, limit_s=LIMIT_S)
            assert first.compile_ns > 0 and first.run_ns > 0
        ran = [doubled(place) for place in places]
        assert [one.read for one in ran] == [[{"y": OUTPUT}]] * 2
        assert all(0 < one.walls_ns[0] <= one.outside_ns and one.regions_ns.keys() == {"double"} for one in ran)
        page.reload()
        deadline = time.monotonic() + LIMIT_S
        while server.hub.devices["phone"].loads < 2 and time.monotonic() < deadline:
            page.wait_for_timeout(50)
        with pytest.raises(Disturbed):
            # The page has forgotten the program; the device counts as disturbed once and gets it again.
            doubled(places[0])
        assert doubled(places[0]).read == [{"y": OUTPUT}]
        assert doubled(places[1]).read == [{"y": OUTPUT}]


def test_what_took_the_page_down_is_told_after_it_is_loaded_again(chromium):
    with lab() as server, opened(chromium, f"{server.url}?name=phone") as page:
        connected(server, "phone")
        own = page.evaluate("JSON.parse(sessionStorage.getItem('identity'))")
        place = device(server, "phone")
        place.prepare("double", WORK, limit_s=LIMIT_S)
        # As if the tab had died inside a turn: what it ran is written down, and nothing was tidied up.
        failed = []

        def ask():
            try:
                place.turn("double", [{"x": INPUT}] * 2000, timing=False, limit_s=LIMIT_S)
            except Exception as error:
                failed.append(error)

        for _ in range(2):
            page.evaluate("Storage.prototype.removeItem = () => null")
            asking = threading.Thread(target=ask)
            asking.start()
            page.wait_for_function(
                "(key) => localStorage.getItem(key) === 'double'", arg=f"whet-lab-marker:{own['run']}"
            )
            page.reload()
            asking.join(LIMIT_S)
            page.evaluate("localStorage.clear()")
        # Once may have been anybody's fault; twice in a row, while the device runs other things, is its own.
        assert [type(error) for error in failed] == [Disturbed, DeviceLost]
        assert all("died while it ran" in str(error) for error in failed)
        # The others go on, and so does it if it is asked once more.
        assert doubled(place).read == [{"y": OUTPUT}]


def test_a_hidden_tab_pauses(chromium):
    with lab() as server, opened(chromium, f"{server.url}?name=phone") as page:
        place = device(server, "phone")
        place.prepare("double", WORK, limit_s=LIMIT_S)
        hide = "(hidden) => { Object.defineProperty(document, 'hidden', { value: hidden, configurable: true });"
        hide += " document.dispatchEvent(new Event('visibilitychange')); }"
        page.evaluate(hide, True)
        found = []
        asking = threading.Thread(target=lambda: found.append(doubled(place)))
        asking.start()
        page.wait_for_function("() => document.getElementById('stage').textContent.includes('hidden')")
        page.wait_for_timeout(300)
        assert not found and server.hub.devices["phone"].hidden
        page.evaluate(hide, False)
        asking.join(LIMIT_S)
        assert found[0].read == [{"y": OUTPUT}]


def test_an_adapter_without_timestamps_still_has_times(chromium):
    script = "const has = GPUSupportedFeatures.prototype.has; GPUSupportedFeatures.prototype.has = function (name)"
    script += " { return name !== 'timestamp-query' && has.call(this, name) };"
    made = chromium.new_context()
    made.set_default_timeout(1000 * LIMIT_S)
    made.add_init_script(script)
    with lab() as server:
        page = made.new_page()
        page.goto(f"{server.url}?name=phone")
        place = device(server, "phone")
        assert place.facts()["timestamps"] is False
        place.prepare("double", WORK, limit_s=LIMIT_S)
        ran = doubled(place)
        assert ran.device_ns is None and ran.walls_ns[0] > 0 and ran.read == [{"y": OUTPUT}]
        made.close()


def test_a_page_that_is_not_secure_says_what_to_do(chromium):
    with lab(hosts=["lab.example"]) as server, opened(chromium, f"http://lab.example:{server.port}/") as page:
        page.wait_for_selector("#problem:not([hidden])")
        said = page.inner_text("#problem")
        assert "secure context" in said and "localhost" in said and "https" in said
        assert not server.hub.devices


def test_a_killed_server_is_found_again(chromium):
    with lab() as server, opened(chromium, f"{server.url}?name=phone") as page:
        connected(server, "phone")
        server.close()
        page.wait_for_function("() => document.getElementById('connection').textContent.includes('trying again')")
        with lab(port=server.port) as again:
            place = device(again, "phone")
            place.prepare("double", WORK, limit_s=LIMIT_S)
            assert doubled(place).read == [{"y": OUTPUT}]


def test_settings_travel_in_one_parameter(chromium):
    with lab(token="t" * 32) as server:
        url = link("http", "localhost", server.port, settings={"name": "farm-7", "token": "t" * 32})
        assert "&" not in url
        with opened(chromium, url) as page:
            assert connected(server, "farm-7").name == "farm-7"
            assert "t" * 32 not in page.url
        with opened(chromium, f"{server.url}#token=wrong") as page:
            page.wait_for_selector("#problem:not([hidden])")
            assert "does not let this page in" in page.inner_text("#problem")


def test_nothing_is_asked_of_anybody_else_and_it_is_there_at_once(chromium):
    with lab() as server:
        made = chromium.new_context()
        made.set_default_timeout(1000 * LIMIT_S)
        page = made.new_page()
        asked = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(server.url)
        connected(server, "")
        spent_ms = page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd")
        assert 0 < spent_ms < 60_000  # the figure for an idle machine is in docs/lab.md
        assert all(url.startswith(server.url) for url in asked)
        made.close()


SHOWN = "((at) => at === document.body || getComputedStyle(at).outlineStyle !== 'none')(document.activeElement)"
ROWS = [
    {"variant": "walker", "gate": "green", "time_ns": 1.27e6, "verdict": "baseline"},
    {
        "variant": "coop:g=8",
        "gate": "green",
        "time_ns": 0.96e6,
        "ratio": 0.756,
        "low": 0.741,
        "high": 0.771,
        "verdict": "FASTER",
    },
]
RED = {
    "variant": "pairs:slots=4",
    "gate": "red",
    "why": "wrong output: element 3 of point is 7, not 9",
    "verdict": "REFUSED",
}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
def test_the_page_can_be_read_by_everybody(chromium, scheme, width, tmp_path_factory, axe_source):
    """axe-core in four states; nothing scrolls sideways; every control is reached by the keyboard and shows it."""
    folder = tmp_path_factory.getbasetemp() / "screens"
    folder.mkdir(exist_ok=True)
    size = {"width": width, "height": 900}
    with lab() as server, opened(chromium, f"{server.url}?name=phone", viewport=size, color_scheme=scheme) as page:
        place = device(server, "phone")
        page.evaluate(axe_source)

        def look(state):
            page.screenshot(path=str(folder / f"{state}-{width}-{scheme}.png"), full_page=True)
            found = page.evaluate("axe.run().then((found) => found.violations.map((one) => one.id + ': ' + one.help))")
            assert found == [], (state, found)
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), state

        look("idle")
        place.begin("msm n=65536", ["walker", "coop:g=8", "pairs:slots=4"])
        place.prepare("walker", WORK, limit_s=LIMIT_S)
        place.show("round 12", [*ROWS, {"variant": "pairs:slots=4", "gate": "waiting"}], share=0.4, at_once=True)
        page.wait_for_function("() => document.getElementById('rows').children.length === 3")
        look("running")
        place.show("round 13", [*ROWS, RED], share=0.5, at_once=True)
        page.wait_for_selector("#reds:not([hidden])")
        look("red")
        assert "no time" in page.inner_text("#rows tr:last-child")
        place.show("done: ship coop:g=8", ROWS, share=1.0, at_once=True)
        page.wait_for_selector("#reds", state="hidden")
        look("done")
        reached = []
        for _ in range(8):
            page.keyboard.press("Tab")
            reached.append(page.evaluate("document.activeElement.id || document.activeElement.tagName"))
            assert page.evaluate(SHOWN)
        assert {"new-name", "BUTTON"} <= set(reached)
        if width == 390 and scheme == "light":
            page.fill("#new-name", "My Phone!")
            page.press("#new-name", "Enter")
            assert connected(server, "my-phone").name == "my-phone"
        page.wait_for_function("() => /lab:(my-)?phone/.test(document.getElementById('next-command').textContent)")
