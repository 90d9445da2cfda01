"""One Chromium with one page for all tests that only need a device."""

from __future__ import annotations

import pytest

from needs import needed


@pytest.fixture(scope="session")
def chromium_device():
    """This machine's headless Chromium as the evidence layer sees it."""
    from whet.lab.chromium import open_browser

    opened = open_browser("")
    with needed(lambda: opened) as device:
        yield device


@pytest.fixture(scope="session")
def axe_source(tmp_path_factory):
    """axe-core as npm has it."""
    import os
    import subprocess
    from pathlib import Path

    kept = Path(__file__).parents[2] / ".cache" / "axe"
    found = kept / "node_modules" / "axe-core" / "axe.min.js"
    if not found.exists():
        kept.mkdir(parents=True, exist_ok=True)
        words = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(kept), "axe-core@4"]
        try:
            subprocess.run(words, check=True, capture_output=True, timeout=300)
        except (OSError, subprocess.SubprocessError) as error:
            if os.environ.get("CI") == "true":
                raise
            pytest.skip(f"npm gave no axe-core: {error}")
    return found.read_text()
