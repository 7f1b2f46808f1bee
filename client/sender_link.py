"""A link that publishes to one address: entries that wait, entries that were sent, their outcomes.

Rule 1: an entry is in `_waiting` or in `_sent`, never in both, until it has its outcome.
Rule 2: at most a window of entries is here; further calls of `put` wait for room, in turn.
Rule 3: if the connection is lost, sent entries wait again, in their order, and are sent anew with
        the same ids; entries of a transaction fail with it, and so do calls of `put` for one.
Rule 4: an entry over the limit that the broker has told fails alone: sent, it would end the link.
"""

import asyncio
from array import array
from collections import deque
from collections.abc import Iterable
from typing import Any, Protocol

import cproton
from cproton import lib as proton

from distributary.client.connection.client_errors import ClientError, NotAccepted, RolledBack
from distributary.client.connection.client_settings import PublisherSettings
from distributary.client.connection.conditions import reason
from distributary.client.connection.link_terms import Node, open_sender
from distributary.client.connection.wire import Wire
from distributary.ingest.native import pump as pumping
from distributary.ingest.native.link_in_flight import mark
from distributary.ingest.native.pump import address
from distributary.ingest.native.runs import Outcomes, Received
from distributary.pipeline.codec.amqp_codes import Descriptor
from distributary.pipeline.model.record_batch import RecordBatch

#: Bytes of messages that one turn of the loop hands to the engine, so that other tasks can run.
TURN_BYTES = 1 << 20
_NO_LIMIT = 1 << 63
#: A delivery's mark, any number but 0: the pump reports the outcomes of marked deliveries.
_TOLD = 1
_LOST = "the connection was lost within a transaction"
_ACCEPTED = int(Descriptor.ACCEPTED)
_NOT_ACCEPTED = {
    int(Descriptor.REJECTED): "rejected",
    int(Descriptor.RELEASED): "released",
    int(Descriptor.MODIFIED): "modified",
    0: "settled without an outcome",
}


class Confirmed(Protocol):
    """The receiver of a message's outcome."""

    def accepted(self) -> None:
        """Take the outcome of an accepted message."""

    def failed(self, error: ClientError) -> None:
        """Take the error of a message that wasn't accepted, or whose outcome is unknown."""


class Work:
    """A transaction by its id. Once it is `over`, its waiting entries are never sent."""

    __slots__ = ("id", "over")

    def __init__(self, work_id: bytes) -> None:
        self.id, self.over = work_id, False


class Entry:
    """A message of this link; `work` is the transaction that it is part of, if any."""

    __slots__ = ("confirmed", "data", "work")

    def __init__(self, data: bytes, confirmed: Confirmed, work: Work | None = None) -> None:
        self.data, self.confirmed, self.work = data, confirmed, work


class Once:
    """The outcome of one publish, as a future."""

    __slots__ = ("future",)

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.future: asyncio.Future[None] = loop.create_future()

    def accepted(self) -> None:
        if not self.future.done():
            self.future.set_result(None)

    def failed(self, error: ClientError) -> None:
        if not self.future.done():
            self.future.set_exception(error)


