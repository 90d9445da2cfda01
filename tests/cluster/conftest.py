"""One Ray for all tests, started and ended by them. Without Ray they are skipped, but fail where CI=true."""

from __future__ import annotations

import os

import pytest

from needs import needed
from whet.cluster import connect
from whet.cluster.connection import load_ray

os.environ.setdefault("RAY_AUTH_TOKEN", "tests-of-whet-" + "0" * 18)  # the tests leave the home folder alone


def pytest_collection_modifyitems(items):
    for item in items:
        if "tests/cluster/" in item.nodeid:
            item.add_marker(pytest.mark.xdist_group("cluster"))


@pytest.fixture(scope="session")
def ray_installed():
    needed(load_ray)


@pytest.fixture(scope="session")
def connection(ray_installed):
    with connect(workers=8, deadline_s=300, object_store_bytes=100 << 20) as made:
        yield made
