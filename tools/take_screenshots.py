"""Writes docs/img/report-desktop.png and report-phone.png from a report: take_screenshots.py report.html"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

TARGET = Path(__file__).parents[1] / "docs" / "img"
SHOTS = {"report-desktop.png": (1180, 1000), "report-phone.png": (390, 844)}


def main(report: Path) -> None:
    TARGET.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name, (width, height) in SHOTS.items():
            page = browser.new_page(viewport={"width": width, "height": height})
            page.goto(report.resolve().as_uri())
            page.screenshot(path=TARGET / name)
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
