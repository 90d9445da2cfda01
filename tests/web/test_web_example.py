"""The page in examples/web, driven as a visitor would: a .ptau, coefficients, a commitment; and a refusal."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from web_site import ROOT

from point_files import ptau
from whet.msm import Point

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.xdist_group("web"),
]

TAU = 5
WIDTHS = (390, 1440)


def test_the_example_commits_to_a_polynomial(site, app, tmp_path):
    """p(x) = 3 + x^2 + 42 x^3 at tau = 5, so the commitment is p(5) G."""
    generator = Point(1, 2)
    powers = [pow(TAU, i) * generator for i in range(7)]
    (tmp_path / "pot.ptau").write_bytes(ptau([(one.x, one.y) for one in powers], 2))
    expected = (3 + TAU**2 + 42 * TAU**3) * generator
    site.folders["example"] = ROOT / "examples" / "web"
    site.folders["example/node_modules"] = app / "node_modules"
    with site.page("example/index.html?variant=gpu_plain", viewport={"width": WIDTHS[0], "height": 844}) as page:
        page.set_input_files("#file", str(tmp_path / "pot.ptau"))
        page.fill("#coefficients", "3, 0 1 0x2a")
        page.click("#commit")
        page.wait_for_selector("#answer:not([hidden])")
        assert page.inner_text("#x") == hex(expected.x) and page.inner_text("#y") == hex(expected.y)
        assert "gpu_plain" in page.inner_text("#device")
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 844})
            assert page.evaluate("document.documentElement.scrollWidth") <= width, "nothing sticks out"
            if folder := os.environ.get("WHET_SCREENSHOTS"):
                page.screenshot(path=Path(folder) / f"web-example-{width}.png", full_page=True)
        page.fill("#coefficients", "1 2 3 4 5 6 7 8")
        page.click("#commit")
        page.wait_for_function("document.getElementById('status').classList.contains('wrong')")
        assert "there are 7 points" in page.inner_text("#status")
