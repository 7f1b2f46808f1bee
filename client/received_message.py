"""A received message: its bytes, decoded on demand, and its outcome."""

from collections.abc import Mapping
from functools import cached_property
from typing import Protocol

from distributary.client.outgoing_message import plain
from distributary.pipeline.codec import amqp_codes as codes
from distributary.pipeline.codec.amqp_codes import DESCRIBED, FIXED_BYTES, SIZE_BYTES, Kind
from distributary.pipeline.codec.sections import (
    Header,
    Identifier,
    decode,
    header,
    walk,
)
from distributary.pipeline.codec.sections import Message as Decoded

_DATA = int(Kind.DATA)
_SMALLULONG, _VBIN8, _VBIN32 = codes.SMALLULONG, *codes.BINARIES


class Settling(Protocol):
    """The taker of outcomes: a `Subscription`."""

    address: str

    def settle(self, message: "ReceivedMessage", state: int) -> None:
        """Settle a message with this outcome."""

    def reject(self, message: "ReceivedMessage", condition: str, description: str) -> None:
        """Reject a message, for this reason."""

    def modify(self, message: "ReceivedMessage", *, failed: bool, undeliverable: bool) -> None:
        """Settle a message as `modified`."""


class ReceivedMessage:
    """A message of a subscription or queue. It is in flight to this consumer until one of `accept`,
    `release`, `reject` and `modify`; the first counts. An outcome is sent at once and not answered:
    if the connection is lost just then, or was lost before, the message comes again. An accept in
    a transaction is confirmed by the commit (`Transaction.accept`).
    """

    __slots__ = ("__dict__", "_data", "_from", "delivery", "epoch")

    def __init__(self, origin: Settling, data: bytes, delivery: int, epoch: int) -> None:
        """`delivery` is valid in one epoch of `origin`, from one connection to the next; 0 once the
        message has an outcome."""
        self._from, self._data, self.delivery, self.epoch = origin, data, delivery, epoch

    def __repr__(self) -> str:
        return f"<message of {self._from.address}, {len(self._data)} bytes>"

    async def accept(self) -> None:
        """Accept the message: it is never delivered again."""
        self._from.settle(self, codes.Descriptor.ACCEPTED)

    async def release(self) -> None:
        """Give the message back untried: it goes to the next consumer, perhaps this one again."""
        self._from.settle(self, codes.Descriptor.RELEASED)

    async def reject(self, condition: str = "amqp:internal-error", description: str = "") -> None:
        """Refuse the message for all consumers: it becomes a dead letter, if its subscription
        has those."""
        self._from.reject(self, condition, description)

    async def modify(self, *, failed: bool = True, undeliverable_here: bool = False) -> None:
        """Give the message back. `failed`: count a failed attempt; after the policy's number of
        attempts it is given up. `undeliverable_here`: this consumer gets it no more."""
        self._from.modify(self, failed=failed, undeliverable=undeliverable_here)

    @property
    def origin(self) -> Settling:
        """The subscription that the message came from."""
        return self._from

    @property
    def data(self) -> bytes:
        """The whole message as received: AMQP's sections."""
        return self._data

    @cached_property
    def decoded(self) -> Decoded:
        """All sections of the message, decoded. Raises DecodeError."""
        return decode(self._data)

    @property
    def body(self) -> object:
        """The body: bytes of data sections, else the value: a text, a number, a dict, a list.
        Raises DecodeError."""
        found = _only_data(self._data)
        return plain(self.decoded.body.value) if found is None else found

    @property
    def text(self) -> str:
        """The body as text. Raises DecodeError, and UnicodeDecodeError for bytes that aren't
        UTF-8."""
        body = self.body
        return body.decode() if isinstance(body, bytes) else str(body)

    @property
    def properties(self) -> Mapping[str, object]:
        """The application properties."""
        said = self.decoded.application_properties
        return {name: plain(typed.value) for name, typed in said.items()}

    @property
    def id(self) -> Identifier | None:
        return self.decoded.properties.message_id

    @property
    def subject(self) -> str | None:
        return self.decoded.properties.subject

    @property
    def correlation_id(self) -> Identifier | None:
        return self.decoded.properties.correlation_id

    @property
    def reply_to(self) -> str | None:
        return self.decoded.properties.reply_to

    @property
    def to(self) -> str | None:
        return self.decoded.properties.to

    @property
    def content_type(self) -> str | None:
        return self.decoded.properties.content_type

    @property
    def group(self) -> str | None:
        return self.decoded.properties.group_id

    @property
    def annotations(self) -> Mapping[object, object]:
        """The message annotations."""
        said = plain(self.decoded.message_annotations)
        return said if isinstance(said, dict) else {}

    @property
    def priority(self) -> int:
        return self.header.priority

    @property
    def durable(self) -> bool:
        return self.header.durable

    @property
    def ttl(self) -> float | None:
        """Time to live in seconds; None if the message doesn't expire."""
        ttl = self.header.ttl
        return None if ttl is None else ttl / 1_000

    @property
    def delivery_count(self) -> int:
        """Number of failed attempts to deliver the message; 0 at the first delivery."""
        return self.header.delivery_count

    @cached_property
    def header(self) -> Header:
        """The header section; defaults where there is none."""
        for section in walk(self._data):
            return header(self._data, section) if section.kind is Kind.HEADER else Header()
        return Header()


def _only_data(data: bytes) -> bytes | None:
    """Return the body if it is one data section at the message's end, as nearly always; found by
    the sizes of the sections before. Return None for all other messages: `decode` reads those."""
    at, size = 0, len(data)
    try:
        while at < size:
            if data[at] != DESCRIBED or data[at + 1] != _SMALLULONG:
                return None
            kind, code = data[at + 2], data[at + 3]
            if kind == _DATA:
                start = at + (5 if code == _VBIN8 else 8)
                length = data[at + 4] if code == _VBIN8 else int.from_bytes(data[at + 4 : start])
                right = code in (_VBIN8, _VBIN32) and start + length == size
                return data[start:] if right else None
            if kind > _DATA:
                return None
            at += 3
            if fixed := FIXED_BYTES[code]:
                at += fixed
            elif SIZE_BYTES[code] == 1:
                at += 2 + data[at + 1]
            else:
                at += 5 + int.from_bytes(data[at + 1 : at + 5])
    except IndexError:
        return None
    return None
