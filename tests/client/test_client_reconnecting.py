"""A lost connection comes again: from the same server or the next one, within the time that there
is."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from async_client import run
from gateway_process import PATIENCE, Gateway

from distributary.client import Client, ConnectionFailed, LoginRefused, connect
from distributary.pipeline.codec.amqp_codes import Descriptor, descriptor
from distributary.pipeline.codec.amqp_types import Symbol
from distributary.pipeline.codec.amqp_writer import write
from distributary.pipeline.codec.raw_values import list_of

_PLAIN = descriptor(Descriptor.SASL_MECHANISMS) + list_of([write(Symbol("PLAIN"))])
#: Of a server that takes logins with a password alone.
LOGIN = b"AMQP\3\1\0\0" + (8 + len(_PLAIN)).to_bytes(4, "big") + b"\2\1\0\0" + _PLAIN


class Door:
    """A way to a gateway. `way`: `open`; `silent`, where connections are taken and nothing is
    said; `shut`, where they are cut; `login`, where anonymous users aren't let in."""

    def __init__(self, gateway: Gateway, way: str) -> None:
        self._gateway, self.way = gateway, way
        self.port = self.came = 0
        self._sockets: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"amqp://127.0.0.1:{self.port}"

    @asynccontextmanager
    async def ajar(self) -> AsyncIterator[None]:
        """It is there."""
        server = await asyncio.start_server(self._come, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield
        finally:
            server.close()
            self.cut()
            await asyncio.gather(*self._tasks)

    def cut(self) -> None:
        """All that goes through it is cut."""
        for one in self._sockets:
            one.transport.abort()

    def _come(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tasks.add(asyncio.create_task(self._lead(reader, writer)))

    async def _lead(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.came += 1
        self._sockets.add(writer)
        match self.way:
            case "open":
                there = await asyncio.open_connection("127.0.0.1", self._gateway.port)
                self._sockets.add(there[1])
                await asyncio.gather(_pass(reader, there[1]), _pass(there[0], writer))
            case "login":
                writer.write(LOGIN)
                await _pass(reader, None)
            case "silent":
                await _pass(reader, None)
            case _:
                writer.transport.abort()


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter | None) -> None:
    try:
        while data := await reader.read(1 << 16):
            if writer is not None:
                writer.write(data)
    except ConnectionError:
        pass
    if writer is not None:
        writer.transport.abort()


async def behind(client: Client, door: Door, way: str) -> None:
    """The connection is lost, and the way back is this one."""
    door.way = way
    door.cut()
    while client.connected:  # noqa: ASYNC110 (its loss is no event of the client's)
        await asyncio.sleep(0)


def test_a_silent_server_is_given_up_in_time(gateway: Gateway, topic: str) -> None:
    """However long the client waits for a server, its calls raise after `give_up_seconds`."""

    async def play() -> None:
        door = Door(gateway, "open")
        async with (
            door.ajar(),
            connect(door.url, open_seconds=3 * PATIENCE, give_up_seconds=0.5) as client,
        ):
            await behind(client, door, "silent")
            with pytest.raises(ConnectionFailed, match="given up"):
                await client.publish(topic, "x")

    run(play())


def test_a_silent_server_leaves_time_for_the_next_one(gateway: Gateway, topic: str) -> None:
    """Each has its part of the time that is left; afterwards the one that answered comes first."""

    async def play() -> int:
        door, good = Door(gateway, "open"), f"amqp://127.0.0.1:{gateway.port}"
        async with (
            door.ajar(),
            connect(
                door.url, good, open_seconds=3 * PATIENCE, give_up_seconds=PATIENCE / 15
            ) as client,
        ):
            await behind(client, door, "silent")
            await client.publish(topic, "x")
            client.drop()
            await client.publish(topic, "y")
            return door.came

    assert run(play()) == 2


def test_a_refused_login_ends_nothing_while_another_server_may_come(
    gateway: Gateway, topic: str
) -> None:
    """The client gives up at once where all servers refuse its login."""

    async def play() -> None:
        wrong, right = Door(gateway, "login"), Door(gateway, "open")
        async with wrong.ajar(), right.ajar(), connect(wrong.url, right.url) as client:
            await behind(client, right, "shut")
            waiting = asyncio.create_task(client.publish(topic, "x"))
            came = wrong.came
            while wrong.came < came + 2 and not waiting.done():  # noqa: ASYNC110 (as above)
                await asyncio.sleep(0.005)
            right.way = "open"
            await waiting
            await behind(client, right, "login")
            with pytest.raises(LoginRefused):
                await client.publish(topic, "y")

    run(play())
