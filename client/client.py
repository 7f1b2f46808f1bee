"""The client: one connection that comes back, and the application's operations over it."""

import asyncio
import logging
import uuid
from pathlib import Path
from types import TracebackType
from typing import Self

from distributary.client.client_publisher import Publisher, publish_for, publish_once
from distributary.client.client_subscription import Subscription
from distributary.client.client_transaction import Coordinator, Transaction
from distributary.client.connection.client_errors import (
    ClientClosed,
    ClientError,
    ConnectionFailed,
)
from distributary.client.connection.client_settings import ClientSettings, defaults
from distributary.client.connection.dialing import Dialing
from distributary.client.connection.link_terms import Node, SourceTerms, check_name
from distributary.client.connection.reconnecting import Reconnecting
from distributary.client.connection.sendable import check_text
from distributary.client.connection.server_url import Files, Server, server_of
from distributary.client.connection.wire import ClientLink, Wire
from distributary.client.outgoing_message import Content, Encoded, Message, encoded, encoded_body
from distributary.client.received_message import ReceivedMessage
from distributary.client.request_reply import Replies
from distributary.client.sender_link import SenderLink
from distributary.pipeline.errors import InvalidRequest

_log = logging.getLogger("distributary.client")


def connect(
    url: str,
    *others: str,
    user: str = "",
    password: str = "",
    container_id: str = "",
    ca: Path | str | None = None,
    certificate: Path | str | None = None,
    key: Path | str | None = None,
    prefetch: int | None = None,
    window_messages: int | None = None,
    open_seconds: float | None = None,
    give_up_seconds: float | None = None,
) -> "Client":
    """Return a client of the broker at `amqp[s]://user:password@host:port`, or of the first one of
    `others` that answers when it doesn't: `async with connect(url) as client`.

    `user` and `password` replace the URL's. `ca`, `certificate` and `key` are PEM files for TLS. A
    `container_id` names the client: durable subscriptions that aren't shared belong to it. Defaults
    of the other arguments are in `conf/client.toml`. The first connection is tried once; a lost
    connection is tried again for `give_up_seconds` (0: not at all). Raises InvalidRequest.
    """
    check_text("a container id", container_id)
    files = Files(*(Path(one) if one else None for one in (ca, certificate, key)))
    servers = tuple(server_of(one, user, password, files) for one in (url, *others))
    settings = defaults().having(
        prefetch=prefetch,
        window_messages=window_messages,
        open_seconds=open_seconds,
        give_up_seconds=give_up_seconds,
    )
    return Client(servers, container_id, settings)


def _attach(wire: Wire, link: ClientLink) -> None:
    wire.attach(link, link.name if isinstance(link, Subscription) else "")


