"""The kinds of devices that the lab offers under `whet.devices`; each is imported only when it is asked for."""

from __future__ import annotations

from contextlib import AbstractContextManager
from importlib import import_module

from whet.errors import Unsupported
from whet.evidence.elsewhere import Elsewhere, Opener


def open_browser(rest: str) -> AbstractContextManager[Elsewhere]:
    """This machine's Chromium, headless."""
    return _opened("chromium", "open_browser", rest)


def open_lab(rest: str) -> AbstractContextManager[Elsewhere]:
    """A device that is connected to this user's `whet lab`."""
    return _opened("operator_link", "open_lab", rest)


def open_webdriver(rest: str) -> AbstractContextManager[Elsewhere]:
    """A browser behind a WebDriver server."""
    return _opened("webdriver", "open_webdriver", rest)


def _opened(module: str, name: str, rest: str) -> AbstractContextManager[Elsewhere]:
    try:
        found = import_module(f"whet.lab.{module}")
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("whet"):
            raise
        raise Unsupported(f"the package {error.name} is not installed", cure="pip install 'whet[lab]'") from None
    opener: Opener = getattr(found, name)
    return opener(rest)
