"""Publishing and consuming from the shell, with the Python client: one connection, one link. A lost
connection ends the run, and `failed` has the reason."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from distributary.client import (
    Client,
    ClientError,
    Message,
    NotAccepted,
    ReceivedMessage,
    Subscription,
    connect,
)
from distributary.jobs.client.management_client import Gateway

#: Messages that a consumer asks for ahead; messages without an outcome when publishing.
CREDIT, WINDOW = 100, 1_000
#: Turns of the loop in which a message that the client took is written.
_TURNS = 2


def client_of(gateway: Gateway, container_id: str = "") -> Client:
    """Return a client of this gateway."""
    return connect(
        gateway.url,
        user=gateway.user,
        password=gateway.password,
        container_id=container_id,
        ca=gateway.authority,
        certificate=gateway.certificate,
        key=gateway.key,
        open_seconds=gateway.open_seconds,
        give_up_seconds=0,
    )


class Publishing:
    """Sends all messages to an address, and waits until each is accepted. `rejected`: how many
    weren't; `reason`: why the first one wasn't."""

    def __init__(
        self,
        gateway: Gateway,
        address: str,
        messages: Iterator[Message],
        told: Callable[[int], None],
        seconds_apart: float = 0.0,
    ) -> None:
        """`told` is called with the number of accepted ones. `seconds_apart`: between two
        messages."""
        self._gateway, self._address, self._messages = gateway, address, messages
        self._told, self._apart = told, seconds_apart
        self.sent = self.accepted = self.rejected = 0
        self.reason = self.failed = ""

    def run(self) -> None:
        """Run until all messages have their outcome, or until the first error."""
        try:
            asyncio.run(self._run())
        except ClientError as error:
            self.failed = str(error)
        except BaseExceptionGroup as errors:  # an error of one publish, or of the messages
            first = errors.exceptions[0]
            if not isinstance(first, ClientError):
                raise first from None
            self.failed = str(first)

    async def _run(self) -> None:
        room, loop = asyncio.Semaphore(WINDOW), asyncio.get_running_loop()
        async with client_of(self._gateway) as client, asyncio.TaskGroup() as tasks:
            due = loop.time()
            for message in self._messages:
                await room.acquire()
                self.sent += 1
                tasks.create_task(self._publish(client, message, room))
                due += self._apart
                await asyncio.sleep(max(due - loop.time(), 0) if self._apart else 0)
                for _ in range(_TURNS):  # the next line may be long in coming
                    await asyncio.sleep(0)

    async def _publish(self, client: Client, message: Message, room: asyncio.Semaphore) -> None:
        try:
            await client.publish(self._address, message)
            self.accepted += 1
            self._told(self.accepted)
        except NotAccepted as error:
            self.rejected += 1
            self.reason = self.reason or str(error)
        finally:
            room.release()


@dataclass(frozen=True, slots=True)
class Consumption:
    """Address and kind of a consumer. It ends after `most` messages (0: no limit), or after `quiet`
    seconds without a message (0: never)."""

    address: str
    durable: str | None = None
    shared: bool = False
    selector: str | None = None
    browse: bool = False
    most: int = 0
    quiet: float = 0.0

    @property
    def container_id(self) -> str:
        """Client id that owns a durable subscription that isn't shared; else empty."""
        return "distributary-cli" if self.durable and not self.shared else ""

    def of(self, client: Client) -> Subscription:
        """Return the subscription or queue to read."""
        selector, ahead = self.selector or "", min(CREDIT, self.most or CREDIT)
        if self.durable:
            return client.subscribe(
                self.durable,
                topic=self.address,
                selector=selector,
                shared=self.shared,
                prefetch=ahead,
            )
        return client.consume(self.address, selector=selector, browse=self.browse, prefetch=ahead)


class Consuming:
    """Gives each message to `take`, then accepts it, until the consumption ends."""

    def __init__(
        self, gateway: Gateway, wanted: Consumption, take: Callable[[ReceivedMessage], None]
    ) -> None:
        """`take` may raise: then the message isn't accepted."""
        self._gateway, self._wanted, self._take = gateway, wanted, take
        self.count = 0
        self.failed = ""

    def run(self) -> None:
        """Run until the consumption ends, or until the first error."""
        try:
            asyncio.run(self._run())
        except ClientError as error:
            self.failed = str(error)

    async def _run(self) -> None:
        wanted = self._wanted
        client = client_of(self._gateway, wanted.container_id)
        async with client, wanted.of(client) as messages:
            while not wanted.most or self.count < wanted.most:
                try:
                    async with asyncio.timeout(wanted.quiet or None):
                        message = await anext(messages)
                except TimeoutError:
                    return
                self._take(message)
                self.count += 1
                await message.accept()
