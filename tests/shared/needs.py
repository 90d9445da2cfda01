"""What tests on a GPU or in a browser do where a device is missing."""

from __future__ import annotations

import os

import pytest

from whet.errors import Unsupported


def needed(make):
    """What `make` gives; a machine that lacks it skips with the cure, but fails where CI=true."""
    try:
        return make()
    except Unsupported as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"{error.cause}: {error.cure}")
