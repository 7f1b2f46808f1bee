"""The destinations of one run's messages, where they aren't all the same.

On the anonymous relay each message names its destination in `properties.to`; a full backlog takes
only the first messages that fit. These are loops over messages, but only on links that name no
topic, or where backlogs are limited, and only over the numbers that the pump has found. Consecutive
messages to one topic stay one run.
"""

from array import array
from collections.abc import Callable, Mapping
from itertools import groupby
from typing import TypeAlias

import msgspec

from distributary.ingest.commit.batches import part
from distributary.ingest.commit.group_log import Receipt
from distributary.ingest.native import pump
from distributary.ingest.native.runs import Received
from distributary.ingest.net.link import Link
from distributary.pipeline.model.address import ANNOTATED, Kind
from distributary.pipeline.model.amqp_error import NOT_FOUND, AmqpError
from distributary.pipeline.model.message import PublishBatch

#: Where a message goes by its address and the kind that its annotation says: a topic of the log.
Resolve: TypeAlias = Callable[[str, Kind | None], str | AmqpError]
#: How many messages of these lengths a topic takes, and why no more, if it takes no more.
Admit: TypeAlias = Callable[[str, bytes], tuple[int, AmqpError | None]]


class Routed(msgspec.Struct, frozen=True, eq=False):
    """Where the messages of one run go: runs by topic in the order of the messages, each with the
    place of its first message among what was received, what is to be accepted when they are
    durable and what at once, and complaints about those that go nowhere."""

    runs: list[tuple[PublishBatch, int]]
    receipt: Receipt
    at_once: bytes
    complaints: "list[Complaint]"


class Complaint(msgspec.Struct, frozen=True, eq=False):
    """Messages that go nowhere: deliveries to reject, and why."""

    deliveries: bytes
    unsettled: int
    credit: int
    amqp_error: AmqpError


def route(received: Received, receipt: Receipt, resolve: Resolve, admit: Admit) -> Routed:
    """Find the destination of each message."""
    offsets = array("i", bytes(pump.offsets(received.lengths, received.count)))
    addresses = zip(_addresses(received, offsets), pump.destinations(received), strict=True)
    routing = _Routing(received, receipt, offsets, admit)
    for (address, annotated), group in groupby(addresses):
        topic = (
            resolve(address, ANNOTATED.get(annotated))
            if address
            else AmqpError(NOT_FOUND, "properties.to must name a topic or queue")
        )
        routing.add(topic, sum(1 for _ in group))
    return routing.done()


def to_one(received: Received, receipt: Receipt, topic: str, admit: Admit) -> Routed:
    """All of them go to this topic, as far as it takes them."""
    offsets = array("i", bytes(pump.offsets(received.lengths, received.count)))
    routing = _Routing(received, receipt, offsets, admit)
    routing.add(topic, received.count)
    return routing.done()


def but_misfits(
    received: Received,
    receipt: Receipt,
    topic: str,
    misfits: Mapping[int, AmqpError],
    admit: Admit,
) -> Routed:
    """All of them go to this topic but those at these places, as far as it takes them."""
    offsets = array("i", bytes(pump.offsets(received.lengths, received.count)))
    routing = _Routing(received, receipt, offsets, admit)
    start = 0
    for place in [*sorted(misfits), received.count]:
        if place > start:
            routing.add(topic, place - start)
        if place < received.count:
            routing.add(misfits[place], 1)
        start = place + 1
    return routing.done()


class _Routing:
    """Messages that are routed in their order, some at a time."""

    def __init__(
        self, received: Received, receipt: Receipt, offsets: "array[int]", admit: Admit
    ) -> None:
        self._received, self._receipt, self._offsets = received, receipt, offsets
        self._admit = admit
        self._runs: list[tuple[PublishBatch, int]] = []
        self._complaints: list[Complaint] = []
        self._deliveries = array("Q", received.deliveries)
        self._start = 0

    def add(self, topic: str | AmqpError, count: int) -> None:
        """The next messages, so many, go there."""
        received, offsets, start = self._received, self._offsets, self._start
        self._start = stop = start + count
        if isinstance(topic, AmqpError):
            self._refuse(start, stop, topic)
            return
        taken, amqp_error = self._admit(topic, received.lengths[4 * start : 4 * stop])
        if taken:
            end = start + taken
            run = part(received.run(topic), start, end, offsets[start], offsets[end])
            self._runs.append((run, start))
        if amqp_error is not None:
            self._refuse(start + taken, stop, amqp_error)

    def _refuse(self, start: int, stop: int, amqp_error: AmqpError) -> None:
        refused = self._deliveries[start:stop]
        unsettled = sum(1 for delivery in refused if delivery)
        self._complaints.append(Complaint(refused.tobytes(), unsettled, stop - start, amqp_error))
        self._deliveries[start:stop] = array("Q", [0] * (stop - start))

    def done(self) -> Routed:
        received, deliveries = self._received, self._deliveries
        at_once = _take_volatile(deliveries, received.durable)
        unsettled = (
            received.unsettled - sum(one.unsettled for one in self._complaints) - len(at_once)
        )
        lost = sum(one.credit for one in self._complaints)
        answered = Receipt(
            self._receipt.link, deliveries.tobytes(), unsettled, received.count - lost
        )
        return Routed(self._runs, answered, at_once.tobytes(), self._complaints)


def _take_volatile(deliveries: "array[int]", durable: bytes) -> "array[int]":
    """Take those of non-persistent messages out: now it is known that they go somewhere, and that
    is all that they wait for."""
    taken = array("Q")
    if all(durable):
        return taken
    for at, is_durable in enumerate(durable):
        if deliveries[at] and not is_durable:
            taken.append(deliveries[at])
            deliveries[at] = 0
    return taken


def accept(link: Link, at_once: bytes) -> None:
    """Tell the sender of messages that wait for nothing more."""
    if at_once:
        pump.settle(at_once, pump.ACCEPTED)
        link.answered(len(at_once) // 8)


def release(link: Link, received: Received) -> None:
    """Give the sender all of it back: nobody is subscribed to its topic, and it wants to know."""
    pump.settle(received.deliveries, pump.RELEASED)
    link.connection.touch()
    link.answered(received.unsettled)
    link.grant(received.count)


def reject(link: Link, complaint: Complaint) -> None:
    """Tell the sender. What it sent settled can't be rejected any more, so its link ends with the
    error: a loss must not go unheard."""
    amqp_error = complaint.amqp_error
    pump.reject(complaint.deliveries, amqp_error.condition, amqp_error.description)
    link.answered(complaint.unsettled)
    if link.ended:
        return  # by a complaint before this one
    if complaint.unsettled < complaint.credit:
        link.end(amqp_error.condition, amqp_error.description)
    else:
        link.grant(complaint.credit)


def _addresses(received: Received, offsets: "array[int]") -> list[str]:
    at, size = array("I", received.to_at), array("I", received.to_size)
    blob = received.blob
    return [
        _text(blob[start + at[i] : start + at[i] + size[i]]) for i, start in enumerate(offsets[:-1])
    ]


def _text(address: bytes) -> str:
    """The address, or nothing where it is no UTF-8: it names no topic either way."""
    try:
        return address.decode()
    except UnicodeDecodeError:
        return ""
