"""The anonymous relay: each message says in `properties.to` where it goes.

A loop over messages, but only on links that name no topic, and only over the numbers that the
pump has found; consecutive messages to one topic stay one run.
"""

from array import array
from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from typing import TypeAlias

from ingest import pump
from ingest.link import Link
from ingest.log import Receipt
from ingest.pump import Received
from ingest.runs import part
from pipeline.address import ANNOTATED, Kind
from pipeline.message import MessageRun
from pipeline.refusal import NOT_FOUND, Refusal

#: Where a message goes by its address and the kind that its annotation says: a topic of the log.
Resolve: TypeAlias = Callable[[str, Kind | None], str | Refusal]


@dataclass(frozen=True, slots=True, eq=False)
class Routed:
    """Where the messages of one run go: runs by topic in the order of the messages, what is to be
    accepted when they are durable and what at once, and complaints about those that go nowhere."""

    runs: list[MessageRun]
    receipt: Receipt
    at_once: bytes
    complaints: "list[Complaint]"


@dataclass(frozen=True, slots=True, eq=False)
class Complaint:
    """Messages that go nowhere: deliveries to reject, and why."""

    deliveries: bytes
    kept: int
    credit: int
    refusal: Refusal


def route(received: Received, receipt: Receipt, resolve: Resolve) -> Routed:
    """Find for each message where it goes."""
    offsets = array("i", bytes(pump.offsets(received.lengths, received.count)))
    addresses = zip(_addresses(received, offsets), pump.destinations(received), strict=True)
    runs: list[MessageRun] = []
    complaints: list[Complaint] = []
    deliveries = array("Q", received.deliveries)
    start = 0
    for (address, annotated), group in groupby(addresses):
        stop = start + sum(1 for _ in group)
        topic = (
            resolve(address, ANNOTATED.get(annotated))
            if address
            else Refusal(NOT_FOUND, "properties.to must name a topic or queue")
        )
        if isinstance(topic, Refusal):
            refused = deliveries[start:stop]
            kept = sum(1 for delivery in refused if delivery)
            complaints.append(Complaint(refused.tobytes(), kept, stop - start, topic))
            deliveries[start:stop] = array("Q", [0] * (stop - start))
        else:
            runs.append(part(received.run(topic), start, stop, offsets[start], offsets[stop]))
        start = stop
    at_once = _take_volatile(deliveries, received.durable)
    kept = received.kept - sum(complaint.kept for complaint in complaints) - len(at_once)
    lost = sum(complaint.credit for complaint in complaints)
    answered = Receipt(receipt.link, deliveries.tobytes(), kept, received.count - lost)
    return Routed(runs, answered, at_once.tobytes(), complaints)


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


def reject(link: Link, complaint: Complaint) -> None:
    """Tell the sender. What it sent settled can't be rejected any more, so its link ends with the
    error: a loss must not go unheard."""
    refusal = complaint.refusal
    pump.reject(complaint.deliveries, refusal.condition, refusal.description)
    link.answered(complaint.kept)
    if link.ended:
        return  # by a complaint before this one
    if complaint.kept < complaint.credit:
        link.detach(closed=True, condition=refusal.condition, description=refusal.description)
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