class SenderLink:
    """A link with the rules above. It lives until `fail`, over any number of connections."""

    def __init__(self, node: Node, name: str, settings: PublisherSettings) -> None:
        self.node, self._name, self._settings = node, name, settings
        self._loop = asyncio.get_running_loop()
        self._wire: Wire | None = None
        self._link: Any = None
        self._number = 0  #: of the next message on this connection's link
        self._most = _NO_LIMIT  #: bytes of a message that the broker takes
        self._waiting: deque[Entry] = deque()
        self._sent: dict[int, Entry] = {}
        self._count = self._bytes = 0
        self._turns: deque[asyncio.Future[None]] = deque()
        self._quiet: list[asyncio.Future[None]] = []
        self.users = 0  #: publishers that hold it
        self.error: ClientError | None = None

    def __str__(self) -> str:
        return str(self.node)

    @property
    def idle(self) -> bool:
        """Whether the link has no publisher, no entry and no waiting `put`."""
        return not (self.users or self._count or self._turns)

    # The application's side.

    async def put(self, entry: Entry) -> None:
        """Take a message when there is room for it. Raises ClientError when the link has failed.
        The message isn't taken then, nor when the call is cancelled."""
        if self.error is not None:
            raise self.error
        if self._turns or self._full:
            wire = self._wire
            await self._turn()
            if self.error is not None:  # the link has ended since there was room
                self._release(1, 0)
                raise self.error
            if entry.work is not None and self._wire is not wire:
                self._release(1, 0)
                raise RolledBack(_LOST)
        else:
            self._count += 1
        self._bytes += len(entry.data)
        self._waiting.append(entry)
        if self._wire is not None:
            self._wire.touch(self)

    async def _turn(self) -> None:
        turn = self._loop.create_future()
        self._turns.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._release(1, 0)
            raise

    @property
    def _full(self) -> bool:
        settings = self._settings
        return self._count >= settings.window_messages or self._bytes >= settings.window_bytes

    def take_back(self, entry: Entry) -> bool:
        """Remove an entry if it wasn't sent yet, and return whether that was so."""
        if entry not in self._waiting:
            return False
        self._waiting.remove(entry)
        self._release(1, len(entry.data))
        return True

    async def flush(self) -> None:
        """Wait until each entry has its outcome."""
        if self._count:
            quiet = self._loop.create_future()
            self._quiet.append(quiet)
            await quiet

    # The connection's side.

    def make(self, wire: Wire) -> Any:
        self._wire, self._number = wire, 0
        self._link = open_sender(wire.session, self._name, self.node, self._name)
        return self._link

    def opened(self) -> None:
        """Take the broker's limit of a message; it gives credit unasked."""
        self._most = int(proton.pn_link_remote_max_message_size(self._link)) or _NO_LIMIT

    def received(self, received: Received) -> None:
        """Do nothing: a sender receives no messages."""

    def perform(self) -> None:
        """Send as many entries as the credit and `TURN_BYTES` allow."""
        waiting = self._waiting
        room = TURN_BYTES
        while waiting and room > 0:
            work = waiting[0].work
            if work is not None and work.over:
                self._fail_entries([waiting.popleft()], RolledBack("the transaction is over"))
                continue
            count = min(len(waiting), int(proton.pn_link_credit(self._link)))
            if count <= 0:
                return
            if len(waiting[0].data) > self._most:
                self._fail_too_large(waiting.popleft())
                continue
            if work is not None:
                room -= self._send_in_transaction(waiting.popleft(), work)
            else:
                room -= self._send_run(count, room)
        if waiting and self._wire is not None:
            self._wire.touch(self)

    def _send_run(self, most: int, room: int) -> int:
        """Send the first waiting entries, up to one of a transaction or one that is too large, in
        one call; return their bytes."""
        waiting, sent, first = self._waiting, self._sent, self._number
        number, size, parts, offsets = first, 0, [], array("i", (0,))
        while number - first < most and size < room and waiting:
            entry = waiting[0]
            if entry.work is not None or len(entry.data) > self._most:
                break
            waiting.popleft()
            sent[number] = entry
            number += 1
            size += len(entry.data)
            parts.append(entry.data)
            offsets.append(size)
        batch = RecordBatch(first, number - first, b"".join(parts), offsets.tobytes())
        link = address(self._link)
        pumping.send(link, batch, range(first, number), 0, _TOLD, presettled=False)
        self._number = number
        return size

    def _send_in_transaction(self, entry: Entry, work: Work) -> int:
        """Send an entry whose transfer names its transaction; return its bytes."""
        number = self._number
        self._number += 1
        self._sent[number] = entry
        delivery = cproton.pn_delivery(self._link, number.to_bytes(8, "big"))
        mark(address(delivery), _TOLD)
        put_transaction(delivery, work.id, 0)
        cproton.pn_link_send(self._link, entry.data)
        proton.pn_link_advance(self._link)
        return len(entry.data)

    def settled(self, outcomes: Outcomes) -> None:
        found = [self._sent.pop(number) for number in outcomes.run]
        if outcomes.state == _ACCEPTED:
            for entry in found:
                entry.confirmed.accepted()
        else:
            why = _reasons(outcomes)
            for entry, (condition, text) in zip(found, why, strict=True):
                outcome = _NOT_ACCEPTED[outcomes.state]
                entry.confirmed.failed(NotAccepted(str(self.node), outcome, condition, text))
        pumping.settle(outcomes.confirm, 0)
        self._release(len(found), sum([len(entry.data) for entry in found]))

    def passed(self) -> None:
        """Do nothing: the pump reports all events."""

    def lost(self) -> None:
        self._wire = self._link = None
        sent, self._sent = list(self._sent.values()), {}
        self._waiting.extendleft(reversed(sent))
        gone = [entry for entry in self._waiting if entry.work]
        if gone:
            self._waiting = deque(entry for entry in self._waiting if not entry.work)
            self._fail_entries(gone, RolledBack(_LOST))

    def close(self) -> None:
        """End the link; the caller makes sure that it is idle."""
        if self._wire is not None:
            self._wire.forget(self._link, closed=True)
            self._wire = self._link = None

    def fail(self, error: ClientError) -> None:
        """Fail all present and later entries with this error."""
        self.error = self.error or error
        self._wire = self._link = None
        for turn in self._turns:
            if not turn.done():
                turn.set_exception(error)
        self._turns.clear()
        here = [*self._sent.values(), *self._waiting]
        self._sent.clear()
        self._waiting.clear()
        self._fail_entries(here, error)

    def _fail_too_large(self, entry: Entry) -> None:
        text = f"it has {len(entry.data)} bytes, and the broker takes {self._most} at most"
        condition = "amqp:link:message-size-exceeded"
        self._fail_entries([entry], NotAccepted(str(self.node), "rejected", condition, text))

    def _fail_entries(self, entries: list[Entry], error: ClientError) -> None:
        for entry in entries:
            entry.confirmed.failed(error)
        self._release(len(entries), sum(len(entry.data) for entry in entries))

    def _release(self, count: int, size: int) -> None:
        """Take `count` settled entries off the window, and let waiting calls of `put` go on."""
        self._count -= count
        self._bytes -= size
        turns = self._turns
        while turns and not self._full:
            turn = turns.popleft()
            if not turn.done():
                self._count += 1  # its place
                turn.set_result(None)
        if not self._count:
            for quiet in self._quiet:
                if not quiet.done():
                    quiet.set_result(None)
            self._quiet.clear()


def _reasons(outcomes: Outcomes) -> Iterable[tuple[str, str]]:
    """Return condition and description of each outcome of a run; empty where there are none."""
    if outcomes.confirm:
        return [reason(one) for one in memoryview(outcomes.confirm).cast("Q")]
    return [("", "")] * len(outcomes.run)


def put_transaction(delivery: Any, work: bytes, outcome: int) -> None:
    """Set a delivery's transactional state, with an outcome unless it is 0."""
    data = proton.pn_disposition_data(proton.pn_delivery_local(delivery))
    proton.pn_data_clear(data)
    proton.pn_data_put_list(data)
    proton.pn_data_enter(data)
    cproton.pn_data_put_binary(data, work)
    if outcome:
        proton.pn_data_put_described(data)
        proton.pn_data_enter(data)
        proton.pn_data_put_ulong(data, outcome)
        proton.pn_data_put_list(data)
        proton.pn_data_exit(data)
    proton.pn_data_exit(data)
    proton.pn_delivery_update(delivery, int(Descriptor.TRANSACTIONAL_STATE))
