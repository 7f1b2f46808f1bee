"""A gateway for each file of client tests, and names that no two tests share."""

from collections.abc import Iterator

import pytest
from gateway_process import Gateway


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """The file's gateway; a test may restart it, and leaves it running."""
    with Gateway(tmp_path_factory.mktemp("gateway")) as running:
        yield running


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic that no other test uses."""
    return str(request.node.name).removeprefix("test_")
