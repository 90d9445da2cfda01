"""A device for the tests. With CI=true a machine without a good adapter fails, elsewhere it skips with the cure."""

from __future__ import annotations

import os

import pytest

from whet.errors import WhetError


def _opened():
    from whet.gpu import open_device

    try:
        opened = open_device(debug=True)
    except WhetError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"{error.cause}: {error.cure}")
    with opened:
        yield opened


@pytest.fixture
def device():
    yield from _opened()


@pytest.fixture(scope="session")
def decode_device():
    """One device for all decode tests: a kernel is compiled once. Unwritten bytes are poison."""
    yield from _opened()
