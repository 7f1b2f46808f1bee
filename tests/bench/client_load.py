"""The Python client as a load: `python -m tests.bench.client_load PORT TOPIC COUNT`, a process of
its own. It prints one JSON object: seconds and CPU seconds of each of its parts.

Messages have 1 KiB. `confirmed`: many publishes under way at once, each awaited; `sent`: by a
publisher; `consumed`: taken one by one, the body read, each accepted.
"""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable

from distributary.client import Client, Subscription, connect

DATA = b"x" * 1_024
#: Publishes that are under way at once: an application's tasks.
TASKS = 500


async def _timed(what: Awaitable[None]) -> list[float]:
    began, cpu = time.monotonic(), time.process_time()
    await what
    return [time.monotonic() - began, time.process_time() - cpu]


async def _confirmed(client: Client, topic: str, count: int) -> None:
    async def some() -> None:
        for _ in range(count // TASKS):
            await client.publish(topic, DATA)

    await asyncio.gather(*(some() for _ in range(TASKS)))


async def _sent(client: Client, topic: str, count: int) -> None:
    async with client.publisher(topic) as publisher:
        for _ in range(count):
            await publisher.send(DATA)


async def _consumed(messages: Subscription, count: int) -> None:
    async for message in messages:
        assert len(message.body) == len(DATA)  # type: ignore[arg-type]
        await message.accept()
        count -= 1
        if not count:
            return


async def run(port: int, topic: str, count: int) -> dict[str, list[float]]:
    """Seconds of each part, and CPU seconds of this process."""
    found = {}
    count -= count % TASKS
    async with connect(f"amqp://127.0.0.1:{port}") as client:
        messages = client.subscribe(topic, topic=topic)
        await messages.begin()
        found["confirmed"] = await _timed(_confirmed(client, topic, count))
        found["sent"] = await _timed(_sent(client, topic, count))
        found["consumed"] = await _timed(_consumed(messages, 2 * count))
        await messages.unsubscribe()
    return found


if __name__ == "__main__":
    port, topic, count = sys.argv[1:]
    print(json.dumps(asyncio.run(run(int(port), topic, int(count)))))  # noqa: T201 (its answer)
