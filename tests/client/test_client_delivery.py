"""Subscriptions, queues, outcomes, credit, cancellation."""

import asyncio
import signal
import subprocess
import sys
from array import array
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from async_client import at, bodies, nothing_more, run, taken, until
from gateway_process import Gateway

from distributary.client import (
    ClientClosed,
    ClientError,
    ConnectionFailed,
    Encoded,
    InvalidRequest,
    Message,
    NotAccepted,
    Refused,
)
from distributary.client.connection.client_settings import defaults
from distributary.client.connection.link_terms import Node
from distributary.client.outgoing_message import encoded
from distributary.client.sender_link import Entry, Once, SenderLink
from distributary.ingest.native.runs import Received


def test_a_durable_subscription_gathers_while_nobody_is_there(gateway: Gateway, topic: str) -> None:
    """The example of the room: two clients share the subscription by its name."""

    async def play() -> list[object]:
        async with at(gateway) as client, client.subscribe(topic, topic=topic):
            pass
        async with at(gateway) as client:
            await client.publish(topic, "while away")
            subscription, second = (client.subscribe(topic, topic=topic) for _ in range(2))
            found = await bodies(subscription, 1)
            await second.begin()
            with pytest.raises(Refused, match="amqp:resource-locked"):
                await second.unsubscribe()
            await subscription.unsubscribe()
            async with client.subscribe(topic, topic=topic) as afresh:
                await nothing_more(client, afresh, topic)
            return found

    assert run(play()) == ["while away"]
    created = [one["subscription"] for one in gateway.events("subscription.created")]
    assert created.count(f"global/{topic}") == 2


def test_consumers_share_a_subscription(gateway: Gateway, topic: str) -> None:
    """On one connection or on two: each message goes to one of them."""

    async def play() -> list[int]:
        async with at(gateway) as client, at(gateway) as other:
            shared = [
                client.subscribe(topic, topic=topic, prefetch=1),
                client.subscribe(topic, topic=topic, prefetch=1),
                other.subscribe(topic, topic=topic, prefetch=1),
            ]
            for one in shared:
                await one.begin()
            await asyncio.gather(*(client.publish(topic, n) for n in range(3)))
            return [body for one in shared for body in await bodies(one, 1)]

    assert sorted(run(play())) == [0, 1, 2]


def test_a_subscription_of_a_client_is_its_own(gateway: Gateway, topic: str) -> None:
    """Of one consumer where it isn't shared; and it needs a name for the client."""

    async def play() -> Refused:
        async with at(gateway, container_id=topic) as client:
            async with client.subscribe("own", topic=topic, shared=False) as messages:
                await client.publish(topic, 1)
                assert await bodies(messages, 1) == [1]
                with pytest.raises(InvalidRequest, match="one consumer already"):
                    await client.subscribe("own", topic=topic, shared=False).begin()
                async with at(gateway, container_id=topic) as other:
                    with pytest.raises(Refused) as refused:
                        await other.subscribe("own", topic=topic, shared=False).begin()
            return refused.value

    refused = run(play())
    assert refused.condition == "amqp:resource-locked"
    assert topic in str(refused)
    created = [one["subscription"] for one in gateway.events("subscription.created")]
    assert f"container/{topic}/own" in created
    with pytest.raises(InvalidRequest, match="container_id"):
        at(gateway).subscribe("own", topic=topic, shared=False)


def test_a_queue_is_no_topic(gateway: Gateway) -> None:
    """Each keeps its messages in its own way: what can't be meant is said before anything is asked
    of the gateway."""
    client = at(gateway)
    with pytest.raises(InvalidRequest, match="keeps its messages by itself"):
        client.subscribe("own", topic="queue://jobs")
    with pytest.raises(InvalidRequest, match="share it anyway"):
        client.consume("queue://jobs", shared="both")
    with pytest.raises(InvalidRequest, match="nothing waits there"):
        client.consume("topic://orders", browse=True)


def test_a_subscription_that_ends_with_its_last_consumer(gateway: Gateway, topic: str) -> None:
    """Two share it; with a selector."""

    async def play() -> None:
        async with at(gateway) as client:
            first = client.consume(topic, shared="both", selector="n > 1")
            second = client.consume(topic, shared="both", selector="n > 1")
            async with first, second:
                for n in range(4):
                    await client.publish(topic, Message(body=n, properties={"n": n}))
                both = [*await bodies(first, 1), *await bodies(second, 1)]
                assert sorted(both) == [2, 3]

    run(play())


