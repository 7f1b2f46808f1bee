"""Publishes and accepts of a transaction are done together, or not at all."""

import asyncio

import pytest
from async_client import at, bodies, nothing_more, run, until
from gateway_process import Gateway

from distributary.client import Client, InvalidRequest, RolledBack, Subscription


class Planned(Exception):
    """An error of the application's."""


def test_a_commit_does_all_of_it(gateway: Gateway, topic: str) -> None:
    """Received messages are accepted, published ones are there; none before the end."""
    come, go = f"queue://{topic}-come", f"queue://{topic}-go"

    async def play() -> None:
        async with at(gateway) as client:
            incoming, outgoing = client.consume(come), client.consume(go)
            for n in range(3):
                await client.publish(come, n)
            async with client.transaction() as work:
                for _ in range(3):
                    message = await anext(incoming)
                    await work.accept(message)
                    await work.publish(go, f"done {message.body}")
                await outgoing.begin()
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.05):  # the stimulus: it asks for one
                        await anext(outgoing)
            assert await bodies(outgoing, 3) == ["done 0", "done 1", "done 2"]
            await nothing_more(client, incoming, come)

    run(play())


def test_what_raises_is_rolled_back(gateway: Gateway, topic: str) -> None:
    """The message comes again, what was published never does, and the error is the caller's."""
    come, go = f"queue://{topic}-come", f"queue://{topic}-go"

    async def play() -> None:
        async with at(gateway) as client, client.consume(come) as incoming:
            await client.publish(come, "again")
            with pytest.raises(Planned):  # noqa: PT012 (the block is what raises)
                async with client.transaction() as work:
                    await work.accept(await anext(incoming))
                    await work.publish(go, "never")
                    raise Planned
            assert await bodies(incoming, 1) == ["again"]
            async with client.consume(go) as outgoing:
                await nothing_more(client, outgoing, go)

    run(play())


def test_what_is_not_taken_rolls_back(gateway: Gateway, topic: str) -> None:
    """The rest of the transaction isn't done either; the client goes on."""
    go = f"queue://{topic}"

    async def play() -> str:
        async with at(gateway) as client:
            with pytest.raises(RolledBack) as failed:  # noqa: PT012 (the block is what raises)
                async with client.transaction() as work:
                    await work.publish(go, "never")
                    await work.publish("temp-queue://nobody/none", "refused")
            async with client.transaction() as work:
                await work.publish(go, "then")
            async with client.consume(go) as outgoing:
                assert await bodies(outgoing, 1) == ["then"]
            return str(failed.value)

    assert "temp-queue://nobody/none" in run(play())


def test_a_lost_connection_rolls_back(gateway: Gateway, topic: str) -> None:
    """Any later work in the transaction raises RolledBack; another transaction does it then."""
    go = f"queue://{topic}"

    async def play() -> None:
        async with at(gateway) as client:
            with pytest.raises(RolledBack, match="connection was lost"):  # noqa: PT012 (the block is what raises)
                async with client.transaction() as work:
                    await work.publish(go, "never")
                    client.drop()
                    await until(lambda: not client.connected, "the connection is lost")
                    await client.publish(go, "between")
            async with client.transaction() as work:
                await work.publish(go, "then")
            async with client.consume(go) as outgoing:
                assert await bodies(outgoing, 2) == ["between", "then"]

    run(play())


def test_cancelled_work_is_rolled_back(gateway: Gateway, topic: str) -> None:
    """While it waits for the outcomes of what it published: what it accepted comes again."""
    come, go = f"queue://{topic}-come", f"queue://{topic}-go"

    async def move(client: Client, incoming: Subscription) -> None:
        async with client.transaction() as work:
            await work.accept(await anext(incoming))
            await work.publish(go, "never")
            task = asyncio.current_task()
            assert task is not None
            asyncio.get_running_loop().call_soon(task.cancel)

    async def play() -> None:
        async with at(gateway) as client, client.consume(come) as incoming:
            await client.publish(come, "again")
            with pytest.raises(asyncio.CancelledError):
                await asyncio.create_task(move(client, incoming))
            assert await bodies(incoming, 1) == ["again"]
            async with client.consume(go) as outgoing:
                await nothing_more(client, outgoing, go)

    run(play())


