"""A gateway for the client's tests; each test has topics of its own."""

from collections.abc import Iterator

import pytest
from gateway_process import Gateway


@pytest.fixture(scope="session")
def _running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with Gateway(tmp_path_factory.mktemp("client")) as running:
        yield running
        running.stop()


@pytest.fixture
def gateway(_running: Gateway) -> Gateway:
    """Running, and left so."""
    return _running


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic that no other test uses."""
    return request.node.name.translate({ord(one): "-" for one in "[]:/ "})
