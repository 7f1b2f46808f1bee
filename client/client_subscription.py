"""A subscription, a queue's consumer, a browser: messages that come, and the outcomes they get.

Rule 1: at most `prefetch` messages are here without an outcome, waiting or with the application:
        each outcome gives the broker one more credit.
Rule 2: an epoch lasts from one connection to the next. Messages of an earlier epoch are the
        broker's again: they aren't handed out any more, and outcomes for them are ignored.
Rule 3: at close, a message that the application has seen and not settled goes back as a failed
        attempt; a message that it hasn't seen is released. None of them has another outcome.
Rule 4: the queue of an address that the broker makes is a connection's own: after a loss `address`
        is known again once the next one has attached.
"""

import asyncio
import sys
from array import array
from collections import deque
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, Self

import cproton
from cproton import lib as proton

from distributary.client.connection.client_errors import (
    ClientClosed,
    ClientError,
    ConnectionFailed,
    Refused,
    RolledBack,
)
from distributary.client.connection.link_terms import SourceTerms, open_receiver
from distributary.client.connection.wire import Wire
from distributary.client.received_message import ReceivedMessage
from distributary.client.sender_link import put_transaction
from distributary.ingest.native import pump as pumping
from distributary.ingest.native.runs import Outcomes, Received
from distributary.pipeline.codec.amqp_codes import Descriptor

_ACCEPTED, _MODIFIED = int(Descriptor.ACCEPTED), int(Descriptor.MODIFIED)
_RELEASED = int(Descriptor.RELEASED)


class Attaching(Protocol):
    """The `Client`, which attaches links on each connection anew."""

    def attach(self, link: "Subscription") -> None:
        """Attach a link on this connection and later ones, until `detach`. Raises ClientError."""

    def detach(self, link: "Subscription", *, closed: bool) -> None:
        """Detach a link; `closed` ends its subscription, too."""


@dataclass(slots=True)
class _Batch:
    """Messages that came together, and how many of them are handed out."""

    blob: bytes
    offsets: "memoryview[int]"
    deliveries: "memoryview[int]"
    count: int
    next: int = 0


