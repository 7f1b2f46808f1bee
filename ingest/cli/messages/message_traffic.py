"""Publishing and consuming from the shell, with the Python client: one connection, one link. A lost
connection ends the run, and `failed` has the reason."""

import asyncio
import logging
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
from distributary.ingest.cli.messages.input_ahead import InputAhead
from distributary.jobs.client.management_client import Gateway
from distributary.pipeline.errors import InvalidRequest

#: Messages that a consumer asks for ahead; messages without an outcome when publishing.
CREDIT, WINDOW = 100, 1_000
#: Seconds in which messages that were sent get their outcomes when a run ends early.
LAST_SECONDS = 5.0
#: Seconds between two looks whether the connection is there.
WATCH_SECONDS = 0.5
#: Why a run ended by Ctrl-C.
INTERRUPTED = "interrupted"

logging.getLogger("distributary.client").addHandler(logging.NullHandler())  # the command says it


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
    """Sends all messages to an address, and waits until each has its outcome, however the run ends.
    `sent`, `accepted`, `rejected`: how many; `reason`: why the first one was rejected; `failed`:
    why the run ended early."""

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
        self._ahead: InputAhead[Message] | None = None
        self.sent = self.accepted = self.rejected = 0
        self.reason = self.failed = ""
        self.invalid: InvalidRequest | None = None  #: what is wrong with the next message

    def run(self) -> None:
        """Run until all messages have their outcome, until the first error, or until Ctrl-C."""
        try:
            asyncio.run(self._run())
        except ClientError as error:
            self._fail(str(error))
        except KeyboardInterrupt:  # before there was a connection, or again
            self._fail(INTERRUPTED)

    @property
    def reads(self) -> bool:
        """Whether a thread still waits for input. Then no ordinary end of the process is safe: it
        would wait for that thread."""
        return self._ahead is not None and self._ahead.reads

    def _fail(self, reason: str) -> None:
        self.failed = self.failed or reason
        if self._ahead is not None:
            self._ahead.end()

    async def _run(self) -> None:
        async with client_of(self._gateway) as client:
            self._ahead = InputAhead(self._messages)
            under_way: set[asyncio.Task[None]] = set()
            watch = asyncio.create_task(self._watch(client))
            try:
                await self._send_all(client, self._ahead, under_way)
            except InvalidRequest as error:
                self.invalid = error
            except asyncio.CancelledError:  # Ctrl-C: what is sent gets its outcome yet
                self._fail(INTERRUPTED)
            watch.cancel()
            if under_way:
                await asyncio.wait(under_way, timeout=LAST_SECONDS if self.failed else None)

    async def _send_all(
        self,
        client: Client,
        messages: "InputAhead[Message]",
        under_way: set[asyncio.Task[None]],
    ) -> None:
        client.sender(self._address)  # an address that can't be ends the run before it reads
        room, loop = asyncio.Semaphore(WINDOW), asyncio.get_running_loop()
        due = loop.time()
        while (message := await messages.next()) is not None and not self.failed:
            await room.acquire()
            self.sent += 1
            task = loop.create_task(self._publish(client, message, room))
            under_way.add(task)
            task.add_done_callback(under_way.discard)
            due += self._apart
            await asyncio.sleep(max(due - loop.time(), 0) if self._apart else 0)

    async def _watch(self, client: Client) -> None:
        """End the run when the connection is lost: while it waits for input no message tells."""
        while client.connected:  # noqa: ASYNC110 (the client has no event for it)
            await asyncio.sleep(WATCH_SECONDS)
        try:
            client.sender(self._address)
        except ClientError as error:
            self._fail(str(error))

    async def _publish(self, client: Client, message: Message, room: asyncio.Semaphore) -> None:
        try:
            await client.publish(self._address, message)
            self.accepted += 1
            self._told(self.accepted)
        except NotAccepted as error:
            self.rejected += 1
            self.reason = self.reason or str(error)
        except ClientError as error:
            self._fail(str(error))
        except InvalidRequest as error:  # it wasn't sent
            self.sent -= 1
            self.invalid = self.invalid or error
            self._fail(str(error))
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
