"""Two gateways of one lake."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from gateway_fleet import Fleet
from gateway_process import Gateway


@pytest.fixture
def fleet(tmp_path: Path, own_gateway: Callable[..., Gateway]) -> Iterator[Fleet]:
    with Fleet(tmp_path, own_gateway) as fleet:
        yield fleet
