"""Two gateways of one lake, or three that share topics."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from gateway_fleet import Fleet, Trio
from gateway_process import Gateway


@pytest.fixture
def fleet(tmp_path: Path, own_gateway: Callable[..., Gateway]) -> Iterator[Fleet]:
    with Fleet(tmp_path, own_gateway) as fleet:
        yield fleet


@pytest.fixture
def trio(tmp_path: Path, own_gateway: Callable[..., Gateway]) -> Iterator[Trio]:
    with Trio(tmp_path, own_gateway) as trio:
        yield trio
