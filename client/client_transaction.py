"""Local transactions: the publishes and accepts of one are done together, or not at all."""

import asyncio
from collections import deque
from contextlib import suppress
from types import TracebackType
from typing import Any, Protocol, Self

import cproton
from cproton import lib as proton

from distributary.client.client_subscription import Subscription
from distributary.client.connection.client_errors import ClientError, NotAccepted, RolledBack
from distributary.client.connection.conditions import told
from distributary.client.connection.link_terms import open_coordinator
from distributary.client.connection.wire import Wire
from distributary.client.outgoing_message import Content
from distributary.client.received_message import ReceivedMessage
from distributary.client.sender_link import Entry, SenderLink, Work
from distributary.ingest.native.runs import Outcomes, Received
from distributary.pipeline.codec.amqp_codes import Descriptor, Kind, descriptor
from distributary.pipeline.codec.amqp_writer import write
from distributary.pipeline.codec.raw_values import list_of
from distributary.pipeline.errors import InvalidRequest

_ACCEPTED, _DECLARED = int(Descriptor.ACCEPTED), int(Descriptor.DECLARED)
_VALUE = descriptor(Kind.VALUE)
_LOST = (
    "the connection was lost: whether a transaction that was just being committed is done is "
    "unknown"
)


class Coordinator:
    """The link to the coordinator of transactions. Each command's answer is a future: a declare's
    has the new id, a discharge's is empty."""

    def __init__(self) -> None:
        self._wire: Wire | None = None
        self._link: Any = None
        self._waiting: deque[tuple[bytes, asyncio.Future[bytes]]] = deque()
        self._asked: dict[Any, asyncio.Future[bytes]] = {}
        self._number = 0
        #: Rises with each connection: a transaction of an earlier one is rolled back.
        self.epoch = 0
        self.error: ClientError | None = None

    def __str__(self) -> str:
        return "the coordinator of transactions"

    async def declare(self) -> bytes:
        """Declare a transaction and return its id. One whose declaring is cancelled is rolled back.
        Raises RolledBack."""
        answer = self._ask(descriptor(Descriptor.DECLARE) + list_of(()))
        try:
            return await asyncio.shield(answer)
        except asyncio.CancelledError:
            answer.add_done_callback(self._undo)
            raise

    async def discharge(self, work: bytes, *, fail: bool) -> None:
        """Commit a transaction, or roll it back (`fail`). Raises RolledBack."""
        await self._discharge(work, fail=fail)

    def roll_back(self, work: bytes) -> None:
        """Roll a transaction of this connection back, without waiting for the answer."""
        self._discharge(work, fail=True).add_done_callback(_ignore)

    def _undo(self, declared: "asyncio.Future[bytes]") -> None:
        if declared.exception() is None and self._wire is not None:
            self.roll_back(declared.result())

    def _discharge(self, work: bytes, *, fail: bool) -> "asyncio.Future[bytes]":
        fields = list_of((write(work), write(fail)))
        return self._ask(descriptor(Descriptor.DISCHARGE) + fields)

    def _ask(self, command: bytes) -> "asyncio.Future[bytes]":
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting.append((_VALUE + command, answer))
        if self._wire is not None:
            self._wire.touch(self)
        return answer

    def make(self, wire: Wire) -> Any:
        self._wire = wire
        self._link = open_coordinator(wire.session, f"transactions-{id(self):x}")
        wire.watch(self)
        return self._link

    def opened(self) -> None:
        """Do nothing: the broker gives credit unasked."""

    def received(self, received: Received) -> None:
        """Do nothing: a sender receives no messages."""

    def settled(self, outcomes: Outcomes) -> None:
        """Do nothing: deliveries of this link have no context, so the pump leaves them to
        `passed`."""

    def perform(self) -> None:
        if self._wire is None:
            return
        while self._waiting and proton.pn_link_credit(self._link) > 0:
            self._wire.write()  # outcomes that are part of a transaction come before its end
            data, answer = self._waiting.popleft()
            self._number += 1
            delivery = cproton.pn_delivery(self._link, self._number.to_bytes(8, "big"))
            cproton.pn_link_send(self._link, data)
            proton.pn_link_advance(self._link)
            self._asked[delivery] = answer

    def passed(self) -> None:
        for delivery, answer in tuple(self._asked.items()):
            state = proton.pn_delivery_remote_state(delivery)
            if not state and not proton.pn_delivery_settled(delivery):
                continue
            del self._asked[delivery]
            if not answer.done():
                _tell(answer, delivery, state)
            proton.pn_delivery_settle(delivery)

    def lost(self) -> None:
        self._wire = self._link = None
        self.epoch += 1
        self._fail(RolledBack(_LOST))

    def fail(self, error: ClientError) -> None:
        """Fail all transactions with this error."""
        self.error = error
        self._wire = self._link = None
        self.epoch += 1
        self._fail(error)

    def _fail(self, error: ClientError) -> None:
        asked, self._asked = self._asked, {}
        answers = [*asked.values(), *(answer for _, answer in self._waiting)]
        self._waiting.clear()
        for answer in answers:
            if not answer.done():
                answer.set_exception(error)


