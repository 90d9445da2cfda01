"""Devices for the tests. With CI=true a machine that lacks one fails, elsewhere it skips with the cure."""

from __future__ import annotations

import os

import pytest

from whet.errors import Unsupported


def _needed(make):
    """What `make` gives; a machine that lacks it skips with the cure, but fails where CI=true."""
    try:
        return make()
    except Unsupported as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"{error.cause}: {error.cure}")


def _opened():
    from whet.gpu import open_device

    with _needed(lambda: open_device(debug=True)) as opened:
        yield opened


@pytest.fixture
def device():
    yield from _opened()


@pytest.fixture(scope="session")
def decode_device():
    """One device for all decode tests: a kernel is compiled once. Unwritten bytes are poison."""
    yield from _opened()


@pytest.fixture(scope="module")
def browser():
    from whet.gpu.browser import Browser

    with _needed(Browser) as started:
        yield started


@pytest.fixture
def dawn():
    """`dawn(program, inputs, outputs)` runs under Dawn."""
    from whet.gpu import dawn as module

    return lambda *given, **more: _needed(lambda: module.run(*given, **more))


@pytest.fixture(params=["dawn", "chromium"])
def elsewhere(request):
    """Both of the other WebGPU implementations in turn."""
    if request.param == "dawn":
        return request.getfixturevalue("dawn")
    return request.getfixturevalue("browser").run
