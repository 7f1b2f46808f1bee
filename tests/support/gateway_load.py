"""Clients that publish and consume while gateways come and go, and what they have seen."""

from async_client import until as came_true

from distributary.client import connect


class Load:
    """Publishers to a queue and a consumer of it, that know these ports."""

    def __init__(self, queue: str, *ports: int) -> None:
        self._queue = queue
        self._first, *self._others = [f"amqp://127.0.0.1:{port}" for port in ports]
        self.accepted: list[str] = []
        self.came: list[str] = []
        self.unmarked: list[str] = []  #: came again as if they were new
        self.over = False

    async def publish(self, name: str) -> None:
        async with connect(self._first, *self._others) as client:
            number = 0
            while not self.over:
                await client.publish(self._queue, f"{name}-{number}")
                self.accepted.append(f"{name}-{number}")
                number += 1

    async def consume(self) -> None:
        async with connect(self._first, *self._others) as client:
            async for message in client.consume(self._queue):
                if str(message.body) in self.came and not message.delivery_count:
                    self.unmarked.append(str(message.body))
                self.came.append(str(message.body))
                await message.accept()

    async def more(self) -> None:
        """Wait until more was accepted, and came."""
        accepted, came = len(self.accepted) + 50, len(self.came) + 50
        await came_true(lambda: len(self.accepted) >= accepted and len(self.came) >= came, "more")

    async def all_of_it(self) -> None:
        """Wait until all that was accepted came."""
        await came_true(lambda: set(self.accepted) <= set(self.came), "all that was accepted")