def _ignore(answer: "asyncio.Future[bytes]") -> None:
    """Look at an answer that no caller waits for, so that asyncio doesn't report its error."""
    answer.exception()


def _tell(answer: "asyncio.Future[bytes]", delivery: Any, state: int) -> None:
    remote = proton.pn_delivery_remote(delivery)
    if state == _DECLARED:
        data = proton.pn_disposition_data(remote)
        proton.pn_data_rewind(data)
        proton.pn_data_next(data)
        proton.pn_data_enter(data)
        proton.pn_data_next(data)
        answer.set_result(bytes(cproton.pn_data_get_binary(data)))
    elif state == _ACCEPTED:
        answer.set_result(b"")
    else:
        said = ": ".join(part for part in told(proton.pn_disposition_condition(remote)) if part)
        answer.set_exception(RolledBack(f"the transaction didn't commit: {said or 'no reason'}"))


class Transacting(Protocol):
    """The part of a client that a transaction needs."""

    async def coordinator(self) -> Coordinator:
        """Return the client's coordinator, attached. Raises ClientError."""

    def sender(self, address: str) -> SenderLink:
        """Return the link that publishes to an address. Raises ClientError."""

    def encoded(self, body: Content) -> bytes:
        """Return the bytes of a message. Raises InvalidRequest."""


class Transaction:
    """A transaction, `async with client.transaction() as t`: it commits at the block's end, and is
    rolled back if the block raises, or is cancelled before it asks for the commit; after that,
    whether a cancelled one commits is unknown. Messages accepted in a rolled back transaction come
    again."""

    def __init__(self, client: Transacting) -> None:
        self._client = client
        self._coordinator: Coordinator | None = None
        self._work = Work(b"")
        self._epoch = self._open = 0
        self._ended = False
        self._error: ClientError | None = None
        self._quiet = asyncio.Event()

    async def __aenter__(self) -> Self:
        if self._coordinator is not None:
            raise InvalidRequest("a transaction is used once: ask the client for another one")
        self._coordinator = await self._client.coordinator()
        self._work = Work(await self._coordinator.declare())
        self._epoch = self._coordinator.epoch
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        coordinator, self._ended = self._within(), True
        if kind is not None:
            self._work.over = True
            if coordinator.epoch == self._epoch:
                with suppress(ClientError):  # it is rolled back then, too: the block's error counts
                    await coordinator.discharge(self._work.id, fail=True)
            return
        try:
            while self._open:
                self._quiet.clear()
                await self._quiet.wait()
        except asyncio.CancelledError:
            self._work.over = True
            if coordinator.epoch == self._epoch:
                coordinator.roll_back(self._work.id)
            raise
        self._check_epoch(coordinator)
        if self._error is not None:
            await coordinator.discharge(self._work.id, fail=True)
            raise RolledBack(f"the transaction didn't commit: {self._error}") from self._error
        await coordinator.discharge(self._work.id, fail=False)

    async def publish(self, address: str, body: Content = None) -> None:
        """Publish in the transaction. Returns when the window has room; whether the broker took the
        message shows at the commit. Raises RolledBack, InvalidRequest after the block's end."""
        self._check()
        data = self._client.encoded(body)
        link = self._client.sender(address)
        self._open += 1
        try:
            await link.put(Entry(data, self, self._work))
        except BaseException:
            self._done()
            raise

    async def accept(self, message: ReceivedMessage) -> None:
        """Accept in the transaction. Raises RolledBack for a message that is the broker's again,
        InvalidRequest for one of another client, and after the block's end."""
        self._check()
        origin = message.origin
        assert isinstance(origin, Subscription)  # noqa: S101
        if not origin.is_of(self._client):
            raise InvalidRequest(
                f"{message!r} was received by another client: a transaction accepts messages of "
                "its own client's connection"
            )
        origin.settle_in(message, self._work.id)

    def _within(self) -> Coordinator:
        if self._coordinator is None:
            raise InvalidRequest("a transaction begins with `async with`")
        return self._coordinator

    def _check(self) -> None:
        coordinator = self._within()
        if self._ended:
            raise InvalidRequest(
                "the transaction's block has ended, and nothing more can be part of it: ask the "
                "client for another one"
            )
        self._check_epoch(coordinator)

    def _check_epoch(self, coordinator: Coordinator) -> None:
        if coordinator.epoch != self._epoch:
            raise RolledBack(
                "the connection was lost within the transaction: nothing of it is done"
            )

    def accepted(self) -> None:
        """Count a message that the broker has taken, for the commit."""
        self._done()

    def failed(self, error: ClientError) -> None:
        """Keep the error of a message that wasn't taken: the transaction can't commit."""
        if not isinstance(error, NotAccepted) and self._coordinator is not None:
            error = RolledBack(str(error))
        self._error = self._error or error
        self._done()

    def _done(self) -> None:
        self._open -= 1
        if not self._open:
            self._quiet.set()
