"""Devices for the tests. With CI=true a machine that lacks one fails, elsewhere it skips with the cure."""

from __future__ import annotations

import pytest

from needs import needed


def _opened():
    from whet.gpu import open_device

    with needed(lambda: open_device(debug=True)) as opened:
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

    with needed(Browser) as started:
        yield started


@pytest.fixture
def dawn():
    """`dawn(program, inputs, outputs)` runs under Dawn."""
    from whet.gpu import dawn as module

    return lambda *given, **more: needed(lambda: module.run(*given, **more))


@pytest.fixture(params=["dawn", "chromium"])
def elsewhere(request):
    """Both of the other WebGPU implementations in turn."""
    if request.param == "dawn":
        return request.getfixturevalue("dawn")
    return request.getfixturevalue("browser").run


@pytest.fixture(scope="module")
def shared_device():
    """One device for a whole module, so that its kernels are compiled once. Unwritten bytes are poison."""
    yield from _opened()
