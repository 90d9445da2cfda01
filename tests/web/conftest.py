"""The package packed and installed, and a browser for its pages. With CI=true what is missing fails, else it skips."""

from __future__ import annotations

import pytest
import web_site

from needs import needed


@pytest.fixture(scope="session")
def modules():
    """web/node_modules."""
    return needed(web_site.modules)


@pytest.fixture(scope="session")
def app(modules, tmp_path_factory):
    """An empty folder with the packed package in it."""
    return needed(lambda: web_site.pack(tmp_path_factory.mktemp("web")))


@pytest.fixture(scope="module")
def browser():
    """Of one module: no other test can start one in this thread meanwhile."""
    opening = web_site.opened()
    site = needed(opening.__enter__)
    yield site
    opening.__exit__(None, None, None)


@pytest.fixture
def site(browser, app):
    browser.folders["app"] = app
    return browser


@pytest.fixture(scope="module")
def plain(browser, app):
    """The plain page, for all tests that use the default kernels: they are compiled once."""
    browser.folders["app"] = app
    with browser.page("plain.html") as page:
        page.wait_for_function("globalThis.ready")
        page.evaluate("async () => { globalThis.cases = await import('/test/cases.js'); }")
        held = "async () => { globalThis.held = await msm.Msm.create([[1n, 2n]], { variant: 'walker' }); }"
        page.evaluate(held)
        yield page