class Subscription:
    """An asynchronous iterator over messages. It attaches at the first `anext` or at `async with`,
    and ends with that block, with `close`, or with the client. Raises Refused where the broker
    refuses or ends it."""

    def __init__(self, client: Attaching, terms: SourceTerms, prefetch: int) -> None:
        self._client, self._terms, self._prefetch = client, terms, prefetch
        self._loop = asyncio.get_running_loop()
        self._wire: Wire | None = None
        self._link: Any = None
        self._batches: deque[_Batch] = deque()
        #: Deliveries that were handed out in this epoch and have no outcome.
        self._seen: set[int] = set()
        #: Outcomes to send, in runs of one state.
        self._outcomes: list[tuple[int, array[int]]] = []
        self._owed = 0  #: credit to give
        self._epoch = 0
        self._begun = self._over = False
        self.error: ClientError | None = None
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._leaving: asyncio.Future[None] | None = None
        self.address = str(terms.node or "a temporary queue")

    def __str__(self) -> str:
        return self.address

    async def __aenter__(self) -> Self:
        try:
            await self.begin()
        except BaseException:  # a block that isn't entered has no end, where it would be closed
            await self.close()
            raise
        return self

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        await self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ReceivedMessage:
        """Return the next message. Cancelling the call loses no message."""
        while True:
            if self._batches:
                return self._take(self._batches[0])
            if self.error is not None:
                raise self.error
            if self._over:
                raise StopAsyncIteration
            await self._attach()
            if not (self._batches or self._over):
                await self._wait()

    async def begin(self) -> None:
        """Attach, and wait for the broker's answer: messages that are published from then on are
        delivered. Raises Refused, ClientClosed."""
        await self._attach()
        if self._over:
            raise ClientClosed(f"the subscription to {self} is closed")

    async def _attach(self) -> None:
        """Attach where it isn't closed, and wait for the answer, or until it is closed. Raises
        Refused."""
        if self._over:
            return
        if not self._begun:
            self._client.attach(self)
            self._begun = True
        if not self._ready.done():
            await asyncio.shield(self._ready)
        if self.error is not None and not self._batches:
            raise self.error

    def _take(self, batch: _Batch) -> ReceivedMessage:
        at = batch.next
        batch.next = at + 1
        if at + 1 == batch.count:
            self._batches.popleft()
        delivery, offsets = batch.deliveries[at], batch.offsets
        if delivery:
            self._seen.add(delivery)
        else:
            self._give_credit(1)
        data = batch.blob[offsets[at] : offsets[at + 1]]
        return ReceivedMessage(self, data, delivery, self._epoch)

    async def _wait(self) -> None:
        waiter = self._loop.create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
            else:
                self._wake(1)  # another waiter takes the message
            raise

    def _wake(self, count: int) -> None:
        while count and self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                count -= 1

    async def close(self) -> None:
        """Stop consuming. A durable subscription stays at the broker and goes on gathering."""
        self._end(closed=not self._terms.durable)

    async def unsubscribe(self) -> None:
        """End a durable subscription and drop the messages that it is owed. Raises Refused where it
        doesn't exist or has other consumers."""
        await self.begin()
        if self._leaving is None:
            if self._wire is None:
                raise ConnectionFailed(f"the connection is away: {self} can't be ended now")
            self._give_back()
            self._leaving = self._loop.create_future()
            self._wire.end(self._link)
        await asyncio.shield(self._leaving)  # of all tasks that end it

    async def left(self) -> None:
        """Wait until an `unsubscribe` under way has its answer, whatever that is."""
        if self._leaving is not None:
            await asyncio.wait((self._leaving,))

    def _end(self, *, closed: bool) -> None:
        if self._over:
            return
        self._over = True
        if self._leaving is None:  # else the broker's answer to its end is still to come
            if self._begun and self.error is None:
                self._give_back()
                self._client.detach(self, closed=closed)
            self._gone()
        self._go_on()

    def _go_on(self) -> None:
        """Wake all tasks that wait: it is over."""
        if not self._ready.done():
            self._ready.set_result(None)
        self._wake(len(self._waiters))

    def _give_back(self) -> None:
        """Rule 3."""
        if self._wire is None:
            return
        for delivery in self._seen:
            _modify(delivery, failed=True, undeliverable=False)
        for batch in self._batches:
            self._say(_RELEASED, *(one for one in batch.deliveries[batch.next :] if one))
        self.perform()
        self._seen.clear()  # settled, they are the engine's to free
        self._batches.clear()

    # Outcomes.

    def settle(self, message: ReceivedMessage, state: int) -> None:
        if delivery := self._taken_from(message):
            self._say(state, delivery)
            self._give_credit(1)

    def reject(self, message: ReceivedMessage, condition: str, description: str) -> None:
        if delivery := self._mine(message):
            pumping.reject(delivery.to_bytes(8, sys.byteorder), condition, description)

    def modify(self, message: ReceivedMessage, *, failed: bool, undeliverable: bool) -> None:
        if delivery := self._mine(message):
            _modify(delivery, failed=failed, undeliverable=undeliverable)

    def is_of(self, client: object) -> bool:
        """Whether this client made the subscription."""
        return self._client is client

    def settle_in(self, message: ReceivedMessage, work: bytes) -> None:
        """Accept a message within a transaction. Raises RolledBack if it is the broker's again."""
        if not (mine := self._mine(message)):
            raise RolledBack(f"a message of {self} isn't this consumer's any more")
        delivery = _pointer(mine)
        put_transaction(delivery, work, _ACCEPTED)
        proton.pn_delivery_settle(delivery)

    def _mine(self, message: ReceivedMessage) -> int:
        """Return the delivery of a message that may have an outcome, else 0. Earlier outcomes are
        sent then, and the caller must give it one now."""
        if delivery := self._taken_from(message):
            self._say_all()
            self._give_credit(1)
        return delivery

    def _taken_from(self, message: ReceivedMessage) -> int:
        """Take the delivery from a message that may have an outcome, and return it; else 0. A
        message has it once: the engine uses its address again for a later message."""
        delivery = message.delivery
        if message.epoch != self._epoch or delivery not in self._seen:
            return 0
        self._seen.remove(delivery)
        message.delivery = 0
        return delivery

    def _say(self, state: int, *deliveries: int) -> None:
        if not self._outcomes or self._outcomes[-1][0] != state:
            self._outcomes.append((state, array("Q")))
        self._outcomes[-1][1].extend(deliveries)

    def _say_all(self) -> None:
        for state, deliveries in self._outcomes:
            pumping.settle(deliveries.tobytes(), state)
        self._outcomes.clear()

    def _give_credit(self, count: int) -> None:
        self._owed += count
        if self._wire is not None:
            self._wire.touch(self)

    # The connection's side.

    def make(self, wire: Wire) -> Any:
        self._wire, self._owed = wire, self._prefetch
        self._epoch += 1
        self._link = open_receiver(wire.session, self._terms)
        return self._link

    def opened(self) -> None:
        if self._terms.node is None:
            source = proton.pn_link_remote_source(self._link)
            self.address = cproton.pn_terminus_get_address(source) or self.address
        if not self._ready.done():
            self._ready.set_result(None)

    def received(self, received: Received) -> None:
        offsets = memoryview(pumping.offsets(received.lengths, received.count)).cast("i")
        deliveries = memoryview(received.deliveries).cast("Q")
        self._batches.append(_Batch(received.blob, offsets, deliveries, received.count))
        if self._leaving is not None:
            self._give_back()
        self._wake(received.count)

    def settled(self, outcomes: Outcomes) -> None:
        """Do nothing: a receiver sends no messages."""

    def perform(self) -> None:
        if self._link is None:
            return
        self._say_all()
        if not self._owed or self._over or self._leaving is not None:
            return
        # Few frames: credit goes when a quarter of it is owed, or little is left at the broker.
        quarter = self._prefetch / 4
        if self._owed >= quarter or proton.pn_link_credit(self._link) < quarter:
            proton.pn_link_flow(self._link, self._owed)
            self._owed = 0

    def passed(self) -> None:
        """Do nothing: the pump reports all events."""

    def lost(self) -> None:
        self._gone()
        lives = self.error is None and not self._over
        if self._terms.node is None and self._ready.done() and lives:
            self._ready = self._loop.create_future()  # rule 4
        if self._leaving is not None:
            self.fail(ConnectionFailed(f"the connection was lost while {self} was being ended"))

    def _gone(self) -> None:
        self._wire = self._link = None
        self._epoch += 1
        self._batches.clear()
        self._seen.clear()
        self._outcomes.clear()

    @property
    def name(self) -> str:
        """The link's name, unique on a connection."""
        return self._terms.name

    @property
    def link(self) -> Any:
        """Proton's link on this connection; None where there is none."""
        return self._link

    def fail(self, error: ClientError) -> None:
        """End the iteration with this error."""
        self._gone()
        leaving = self._leaving
        if leaving is not None and not leaving.done():
            self._over = True
            self._client.detach(self, closed=False)
            if isinstance(error, Refused) and not error.condition:
                leaving.set_result(None)
                self._go_on()
                return
            leaving.set_exception(error)
        self.error = self.error or error
        self._go_on()


def _pointer(delivery: int) -> Any:
    return cproton.ffi.cast("pn_delivery_t *", delivery)


def _modify(delivery: int, *, failed: bool, undeliverable: bool) -> None:
    pointer = _pointer(delivery)
    said = proton.pn_delivery_local(pointer)
    proton.pn_disposition_set_failed(said, failed)
    proton.pn_disposition_set_undeliverable(said, undeliverable)
    proton.pn_delivery_update(pointer, _MODIFIED)
    proton.pn_delivery_settle(pointer)