def test_a_queue_is_worked_off_and_browsed(gateway: Gateway, topic: str) -> None:
    """Browsing changes nothing."""
    queue = f"queue://{topic}"

    async def play() -> None:
        async with at(gateway) as client:
            for n in range(3):
                await client.publish(queue, n)
            async with client.consume(queue, browse=True) as seen:
                assert [(await anext(seen)).body for _ in range(3)] == [0, 1, 2]
            async with client.consume(queue) as messages:
                assert await bodies(messages, 3) == [0, 1, 2]
                await nothing_more(client, messages, queue)

    run(play())


def test_each_outcome_means_what_it_says(gateway: Gateway, topic: str) -> None:
    """Released: again, and no attempt; modified: again, one attempt more; rejected: a dead letter;
    accepted: never again. The first outcome counts."""
    queue = f"queue://{topic}"

    async def play() -> None:
        async with at(gateway) as client, client.consume(queue, prefetch=1) as messages:
            await client.publish(queue, "one")
            counts = []
            for give in ("release", "modify", "modify"):
                message = await anext(messages)
                counts.append(message.delivery_count)
                await getattr(message, give)()
                await message.accept()
            message = await anext(messages)
            counts.append(message.delivery_count)
            await message.reject("app:broken", "no such pizza")
            assert counts == [0, 0, 1, 2]
            dead = await anext(client.consume(f"queue://DLQ.queue/{topic}"))
            assert dead.body == "one"
            await dead.accept()
            await nothing_more(client, messages, queue)

    run(play())


def test_no_more_than_prefetch_is_held(gateway: Gateway, topic: str) -> None:
    """A slow consumer leaves the others to another one: even when it settles a part of them."""
    queue = f"queue://{topic}"

    async def play() -> None:
        async with at(gateway) as client, at(gateway) as other:
            slow = client.consume(queue, prefetch=8)
            async with client.publisher(queue) as publisher:
                for n in range(30):
                    await publisher.send(n)
            held = [await anext(slow) for _ in range(8)]
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):  # the stimulus: it asks for one more
                    await anext(slow)
            async with other.consume(queue) as fast:
                assert await bodies(fast, 22) == list(range(8, 30))
            await client.publish(queue, 30)
            await client.publish(queue, 31)
            await held[0].accept()
            assert (await anext(slow)).body == 30
            for message in held[1:4]:
                await message.accept()
            assert (await anext(slow)).body == 31

    run(play())


def test_what_a_closing_consumer_holds_goes_back(gateway: Gateway, topic: str) -> None:
    """Messages that it has seen get a failed attempt, the others don't; an outcome given after that
    is ignored."""
    queue = f"queue://{topic}"

    async def play() -> None:
        async with at(gateway) as client:
            for n in range(3):
                await client.publish(queue, n)
            async with client.consume(queue) as first:
                seen = await anext(first)
            await seen.accept()
            with pytest.raises(ClientClosed):
                await first.begin()
            assert [one async for one in first] == []
            async with client.consume(queue) as second:
                back = await taken(second, 3)
            assert sorted((one.body, one.delivery_count) for one in back) == [
                (0, 1),
                (1, 0),
                (2, 0),
            ]

    run(play())


KILLED = """
import asyncio, sys
from distributary.client import connect

async def hold():
    async with connect(sys.argv[1]) as client:
        async for message in client.consume(sys.argv[2]):
            print(message.body, flush=True)

asyncio.run(hold())
"""


def test_what_a_killed_client_held_comes_again(gateway: Gateway, topic: str) -> None:
    """With one more attempt, as its outcome is unknown."""
    queue, url = f"queue://{topic}", f"amqp://127.0.0.1:{gateway.port}"

    async def publish() -> None:
        async with at(gateway) as client:
            await client.publish(queue, "held")

    async def again() -> None:
        async with at(gateway) as client, client.consume(queue) as messages:
            (message,) = await taken(messages, 1)
            assert (message.body, message.delivery_count) == ("held", 1)

    run(publish())
    command = [sys.executable, "-c", KILLED, url, queue]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == "held\n"
        client.send_signal(signal.SIGKILL)
    run(again())


def test_a_cancelled_wait_loses_no_message(gateway: Gateway, topic: str) -> None:
    """The next waiter gets it; also when two wait and one of them gives up."""

    async def play() -> None:
        async with at(gateway) as client, client.consume(topic) as messages:
            for n in range(5):
                waiting = [asyncio.create_task(anext(messages)) for _ in range(2)]
                await asyncio.sleep(0)
                waiting[0].cancel()
                await client.publish(topic, n)
                message = await waiting[1]
                assert message.body == n
                await message.accept()
                assert waiting[0].cancelled()

    run(play())


