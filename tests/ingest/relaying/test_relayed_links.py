"""Links to topics of another gateway's log: as if they were local."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from async_client import at, bodies, run
from gateway_fleet import Fleet
from gateway_process import Gateway


@pytest.fixture
def fleet(tmp_path: Path, own_gateway: Callable[..., Gateway]) -> Iterator[Fleet]:
    with Fleet(tmp_path, own_gateway) as fleet:
        yield fleet


def test_a_message_goes_there_and_back(fleet: Fleet) -> None:
    async def work() -> None:
        async with at(fleet.main) as here, at(fleet.orders) as there:
            async with (
                here.subscribe("mine", topic="orders.eu") as mine,
                there.consume("orders.eu") as theirs,
            ):
                for number in range(100):
                    await here.publish("orders.eu", number)
                assert await bodies(mine, 100) == list(range(100))
                assert await bodies(theirs, 100) == list(range(100))

    run(work())
