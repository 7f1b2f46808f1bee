"""A lake and its machines."""

from collections.abc import Callable
from pathlib import Path

import pytest
from gateway_fleet import PLACEMENT
from gateway_machines import Machines
from gateway_process import Gateway

from distributary.pipeline.tables.lake.disk_lake import DiskLake


@pytest.fixture
def machines(tmp_path: Path, own_gateway: Callable[..., Gateway]) -> Machines:
    """A lake on a disk with the logs `main` and `orders`."""
    DiskLake(tmp_path / "lake").replace(None, PLACEMENT)
    return Machines(tmp_path / "lake", own_gateway)