def test_cancelled_beginnings_leave_no_transaction(gateway: Gateway, topic: str) -> None:
    """More of them than a connection may have transactions (`transactions_max`)."""

    async def begin(client: Client) -> None:
        async with client.transaction():
            raise AssertionError("it was cancelled before")

    async def play() -> None:
        async with at(gateway) as client:
            async with client.transaction():
                pass
            for _ in range(1_030):
                task = asyncio.create_task(begin(client))
                await asyncio.sleep(0)  # it has asked for a transaction
                task.cancel()
                await asyncio.wait((task,))
                assert task.cancelled()
            async with client.transaction() as work:
                await work.publish(topic, "then")

    run(play())


def test_the_error_of_a_block_is_kept_when_the_rollback_fails(gateway: Gateway, topic: str) -> None:
    """The gateway is lost before it has answered the rollback: it has rolled back then."""

    async def play() -> None:
        async with at(gateway) as client:
            with pytest.raises(Planned):  # noqa: PT012 (the block is what raises)
                async with client.transaction() as work:
                    await work.publish(topic, "never")
                    asyncio.get_running_loop().call_soon(client.drop)
                    raise Planned

    run(play())


def test_messages_of_another_client_are_refused(gateway: Gateway, topic: str) -> None:
    """A transaction has the accepts of its own client alone; the other client's message stays."""
    queue = f"queue://{topic}"

    async def play() -> None:
        async with at(gateway) as one, at(gateway) as other, other.consume(queue) as incoming:
            await one.publish(queue, "other's")
            message = await anext(incoming)
            async with one.transaction() as work:
                with pytest.raises(InvalidRequest, match="another client"):
                    await work.accept(message)
            await message.accept()
            await nothing_more(one, incoming, queue)

    run(play())


def test_a_transaction_is_used_once(gateway: Gateway, topic: str) -> None:
    """And as a context."""

    async def play() -> None:
        async with at(gateway) as client:
            work = client.transaction()
            with pytest.raises(InvalidRequest, match="async with"):
                await work.publish(topic, "x")
            async with work:
                pass
            with pytest.raises(InvalidRequest, match="once"):
                async with work:
                    pass

    run(play())


def test_nothing_is_part_of_a_transaction_after_its_end(gateway: Gateway, topic: str) -> None:
    """A publish or an outcome in one that is over raises at once, and disturbs no other work
    on the same links."""
    queue = f"queue://{topic}"

    async def play() -> None:
        async with at(gateway) as client, client.consume(queue) as incoming:
            async with client.transaction() as work:
                await work.publish(queue, "in it")
            message = await anext(incoming)
            with pytest.raises(InvalidRequest, match="ended"):
                await work.publish(queue, "late")
            with pytest.raises(InvalidRequest, match="ended"):
                await work.accept(message)
            await client.publish(queue, "beside it")
            await message.accept()
            assert await bodies(incoming, 1) == ["beside it"]
            await nothing_more(client, incoming, queue)

    run(play())


def test_a_publish_that_waits_for_room_fails_with_its_transaction(
    gateway: Gateway, topic: str
) -> None:
    """The connection is lost before the message has room: it isn't sent over the next connection,
    where its transaction is unknown and would end the link of others."""
    queue = f"queue://{topic}"

    async def play() -> None:
        async with at(gateway, window_messages=1) as client, client.consume(queue) as outgoing:
            with pytest.raises(RolledBack):  # noqa: PT012 (the block is what raises)
                async with client.transaction() as work:
                    beside = asyncio.create_task(client.publish(queue, "beside it"))
                    await asyncio.sleep(0)
                    late = asyncio.create_task(work.publish(queue, "late"))
                    await asyncio.sleep(0)
                    client.drop()
                    await beside
                    with pytest.raises(RolledBack):
                        await late
                    await client.publish(queue, "after it")
            assert await bodies(outgoing, 2) == ["beside it", "after it"]
            await nothing_more(client, outgoing, queue)

    run(play())
