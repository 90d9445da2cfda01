"""A device for the tests. With CI=true a machine without a good adapter fails, elsewhere it skips with the cure."""

from __future__ import annotations

import os

import pytest

from whet.errors import WhetError


@pytest.fixture
def device():
    from whet.gpu import open_device

    try:
        opened = open_device(debug=True)
    except WhetError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"{error.cause}: {error.cure}")
    with opened:
        yield opened