class Client:
    """A client, made by `connect`, used as a context, on one event loop. Operations wait while
    there is no connection. Raises ClientError, each one sentence."""

    def __init__(
        self, servers: tuple[Server, ...], container_id: str, settings: ClientSettings
    ) -> None:
        self._settings = settings
        self._own_id = bool(container_id)
        self.container_id = container_id or f"distributary-{uuid.uuid4().hex[:12]}"
        self._dialing = Dialing(servers, self.container_id, settings.connection)
        self._reconnecting = Reconnecting(self._dialing, settings.reconnect)
        self._wire: Wire | None = None
        self._links: dict[ClientLink, None] = {}
        self._senders: dict[str, SenderLink] = {}
        self._coordinator: Coordinator | None = None
        self._replies: Replies | None = None
        self._supervisor: asyncio.Task[None] | None = None
        self._error: ClientError | None = None
        self._ids, self._prefix = 0, uuid.uuid4().hex[:16]
        self._numbers: dict[str, int] = {}

    async def __aenter__(self) -> Self:
        if self._supervisor is not None or self._error is not None:
            raise ClientClosed("a client is used once: connect anew")
        self._wire = await self._dialing.dial()
        self._supervisor = asyncio.create_task(self._supervise(self._wire))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        await self.close(flush=kind is None)

    # Operations of an application.

    async def publish(self, address: str, body: Content = None) -> None:
        """Publish to a topic (`orders`) or queue (`queue://jobs`), and return when the message is
        accepted. If the call is cancelled before the message was sent, it is never sent; later, the
        outcome is unknown. Raises NotAccepted, Refused, ConnectionFailed."""
        await publish_once(self.sender(address), self.encoded(body))

    def publisher(self, address: str) -> Publisher:
        """Return a publisher to one address, a context that has many messages under way."""
        return Publisher(self, self.sender(address))

    def subscribe(
        self,
        name: str,
        *,
        topic: str,
        selector: str = "",
        shared: bool = True,
        prefetch: int | None = None,
    ) -> Subscription:
        """Return a durable subscription to a topic: it is owed all messages that are published
        after its creation, until it is ended (`Subscription.unsubscribe`). If `shared`, all clients
        may consume it by its name; else it belongs to this client, by its container id, and has one
        consumer at a time. Raises InvalidRequest for a queue, which keeps its messages itself, and
        for a name that no link can have."""
        check_name(name, shared=shared)
        node = Node.of(topic if "://" in topic else f"topic://{topic}")
        if node.kind == "queue":
            raise InvalidRequest(
                f"subscription {name}: '{node}' is a queue, no topic: it keeps its messages by "
                "itself, so consume it without the name of a subscription"
            )
        if not shared and not self._own_id:
            raise InvalidRequest(
                f"subscription {name}: one that isn't shared belongs to a client: "
                "say connect(..., container_id=...)"
            )
        word = f"{name}|global" if shared else name
        number = self._number(word) if shared else 1
        more = "" if number == 1 else f"{number}"
        terms = SourceTerms(
            word + more,
            node,
            durable=True,
            shared=shared,
            selector=selector,
        )
        return self._subscription(terms, prefetch)

    def consume(
        self,
        address: str,
        *,
        selector: str = "",
        browse: bool = False,
        shared: str = "",
        prefetch: int | None = None,
    ) -> Subscription:
        """Consume a queue's messages, or a topic's from now on. `browse`: read a queue's messages
        and leave them there. `shared`: the name of a subscription that ends with its last consumer.
        Raises InvalidRequest where a topic is to be browsed, or a queue shared by name."""
        node = Node.of(address)
        if browse and node.kind == "topic":
            raise InvalidRequest(
                f"'{node}' is a topic, no queue: nothing waits there to be browsed, so browse a "
                "queue, or consume the topic"
            )
        if shared and node.kind == "queue":
            raise InvalidRequest(
                f"subscription {shared}: '{node}' is a queue, no topic: its consumers share it "
                "anyway, so consume it without the name of a subscription"
            )
        name = f"consumer-{uuid.uuid4().hex[:12]}"
        if shared:
            check_name(shared, shared=True)
            word = f"{shared}|global-volatile"
            name = f"{word}{self._number(word)}"
        terms = SourceTerms(
            name,
            node,
            shared=bool(shared),
            browse=browse,
            selector=selector,
        )
        return self._subscription(terms, prefetch)

    def transaction(self) -> Transaction:
        """Return a transaction: its publishes and accepts are done together, or not at all."""
        return Transaction(self)

    async def request(
        self, address: str, body: Content = None, *, seconds: float = 30.0
    ) -> ReceivedMessage:
        """Publish with an address for the answer, and return the answer. Raises TimeoutError, and
        ConnectionFailed where the connection is lost meanwhile: the answer can't come then."""
        self._check()
        if self._replies is None or self._replies.error is not None:
            self._replies = Replies(self, self._settings.consumer.prefetch)
        async with asyncio.timeout(seconds):
            await self._replies.begin()
            request_id = self._made_id()
            data = self._encoded_as(body, request_id, reply_to=self._replies.address)
            answer = self._replies.expect(request_id)
            try:
                return await publish_for(answer, self.sender(address), data)
            finally:
                answer.cancel()

    async def reply(self, request: ReceivedMessage, body: Content = None) -> None:
        """Answer a request. Raises InvalidRequest for a message that wants no answer."""
        if not request.reply_to:
            raise InvalidRequest(f"{request!r} names no address for an answer")
        asked = request.id if request.correlation_id is None else request.correlation_id
        data = self._encoded_as(body, self._made_id(), correlation_id=asked)
        await publish_once(self.sender(request.reply_to), data)

    @property
    def connected(self) -> bool:
        """Whether there is a connection now."""
        return self._wire is not None and self._wire.alive

    def drop(self) -> None:
        """Cut the connection, as a broken network does; it comes back by itself."""
        if self._wire is not None:
            self._wire.abort(ConnectionFailed("the connection was cut by this side"))

    async def close(self, *, flush: bool = True) -> None:
        """Give the subscriptions' unsettled messages back, wait for the outcomes of published
        messages (`flush`), and close the connection."""
        if self._error is not None and self._wire is None:
            return
        subscriptions = [link for link in self._links if isinstance(link, Subscription)]
        try:
            if self._replies is not None:
                await self._replies.close()
            for link in subscriptions:
                await link.close()
            async with asyncio.timeout(self._settings.connection.close_seconds):
                if flush and self._wire is not None:
                    await asyncio.gather(*(link.flush() for link in self._senders.values()))
                    await asyncio.gather(*(link.left() for link in subscriptions))
                self._error = self._error or ClientClosed("the client is closed")
                if (wire := self._wire) is not None:  # another one, if one was lost meanwhile
                    wire.close()
                    await asyncio.shield(wire.lost)
        except TimeoutError:
            pass
        finally:
            self._fail(ClientClosed("the client is closed"))
            await self._end()

    async def _end(self) -> None:
        """Stop connecting, and drop the connection that there is."""
        if (supervisor := self._supervisor) is not None:
            supervisor.cancel()
        if (wire := self._wire) is not None:
            wire.abort(ClientClosed("the client is closed"))
        if supervisor is not None:
            await asyncio.wait((supervisor,))

    # Operations of publishers, subscriptions and transactions.

    def sender(self, address: str) -> SenderLink:
        """Return the link that publishes to an address. Raises ClientError, InvalidRequest."""
        found = self._senders.get(address)
        if found is not None and found.error is None:
            return found
        settings = self._settings.publisher
        if len(self._senders) >= settings.links_max:
            self._drop_idle()
        link = SenderLink(Node.of(address), f"publisher-{uuid.uuid4().hex[:12]}", settings)
        self.attach(link)
        self._senders[address] = link
        return link

    def _drop_idle(self) -> None:
        """Close the oldest idle link."""
        for address, link in tuple(self._senders.items()):
            if link.idle:
                link.close()
                self._links.pop(link, None)
                del self._senders[address]
                return

    async def coordinator(self) -> Coordinator:
        """Return the coordinator of transactions, attached anew if the last one has ended."""
        if self._coordinator is None or self._coordinator.error is not None:
            self._coordinator = Coordinator()
            self.attach(self._coordinator)
        return self._coordinator

    def attach(self, link: ClientLink) -> None:
        """Attach a link on this connection and on each later one. Raises ClientError."""
        self._check()
        self._links = dict.fromkeys(one for one in self._links if one.error is None)
        if isinstance(link, Subscription):
            others = (one for one in self._links if isinstance(one, Subscription))
            if any(one.name == link.name for one in others):
                raise InvalidRequest(f"subscription {link.name} has its one consumer already")
        self._links[link] = None
        if self._wire is not None and self._wire.alive:
            _attach(self._wire, link)

    def _check(self) -> None:
        if self._error is not None:
            raise self._error
        if self._supervisor is None:
            raise InvalidRequest("a client connects with `async with connect(...) as client`")

    def detach(self, link: Subscription, *, closed: bool) -> None:
        """Detach a subscription's link; `closed` ends the subscription at the broker, too."""
        if self._links.pop(link, 0) is None and self._wire is not None:
            if link.link is not None:
                self._wire.forget(link.link, closed=closed)
            else:
                self._wire.names.withdraw(link.name)

    def encoded(self, body: Content) -> bytes:
        """Return the bytes of a message with an id of its own. Raises InvalidRequest."""
        if isinstance(body, Encoded):
            return body.data
        made = self._made_id()
        return encoded(body, made) if isinstance(body, Message) else encoded_body(body, made)

    def _encoded_as(
        self,
        body: Content,
        made_id: str,
        *,
        reply_to: str | None = None,
        correlation_id: str | uuid.UUID | int | bytes | None = None,
    ) -> bytes:
        if isinstance(body, Encoded):
            raise InvalidRequest("a request or an answer is made here: give its body or a Message")
        given = body if isinstance(body, Message) else Message(body=body)
        return encoded(given.answering(made_id, reply_to, correlation_id), made_id)

    def _made_id(self) -> str:
        self._ids += 1
        return f"{self._prefix}-{self._ids}"

    def _subscription(self, terms: SourceTerms, prefetch: int | None) -> Subscription:
        most = self._settings.consumer.prefetch if prefetch is None else prefetch
        if most < 1:
            raise InvalidRequest(f"prefetch can't be {most}: it is 1 at least")
        return Subscription(self, terms, most)

    def _number(self, word: str) -> int:
        """Return the next number for a name: a connection may have each link name only once."""
        self._numbers[word] = number = self._numbers.get(word, 0) + 1
        return number

    # The connection.

    async def _supervise(self, wire: Wire) -> None:
        """Connect again whenever the connection is lost, for `give_up_seconds`."""
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            reason = await asyncio.shield(wire.lost)
            self._wire = None
            if self._error is not None:
                return
            _log.warning("%s", reason)
            try:
                wire = await self._reconnecting.again(wire.server, loop.time() - began, reason)
            except ClientError as error:
                self._fail(error)
                return
            self._wire = wire
            _log.info("connected again to %s", wire)
            for link in tuple(self._links):
                if link.error is None:
                    _attach(wire, link)
                else:
                    del self._links[link]

    def _fail(self, error: ClientError) -> None:
        self._error = self._error or error
        links, self._links = self._links, {}
        for link in links:
            link.fail(error)
