"""Publishes flights, as a process of its own: `python -m examples.demo.publisher PORT COUNT`."""

import asyncio
import sys

from distributary.client import Encoded, connect
from examples.demo.demo_messages import Member, Reporter, speak
from examples.demo.flights import TOPIC, messages


async def publish(port: int, count: int, reporter: Reporter) -> None:
    """Publish `count` flights and return when the gateway has accepted each."""
    broker = connect(f"amqp://127.0.0.1:{port}", container_id="publisher", give_up_seconds=0)
    async with broker as client, client.publisher(TOPIC) as publisher:
        for message in messages(count):
            await publisher.send(Encoded(message))
            reporter.tell(Member(done=publisher.count))
        await publisher.flush()
        reporter.tell(Member(done=publisher.count), now=True)


def main() -> int:
    port, count = (int(text) for text in sys.argv[1:])
    return speak(lambda reporter: asyncio.run(publish(port, count, reporter)))


if __name__ == "__main__":
    sys.exit(main())
