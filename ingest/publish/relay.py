"""The destinations of one run's messages, where they aren't all the same.

On the anonymous relay each message names its destination in `properties.to`; a full backlog takes
only the first messages that fit; a message that its topic's schema doesn't allow goes to dead
letters, or is refused.
This module loops over messages, but only on links that name no topic, in transactions, or where
backlogs are limited or schemas validate, and only over the numbers that the pump has found.
Consecutive messages to one topic stay one run.
"""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import TypeAlias, assert_never

import msgspec

from distributary.ingest.commit.batches import part, run_of
from distributary.ingest.commit.group_log import Receipt
from distributary.ingest.native import pump
from distributary.ingest.native.message_addresses import addresses
from distributary.ingest.native.runs import Received
from distributary.ingest.net.link import Link
from distributary.pipeline.amqp.dead_letter import MisfitInfo, copy_of_misfit
from distributary.pipeline.codec.buffers import Bytes
from distributary.pipeline.model.address import ANNOTATED, Destination, Kind
from distributary.pipeline.model.amqp_error import NOT_FOUND, AmqpError
from distributary.pipeline.model.message import PublishBatch


class Kept(msgspec.Struct, frozen=True):
    """The goal of a message that its topic's schema doesn't allow: a queue of dead letters."""

    queue: Destination
    info: MisfitInfo


class Stored(msgspec.Struct, frozen=True):
    """A message is a duplicate of a stored one: it is accepted, and goes nowhere."""


#: The goal of messages: a topic of the log, a queue of dead letters, or none, for a reason. An
#: AmqpError spoils the transaction in which they came.
Goal: TypeAlias = str | AmqpError | Kept | Stored
#: The goals of a run's messages, in their order, each with its number of messages.
Goals: TypeAlias = Sequence[tuple[Goal, int]]
#: Messages that go to dead letters instead of being routed: by topic, then by place in the run.
Unrouted: TypeAlias = Mapping[str, Mapping[int, Kept]]
#: Finds the topic of the log for a message's address and the kind that its annotation names.
Resolve: TypeAlias = Callable[[str, Kind | None], str | AmqpError]
#: Returns how many messages of these lengths a topic takes, and why no more, if it takes no more.
Admit: TypeAlias = Callable[[str, bytes], tuple[int, AmqpError | None]]


class RoutedRun(msgspec.Struct, frozen=True, eq=False):
    """Messages of one topic, and the place of the first one in the received run. If they are dead
    letters, their `queue` is made if it isn't there."""

    run: PublishBatch
    start: int
    queue: Destination | None = None


class Routed(msgspec.Struct, frozen=True, eq=False):
    """The routed messages of one run: runs by topic in the order of the messages, the deliveries to
    accept when they are durable (`receipt`) and at once, and complaints about refused messages."""

    runs: list[RoutedRun]
    receipt: Receipt
    at_once: bytes
    complaints: "list[Complaint]"


class Complaint(msgspec.Struct, frozen=True, eq=False):
    """Refused messages: the deliveries to reject, and why. A transaction in which they came can't
    be committed without them."""

    deliveries: bytes
    unsettled: int
    credit: int
    amqp_error: AmqpError


def goals_of(received: Received, resolve: Resolve) -> Goals:
    """Return the goals of messages that name their destinations."""
    return [
        (
            resolve(address, ANNOTATED.get(annotated))
            if address
            else AmqpError(NOT_FOUND, "properties.to must name a topic or queue"),
            sum(1 for _ in group),
        )
        for (address, annotated), group in groupby(addresses(received))
    ]


def but(goals: Goals, others: Mapping[int, Goal]) -> Goals:
    """Return the goals, with others for the messages at these places."""
    found: list[tuple[Goal, int]] = []
    places, start = sorted(others), 0
    for goal, count in goals:
        stop = start + count
        for place in places[bisect_left(places, start) : bisect_left(places, stop)]:
            if place > start:
                found.append((goal, place - start))
            found.append((others[place], 1))
            start = place + 1
        if stop > start:
            found.append((goal, stop - start))
        start = stop
    return found


def still(goals: Goals, gone: Callable[[str], AmqpError | None]) -> Goals:
    """Return the goals of messages that have waited: `gone` says why a topic that was there when
    they came can't get them any more."""
    return [((gone(goal) if isinstance(goal, str) else None) or goal, n) for goal, n in goals]


