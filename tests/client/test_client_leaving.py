"""A subscription that is being ended, and a temporary queue that comes anew."""

import asyncio
from contextlib import suppress

import pytest
from async_client import at, nothing_more, run, taken
from gateway_process import Gateway

from distributary.client import Client, ClientClosed, ClientError, ReceivedMessage, Subscription


async def leaving(client: Client, topic: str) -> tuple[Subscription, ReceivedMessage]:
    """A subscription with a message that the application has, and two that wait."""
    subscription = client.subscribe(topic, topic=topic)
    await subscription.begin()
    for n in range(3):
        await client.publish(topic, n)
    first = await anext(subscription)
    await taken(subscription, 1)
    return subscription, first


def test_nothing_is_handed_out_once_a_subscription_is_being_ended(
    gateway: Gateway, topic: str
) -> None:
    """Messages that went back have no outcome, and none of them comes to another task."""

    async def play() -> list[object]:
        async with at(gateway) as client:
            subscription, first = await leaving(client, topic)
            ending = asyncio.create_task(subscription.unsubscribe())
            await asyncio.sleep(0)
            assert not ending.done()
            await first.accept()
            late = [message.body async for message in subscription]
            await ending
            async with client.subscribe(topic, topic=topic) as afresh:
                await nothing_more(client, afresh, topic)
            return late

    assert run(play()) == []


def test_two_tasks_may_end_a_subscription(gateway: Gateway, topic: str) -> None:
    """Both are told; and one that is cancelled takes nothing from the other."""

    async def play() -> None:
        async with at(gateway) as client:
            subscription, _ = await leaving(client, topic)
            ending = [asyncio.create_task(subscription.unsubscribe()) for _ in range(3)]
            await asyncio.sleep(0)
            ending[0].cancel()
            assert [message.body async for message in subscription] == []
            await asyncio.gather(*ending[1:])
            assert ending[0].cancelled()

    run(play())


def test_a_close_amid_the_end_of_a_subscription_ends_it_nevertheless(
    gateway: Gateway, topic: str
) -> None:
    """The block's end, and the client's."""

    async def play(*, whole: bool) -> None:
        async with at(gateway) as client:
            subscription, first = await leaving(client, topic)
            ending = asyncio.create_task(subscription.unsubscribe())
            await asyncio.sleep(0)
            await (client.close() if whole else subscription.close())
            await first.accept()
            await ending
        async with at(gateway) as client, client.subscribe(topic, topic=topic) as afresh:
            await nothing_more(client, afresh, topic)
            await afresh.unsubscribe()

    run(play(whole=False))
    run(play(whole=True))


def test_a_request_of_a_lost_connection_names_the_queue_of_the_next(
    gateway: Gateway, topic: str
) -> None:
    """The temporary queue of the connection before is gone with it."""
    queue = f"queue://{topic}"

    async def play() -> list[object]:
        async with at(gateway) as client, at(gateway) as server:

            async def serve() -> None:
                async for request in server.consume(queue):
                    with suppress(ClientError):
                        await server.reply(request, request.body)
                    await request.accept()

            serving = asyncio.create_task(serve())
            before = await client.request(queue, "before")
            client.drop()
            while client.connected:  # noqa: ASYNC110 (turns of the loop, no time)
                await asyncio.sleep(0)
            after = await client.request(queue, "after")
            serving.cancel()
            await asyncio.wait((serving,))
            return [before.body, after.body]

    assert run(play()) == ["before", "after"]


def test_a_name_is_attached_again_when_it_is_free(
    gateway: Gateway, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A subscription that was just closed is consumed again over the same connection; one that is
    closed while it waits for the name is never attached."""

    async def play() -> None:
        async with at(gateway, container_id=topic) as client:
            for n in range(3):
                async with client.subscribe(topic, topic=topic, shared=False) as own:
                    await client.publish(topic, n)
                    assert (await taken(own, 1))[0].body == n
                waits = client.subscribe(topic, topic=topic, shared=False)
                waiting = asyncio.create_task(waits.begin())
                await asyncio.sleep(0)
                await waits.close()
                with pytest.raises(ClientClosed):
                    await waiting

    run(play())
    assert not caplog.records


def test_a_close_ends_the_connection_that_came_meanwhile(gateway: Gateway, topic: str) -> None:
    """A connection is lost while the close waits for outcomes: they come over the next one, which
    is then closed, too."""

    async def play() -> None:
        async with at(gateway) as client:
            late = asyncio.create_task(client.publish(topic, "late"))
            await asyncio.sleep(0)
            asyncio.get_running_loop().call_soon(client.drop)
        await late
        assert not client.connected

    run(play())


def test_a_publisher_is_closed_with_its_block(gateway: Gateway, topic: str) -> None:
    """A message sent afterwards raises: the client may have closed the link, and it would wait
    there for ever."""

    async def play() -> int:
        async with at(gateway) as client:
            async with client.publisher(topic) as publisher:
                await publisher.send("in it")
            with pytest.raises(ClientClosed):
                await publisher.send("late")
            await publisher.flush()
            return publisher.count

    assert run(play()) == 1


def test_a_block_that_is_not_entered_leaves_no_consumer(gateway: Gateway, topic: str) -> None:
    """Cancelled while the broker's answer is under way: a consumer that stayed would have messages
    that no task asks for."""

    async def play() -> None:
        async with at(gateway) as client:
            entering = asyncio.create_task(client.subscribe(topic, topic=topic).__aenter__())
            await asyncio.sleep(0)
            entering.cancel()
            with pytest.raises(asyncio.CancelledError):
                await entering
            async with client.subscribe(topic, topic=topic) as alone:
                await client.publish(topic, "x")
                assert len(await taken(alone, 1)) == 1
                await alone.unsubscribe()

    run(play())


def test_a_close_that_is_cancelled_in_its_last_turn_says_so(gateway: Gateway) -> None:
    """The connection was lost, and the close waits for the task that connects again."""

    async def play() -> None:
        client = at(gateway)
        await client.__aenter__()
        client.drop()
        for _ in range(3):
            await asyncio.sleep(0)
        closing = asyncio.create_task(client.close())
        await asyncio.sleep(0)
        assert closing.cancel()
        await asyncio.wait((closing,))
        assert closing.cancelled()

    run(play())


def test_a_close_that_is_cancelled_while_answers_end_closes_the_connection(
    gateway: Gateway, topic: str
) -> None:
    """The reader of answers ends first, and the close waits for it."""

    async def play() -> None:
        async with at(gateway) as client, at(gateway) as server:
            requests = server.consume(f"queue://{topic}")
            asking = asyncio.create_task(client.request(f"queue://{topic}", "?"))
            request = await anext(requests)
            await server.reply(request, "!")
            await request.accept()
            await asking
            closing = asyncio.create_task(client.close())
            await asyncio.sleep(0)
            closing.cancel()
            await asyncio.wait((closing,))
            assert closing.cancelled()
            assert not client.connected

    run(play())
