"""Requests, and the answers that belong to them."""

import asyncio

import pytest
from async_client import at, run
from gateway_process import Gateway

from distributary.client import InvalidRequest, Message


def test_an_answer_names_what_was_asked_by(gateway: Gateway, topic: str) -> None:
    """The correlation id of the request, whatever it is; its id only where there is none."""
    asked, answered = f"queue://{topic}", f"queue://{topic}-answers"
    ids = (0, "", b"", 7, None)

    async def play() -> list[object]:
        found: list[object] = []
        async with (
            at(gateway) as client,
            client.consume(asked) as requests,
            client.consume(answered) as answers,
        ):
            for one in ids:
                said = Message(id="own", correlation_id=one, reply_to=answered)
                await client.publish(asked, said)
                request = await anext(requests)
                await client.reply(request, "yes")
                await request.accept()
                answer = await anext(answers)
                await answer.accept()
                found.append(answer.correlation_id)
        return found

    assert run(play()) == [0, "", b"", 7, "own"]


def test_a_request_before_the_client_connects_spoils_no_later_one(
    gateway: Gateway, topic: str
) -> None:
    """It raises a sentence; the client, once it is connected, gets its answers and closes."""
    queue = f"queue://{topic}"

    async def play() -> object:
        client = at(gateway)
        with pytest.raises(InvalidRequest, match="async with"):
            await client.request(queue, "early")
        async with client, client.consume(queue) as requests:
            asking = asyncio.create_task(client.request(queue, "late"))
            request = await anext(requests)
            await client.reply(request, "yes")
            await request.accept()
            return (await asking).body

    assert run(play()) == "yes"
