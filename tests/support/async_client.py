"""Tests of the Python client: on a loop of their own, in bounded time, with nothing gone wrong
unseen."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from gateway_process import PATIENCE, Gateway

from distributary.client import Client, ReceivedMessage, Subscription, connect

T = TypeVar("T")


class Nobody:
    """The receiver of a message's outcomes in tests that give none."""

    address = "nowhere"

    def settle(self, message: ReceivedMessage, state: int) -> None:
        raise NotImplementedError

    def reject(self, message: ReceivedMessage, condition: str, description: str) -> None:
        raise NotImplementedError

    def modify(self, message: ReceivedMessage, *, failed: bool, undeliverable: bool) -> None:
        raise NotImplementedError


def run(work: Coroutine[Any, Any, T]) -> T:
    """The result of the work; an error that no code has seen, and a task left, fail the test."""
    unseen: list[str] = []

    async def whole() -> T:
        asyncio.get_running_loop().set_exception_handler(
            lambda _loop, told: unseen.append(f"{told['message']}: {told.get('exception')!r}")
        )
        async with asyncio.timeout(2 * PATIENCE):
            found = await work
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, f"tasks go on: {left}"
        return found

    found = asyncio.run(whole())
    assert not unseen
    return found


def at(gateway: Gateway, **options: Any) -> Client:
    """A client of it."""
    return connect(f"amqp://127.0.0.1:{gateway.port}", **options)


async def taken(subscription: Subscription, count: int) -> list[ReceivedMessage]:
    """So many messages, each accepted."""
    found = []
    for _ in range(count):
        message = await anext(subscription)
        await message.accept()
        found.append(message)
    return found


async def bodies(subscription: Subscription, count: int) -> list[object]:
    """The bodies of so many messages, each accepted."""
    return [message.body for message in await taken(subscription, count)]


async def until(condition: Callable[[], object], what: str) -> None:
    """Wait until the condition is true."""
    try:
        async with asyncio.timeout(PATIENCE):
            while not condition():  # noqa: ASYNC110 (other processes set no events)
                await asyncio.sleep(0.005)
    except TimeoutError:
        raise AssertionError(f"waited in vain: {what}") from None


async def nothing_more(client: Client, subscription: Subscription, address: str) -> None:
    """The next message is one that comes now."""
    await client.publish(address, "the last one")
    assert (await bodies(subscription, 1)) == ["the last one"]
