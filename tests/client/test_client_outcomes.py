"""A message has one outcome, whatever the application says afterwards."""

from async_client import at, run, taken
from gateway_process import Gateway


def test_a_second_outcome_is_no_other_messages(gateway: Gateway, topic: str) -> None:
    """The engine gives the delivery of a settled message to the next one: what is said about the
    first message once more isn't said about that."""
    queue = f"queue://{topic}"

    async def play() -> list[tuple[object, int]]:
        async with at(gateway, prefetch=1) as client:
            for n in range(4):
                await client.publish(queue, n)
            async with client.consume(queue) as messages:
                first = await anext(messages)
                address = first.delivery
                await first.accept()
                second = await anext(messages)
                assert second.delivery == address
                await first.accept()
                await first.reject()
                await first.modify(undeliverable_here=True)
                async with client.transaction() as work:
                    await work.accept(second)
                await anext(messages)
                await second.release()
            async with client.consume(queue) as messages:
                return [(one.body, one.delivery_count) for one in await taken(messages, 2)]

    assert run(play()) == [(2, 1), (3, 0)]
