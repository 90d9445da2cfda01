"""The page in a real browser: it fits a phone, runs no script, asks nothing of a network and draws what it should."""

from __future__ import annotations

import os
import shutil
from itertools import pairwise

import pytest

from scripted_runs import blocked_run, scripted_matrix, scripted_run, scripted_sweep
from whet.evidence.headline import headline
from whet.evidence.record import Decision
from whet.evidence.report import render_report

pytestmark = pytest.mark.browser
PHONE = (390, 844)
SIZES = [PHONE, (320, 568), (820, 1180), (1280, 900)]
BEYOND_THE_EDGE = """
    [...document.querySelectorAll("body *")].filter(e => {
        const r = e.getBoundingClientRect();
        return r.right > innerWidth + 1 || r.left < -1;
    }).map(e => e.outerHTML.slice(0, 80))
"""
TICK_LABELS = """
    [...document.querySelectorAll(".axis text")].map(e => {
        const r = e.getBoundingClientRect();
        return [r.left, r.right];
    })
"""
# Contrast as WCAG defines it, of each element against the nearest background that is not see-through.
CONTRASTS = """() => {
    const channel = v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
    const luminance = colour => {
        const [r, g, b] = colour.match(/[\\d.]+/g).slice(0, 3).map(v => channel(v / 255));
        return .2126 * r + .7152 * g + .0722 * b;
    };
    const background = e => {
        for (; e; e = e.parentElement) {
            const colour = getComputedStyle(e).backgroundColor;
            if (!/, 0\\)/.test(colour)) return colour;
        }
        return "rgb(255, 255, 255)";
    };
    const judged = "h1, h2, .lead, .chip, .quiet, .refusal, .red, .green, .weaker, .opposite, .floor, td, .cell b";
    return [...document.querySelectorAll(judged)].map(e => {
        const [light, dark] = [luminance(getComputedStyle(e).color), luminance(background(e))].sort((x, y) => y - x);
        return [(light + .05) / (dark + .05), e.className || e.tagName];
    });
}"""


@pytest.fixture(scope="module")
def browser():
    found = next(
        (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
    )
    if found is None:
        if os.environ.get("CI") == "true":
            pytest.fail("no Chromium: tools/install-system installs it")
        pytest.skip("no Chromium in PATH; tools/install-system installs it")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        yield started
        started.close()


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports")
    one = scripted_run(1, variants=5, refused=(4,), warnings=2)
    chosen = Decision(run_id=one.id, decided="2026-03-02T10:00:00+00:00", ship="plain", because="x" * 300)
    contents = {
        "one": render_report([one], {one.id: [chosen]}),
        "twelve": render_report([scripted_run(2, variants=12, repeats=200)]),
        "blocked": render_report([blocked_run(1, weaker=True, tails=True)]),
        "sweep": render_report(scripted_sweep()),
        "matrix": render_report(scripted_matrix()),
        "many": render_report([scripted_run(seed, variants=1 + seed % 4) for seed in range(5)]),
    }
    for name, text in contents.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def look(browser, reports):
    contexts = []

    def opened(name: str, size: tuple[int, int] = (1280, 900), scheme: str = "light"):
        context = browser.new_context(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.seen_requests, page.seen_errors = [], []
        page.on("request", lambda request: page.seen_requests.append(request.url))
        page.on("console", lambda message: page.seen_errors.append(message.text))
        page.on("pageerror", lambda error: page.seen_errors.append(str(error)))
        page.goto((reports / f"{name}.html").as_uri())
        return page

    yield opened
    for context in contexts:
        context.close()


@pytest.mark.parametrize("name", ["one", "twelve", "many", "blocked", "sweep", "matrix"])
def test_no_network_no_errors_no_sideways_scrolling(look, reports, name):
    page = look(name)
    for width, height in SIZES:
        page.set_viewport_size({"width": width, "height": height})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(BEYOND_THE_EDGE) == [], width
    assert page.seen_requests == [(reports / f"{name}.html").as_uri()]
    assert page.seen_errors == []


def test_the_verdict_is_seen_first(look):
    page = look("one", PHONE)
    title = page.get_by_role("heading", level=1)
    assert title.inner_text() == headline(scripted_run(1, variants=5, refused=(4,), warnings=2)).text
    assert title.bounding_box()["y"] < PHONE[1] / 2


def test_intervals_lie_where_the_numbers_say(look):
    """Pixels against the record: the order of the dots is the order of the ratios, and all lie left of 1."""
    run = scripted_run(1, variants=5, refused=(4,))
    page = look("one")
    dots = page.evaluate("[...document.querySelectorAll('.interval circle')].map(e => e.getBoundingClientRect().x)")
    ratios = [verdict.ratio for verdict in run.verdicts if verdict.ratio is not None]
    assert len(dots) == len(ratios) == 3
    assert sorted(range(3), key=dots.__getitem__) == sorted(range(3), key=ratios.__getitem__)
    one = page.evaluate("document.querySelector('.grid.one').getBoundingClientRect().x")
    assert max(dots) < one


def test_tick_labels_do_not_overlap(look):
    page = look("twelve")
    for width, height in SIZES:
        page.set_viewport_size({"width": width, "height": height})
        boxes = sorted(page.evaluate(TICK_LABELS))
        assert len(boxes) >= 2
        assert all(left[1] < right[0] for left, right in pairwise(boxes)), width


def test_blocks_lie_around_the_interval_of_their_candidate(look):
    page = look("blocked")
    rows = page.locator(".forest .row:has(.interval)")
    assert rows.count() == 3
    for number in range(3):
        dots = rows.nth(number).locator(".blocks circle")
        places = sorted(dots.nth(k).bounding_box()["x"] for k in range(dots.count()))
        middle = rows.nth(number).locator(".interval circle").bounding_box()["x"]
        assert len(places) == 6 and places[0] < middle + 20 and places[-1] > middle - 20


@pytest.mark.parametrize("size", [PHONE, (1440, 900)])
def test_growth_is_drawn_inside_its_frame(look, size):
    page = look("sweep", size)
    frame = page.locator(".growth > svg").bounding_box()
    dots = page.locator(".growth circle")
    assert dots.count() == 15
    for k in range(dots.count()):
        dot = dots.nth(k).bounding_box()
        assert frame["x"] - 4 <= dot["x"] and dot["x"] + dot["width"] <= frame["x"] + frame["width"] + 4
        assert frame["y"] <= dot["y"] <= frame["y"] + frame["height"]
    labels = page.evaluate("[...document.querySelectorAll('.growth text')].map(e => e.getBoundingClientRect().x)")
    assert min(labels) >= 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["one", "blocked", "matrix"])
def test_text_has_contrast(look, scheme, name):
    """WCAG AA for what carries the verdict, in both schemes."""
    page = look(name, scheme=scheme)
    pairs = page.evaluate(CONTRASTS)
    assert len(pairs) > 20
    assert [pair for pair in pairs if pair[0] < 4.5] == []


def test_paper_is_white_and_keeps_its_colours(look):
    page = look("one", scheme="dark")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert len(page.pdf(format="A4")) > 10_000