def test_a_wait_that_is_cancelled_with_its_message_wakes_the_next(
    gateway: Gateway, topic: str
) -> None:
    """The message came for the first of two waiters, which gives up in that turn of the loop."""
    data = encoded(Message(body="for both"), "id")
    one, size = array("I", [len(data)]).tobytes(), array("I", [0]).tobytes()
    came = Received(0, 1, data, one, b"\0", b"\4", size, bytes(8), 0, size, size)

    async def play() -> object:
        async with at(gateway) as client, client.consume(topic) as messages:
            first, second = (asyncio.create_task(anext(messages)) for _ in range(2))
            await asyncio.sleep(0)
            messages.received(came)
            first.cancel()
            found = await second
            assert first.cancelled()
            return found.body

    assert run(play()) == "for both"


def test_a_cancelled_publish_that_waits_for_credit_never_goes(gateway: Gateway, topic: str) -> None:
    """Its link isn't attached yet."""

    async def play() -> None:
        async with at(gateway) as client, client.consume(topic) as messages:
            publishing = asyncio.create_task(client.publish(topic, "never"))
            await asyncio.sleep(0)
            publishing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await publishing
            await nothing_more(client, messages, topic)

    run(play())


def test_a_cancelled_publish_that_waits_for_room_never_goes(gateway: Gateway, topic: str) -> None:
    """Others after it go, and a window stays one."""

    async def play() -> list[object]:
        async with at(gateway, window_messages=1) as client, client.consume(topic) as messages:
            publishes = [asyncio.create_task(client.publish(topic, n)) for n in range(20)]
            await asyncio.sleep(0)
            for publish in publishes[1::2]:
                publish.cancel()
            await asyncio.gather(*publishes, return_exceptions=True)
            await client.publish(topic, "end")
            return await bodies(messages, 11)

    assert run(play()) == [*range(0, 20, 2), "end"]


def test_publishing_is_pipelined_and_in_order(gateway: Gateway, topic: str) -> None:
    """By gather and by a publisher; windows of three."""

    async def play() -> list[object]:
        async with at(gateway, window_messages=3) as client, client.consume(topic) as messages:
            await asyncio.gather(*(client.publish(topic, n) for n in range(20)))
            async with client.publisher(topic) as publisher:
                for n in range(20, 40):
                    await publisher.send(n)
                await publisher.flush()
                assert publisher.count == 20
            return await bodies(messages, 40)

    assert run(play()) == list(range(40))


def test_a_message_that_is_not_accepted_raises(gateway: Gateway, topic: str) -> None:
    """With the broker's own words; the messages beside it are accepted."""

    async def play() -> tuple[BaseException, ...]:
        async with at(gateway) as client:
            bad = "temp-queue://nobody/none"
            with pytest.raises(Refused) as first:
                await client.publish(bad, "x")
            with pytest.raises(Refused) as second:
                async with client.publisher(bad) as publisher:
                    await publisher.send("x")
            await client.publish(topic, "fine")
            return first.value, second.value

    for error in run(play()):
        assert "temp-queue://nobody/none" in str(error)
        assert "\n" not in str(error)


@pytest.fixture
def narrow(tmp_path: Path) -> Iterator[Gateway]:
    """A gateway whose queues take two messages."""
    with Gateway(tmp_path, {"topic": {"backlog_messages_max": 2}}) as running:
        yield running


def test_a_rejected_message_says_why(narrow: Gateway, topic: str) -> None:
    """A backlog that is full: the reason of each message is its own."""
    queue = f"queue://{topic}"

    async def play() -> NotAccepted:
        async with at(narrow) as client, client.consume(queue, prefetch=1):
            await client.publish(queue, 1)
            with pytest.raises(NotAccepted) as rejected:  # noqa: PT012 (the block is what raises)
                for n in range(10):
                    await client.publish(queue, n)
            return rejected.value

    error = run(play())
    assert (error.outcome, error.condition) == ("rejected", "amqp:resource-limit-exceeded")
    assert queue in str(error)


def test_large_messages_go_and_come(gateway: Gateway, topic: str) -> None:
    """Of many frames; one that is larger than the gateway takes fails with its reason, alone."""
    large = bytes(range(256)) * 12_000

    async def play() -> NotAccepted:
        async with at(gateway) as client, client.consume(topic) as messages:
            for body in (b"small", large, b"small"):
                await client.publish(topic, body)
            assert await bodies(messages, 3) == [b"small", large, b"small"]
            publisher = client.publisher(topic)
            for body in ("before", large * 6, "beside", "and on"):
                await publisher.send(body)
            with pytest.raises(NotAccepted) as refused:
                await publisher.flush()
            assert await bodies(messages, 3) == ["before", "beside", "and on"]
            return refused.value

    assert run(play()).condition == "amqp:link:message-size-exceeded"


def test_a_refused_subscription_can_be_tried_again(gateway: Gateway, topic: str) -> None:
    """When its other consumer is gone."""

    async def play() -> None:
        async with at(gateway, container_id=topic) as client:
            other = at(gateway, container_id=topic)
            async with other, other.subscribe("own", topic=topic, shared=False):
                with pytest.raises(Refused):
                    await client.subscribe("own", topic=topic, shared=False).begin()
            async with client.subscribe("own", topic=topic, shared=False) as messages:
                await nothing_more(client, messages, topic)

    run(play())