def routed(received: Received, receipt: Receipt, goals: Goals, admit: Admit) -> Routed:
    """Route messages to their goals, as far as the topics take them."""
    offsets = array("i", bytes(pump.offsets(received.lengths, received.count)))
    routing = _Routing(received, receipt, offsets, admit)
    for goal, count in goals:
        routing.add(goal, count)
    return routing.done()


class _Routing:
    """Routes the messages of one run, in their order, some at a time."""

    def __init__(
        self, received: Received, receipt: Receipt, offsets: "array[int]", admit: Admit
    ) -> None:
        self._received, self._receipt, self._offsets = received, receipt, offsets
        self._admit = admit
        self._runs: list[RoutedRun] = []
        self._complaints: list[Complaint] = []
        self._deliveries = array("Q", received.deliveries)
        self._full: dict[str, AmqpError] = {}  # topics that take no more of these messages
        self._start = 0

    def add(self, goal: Goal, count: int) -> None:
        """Route the next `count` messages to a goal."""
        start = self._start
        self._start = stop = start + count
        match goal:
            case str():
                self._publish(goal, start, stop)
            case AmqpError():
                self._refuse(start, stop, goal)
            case Kept():
                for place in range(start, stop):
                    self._keep(goal, place)
            case Stored():
                pass  # the receipt of all has it
            case _ as never:
                assert_never(never)

    def _publish(self, topic: str, start: int, stop: int) -> None:
        received, offsets = self._received, self._offsets
        if topic in self._full:  # nothing overtakes a refused message
            self._refuse(start, stop, self._full[topic])
            return
        taken, amqp_error = self._admit(topic, received.lengths[4 * start : 4 * stop])
        if taken:
            end = start + taken
            run = part(received.run(topic), start, end, offsets[start], offsets[end])
            self._runs.append(RoutedRun(run, start))
        if amqp_error is not None:
            self._full[topic] = amqp_error
            self._refuse(start + taken, stop, amqp_error)

    def _keep(self, kept: Kept, place: int) -> None:
        run = dead_letter(
            self._received.blob[self._offsets[place] : self._offsets[place + 1]], kept
        )
        _, amqp_error = self._admit(run.topic, bytes(run.lengths))
        if amqp_error is None:
            self._runs.append(RoutedRun(run, place, kept.queue))
        else:
            self._refuse(place, place + 1, amqp_error)

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


def dead_letter(message: Bytes, kept: Kept) -> PublishBatch:
    """Return the copy of a message for its queue of dead letters."""
    return run_of(kept.queue.topic, [copy_of_misfit(message, kept.info)])


def _take_volatile(deliveries: "array[int]", durable: bytes) -> "array[int]":
    """Take out and return the deliveries of non-persistent messages: they are accepted as soon as
    their topic is known."""
    taken = array("Q")
    if all(durable):
        return taken
    for at, is_durable in enumerate(durable):
        if deliveries[at] and not is_durable:
            taken.append(deliveries[at])
            deliveries[at] = 0
    return taken


def accept(link: Link, at_once: bytes) -> None:
    """Accept deliveries of messages that need not be durable first."""
    if at_once and link.alive:
        pump.settle(at_once, pump.ACCEPTED)
        link.answered(len(at_once) // 8)


def release(link: Link, received: Received) -> None:
    """Release all messages to their sender, which asked for that: the topic has no subscription."""
    pump.settle(received.deliveries, pump.RELEASED)
    link.connection.touch()
    link.answered(received.unsettled)
    link.grant(received.count)


def reject(link: Link, complaint: Complaint) -> None:
    """Reject deliveries. Messages that came settled can't be rejected, so their link ends with the
    error: the sender must learn of a loss."""
    amqp_error = complaint.amqp_error
    if not link.alive:
        return  # the peer has gone without waiting; its deliveries are freed
    pump.reject(complaint.deliveries, amqp_error.condition, amqp_error.description)
    link.answered(complaint.unsettled)
    if link.ended:
        return  # by a complaint before this one
    if complaint.unsettled < complaint.credit:
        link.end(amqp_error.condition, amqp_error.description)
    else:
        link.grant(complaint.credit)
