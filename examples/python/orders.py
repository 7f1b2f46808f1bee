"""A shop publishes orders, and billing consumes them, by `distributary.client`.

python orders.py billing    # until Ctrl-C or SIGTERM
python orders.py shop       # ten orders, in one transaction
"""

import asyncio
import os
import signal
import sys

from distributary.client import ClientError, Message, ReceivedMessage, connect

URL = os.environ.get("AMQP_URL", "amqp://127.0.0.1:5672")
#: Items and their prices. The seventh order can't be billed.
ORDERS = [("pizza", -1 if number == 7 else 1_000 + number) for number in range(1, 11)]


async def shop() -> None:
    """Publish all orders or none: the transaction commits at the end of the block."""
    async with connect(URL, give_up_seconds=0) as client, client.transaction() as work:
        for number, (item, cents) in enumerate(ORDERS, start=1):
            order = Message(body=item, properties={"order": number, "cents": cents})
            await work.publish("orders", order)
    print(f"published {len(ORDERS)} orders")


async def billing() -> None:
    """Bill each order, and only then accept it. The client reconnects by itself."""
    async with connect(URL) as client:
        async for order in client.subscribe("billing", topic="orders", prefetch=10):
            await bill(order)


async def bill(order: ReceivedMessage) -> None:
    match order.properties:
        case {"order": number, "cents": int(cents)} if cents >= 0:
            print(f"billed order {number}: {cents} cents", flush=True)
            await order.accept()
        case said:
            print(f"rejected order {said.get('order')}: {said.get('cents')} cents", flush=True)
            await order.reject()  # it becomes a dead letter


async def until_stopped() -> None:
    """Bill until a signal. Received orders without an outcome go to other consumers; the
    subscription stays."""
    task = asyncio.create_task(billing())
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        print("stopped")


def main() -> str | int:
    match sys.argv[1:]:
        case ["shop"]:
            program = shop()
        case ["billing"]:
            program = until_stopped()
        case _:
            return "usage: python orders.py shop|billing"
    try:
        asyncio.run(program)
    except ClientError as error:
        return str(error)
    return 0


if __name__ == "__main__":
    sys.exit(main())