def test_requests_go_on_behind_a_lost_connection(gateway: Gateway, topic: str) -> None:
    """The queue for answers is another one then: a request that was under way fails at once, and
    one that is made before the connection is there again is answered."""
    queue = f"queue://{topic}"

    async def play() -> None:
        async with at(gateway) as server, at(gateway) as client, server.consume(queue) as requests:

            async def answered(body: str) -> object:
                asking = asyncio.create_task(client.request(queue, body))
                request = await anext(requests)
                assert request.body == body
                await server.reply(request, f"{body}, answered")
                await request.accept()
                return (await asking).body

            lost = asyncio.create_task(client.request(queue, "lost"))
            unanswered = await anext(requests)
            client.drop()
            with pytest.raises(ConnectionFailed, match="the answer can't come"):
                await lost
            await unanswered.accept()
            assert await answered("again") == "again, answered"
            client.drop()
            with pytest.raises(ConnectionFailed, match="the answer can't come"):
                await client.request(queue, "never sent")  # with the address of before
            assert await answered("at last") == "at last, answered"

    run(play())


def test_a_message_that_got_its_room_fails_with_its_link() -> None:
    """Outcomes make room, and the broker ends the link in the same read."""

    async def play() -> None:
        loop = asyncio.get_running_loop()
        settings = msgspec.structs.replace(defaults().publisher, window_messages=1)
        link = SenderLink(Node.of("orders"), "publisher", settings)
        first = Entry(b"first", Once(loop))
        await link.put(first)
        waiting = asyncio.create_task(link.put(Entry(b"second", Once(loop))))
        await asyncio.sleep(0)  # it waits for room
        assert link.take_back(first)
        link.fail(ClientError("the link has ended"))
        with pytest.raises(ClientError, match="the link has ended"):
            await waiting
        assert link.idle

    run(play())


def test_one_that_is_closed_before_it_is_attached_ends(gateway: Gateway, topic: str) -> None:
    """A task waits for its first message while there is no connection; another one closes it."""

    async def play() -> None:
        async with at(gateway) as client:
            client.drop()
            await until(lambda: not client.connected, "the connection is lost")
            incoming, entered = client.consume(topic), client.consume(topic)
            message = asyncio.create_task(anext(incoming, None))
            entering = asyncio.create_task(entered.begin())
            await asyncio.sleep(0)  # they wait for the broker's answer
            await incoming.close()
            await entered.close()
            assert await message is None
            with pytest.raises(ClientClosed):
                await entering

    run(play())


def test_an_answer_that_cannot_be_read_disturbs_no_other(gateway: Gateway, topic: str) -> None:
    """Its properties are no properties: the next request is answered all the same."""
    queue = f"queue://{topic}"
    unreadable = bytes.fromhex("005373c00706404040404045005377a10178")

    async def play() -> None:
        async with at(gateway) as server, at(gateway) as client:

            async def serve() -> None:
                async for request in server.consume(queue):
                    if request.body == "badly":
                        await server.publish(str(request.reply_to), Encoded(unreadable))
                    else:
                        await server.reply(request, "well")
                    await request.accept()

            serving = asyncio.create_task(serve())
            with pytest.raises(TimeoutError):
                await client.request(queue, "badly", seconds=0.2)
            assert (await client.request(queue, "well")).body == "well"
            serving.cancel()
            await asyncio.wait((serving,))

    run(play())


def test_requests_are_answered(gateway: Gateway, topic: str) -> None:
    """Many at once, each its own answer; a request without one is late."""
    queue = f"queue://{topic}"

    async def play() -> list[object]:
        async with at(gateway) as client, at(gateway) as server:

            async def serve() -> None:
                async for request in server.consume(queue):
                    if request.body != "silence":
                        await server.reply(request, f"re: {request.body}")
                    await request.accept()

            serving = asyncio.create_task(serve())
            answers = await asyncio.gather(*(client.request(queue, n) for n in range(5)))
            with pytest.raises(TimeoutError):
                await client.request(queue, "silence", seconds=0.05)
            serving.cancel()
            with pytest.raises(InvalidRequest, match="no address"):
                await client.reply(answers[0], "and you?")
            return [answer.body for answer in answers]

    assert run(play()) == [f"re: {n}" for n in range(5)]


def test_few_links_serve_many_addresses(gateway: Gateway, topic: str) -> None:
    """More addresses than a client keeps links for, in turn."""

    async def play() -> None:
        async with at(gateway) as client:
            for n in range(70):
                await client.publish(f"{topic}/{n}", n)

    run(play())
