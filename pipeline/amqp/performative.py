"""AMQP's frames as bytes: performatives read, and written again, field by field.

For the frames of which the engine understands less than they say. A field that nobody asks about
is passed on as it came, byte for byte. Hostile bytes cost a DecodeError, nothing else.

Frames: AMQP 1.0 part 2, section 2.3; performatives: section 2.7; outcomes and termini: part 3.
"""

import struct
from typing import NoReturn

import msgspec
from msgspec.structs import replace

from distributary.pipeline.amqp.delivery_state import (
    code_of,
    in_transaction,
    read_state,
)
from distributary.pipeline.amqp.relayed_for import RelayedFor, relayed_for
from distributary.pipeline.codec.amqp_codes import DESCRIBED, LISTS, Descriptor, descriptor
from distributary.pipeline.codec.amqp_types import (
    DecodeBudget,
    DecodeError,
    DecodeLimits,
    Symbol,
    Value,
    read,
    skip,
)
from distributary.pipeline.codec.amqp_writer import compound
from distributary.pipeline.codec.raw_values import (
    NULL,
    field_at,
    fields_of,
    list_of,
    pairs_of,
    reading,
    symbols_of,
    uint_of,
    value_of,
    with_places,
)
from distributary.pipeline.model.transitions import DeliveryState

ATTACH, FLOW = int(Descriptor.ATTACH), int(Descriptor.FLOW)
TRANSFER, DISPOSITION = int(Descriptor.TRANSFER), int(Descriptor.DISPOSITION)

#: The keys under which an attach carries, in its properties, what the engine can't write where it
#: belongs; `spliced` puts it there. No peer ever sees them.
OFFERED = Symbol("offered-capabilities")
DEFAULT_OUTCOME = Symbol("default-outcome")
#: And the number by which we know the link: its attach tells the channel and handle it has.
LINK = Symbol("link")

#: Under this key a flow names the transaction that its credit is part of.
TRANSACTION = "txn-id"
#: The engine counts credit with a sign. Who gives more gives as good as this.
CREDIT_MAX = 2**31 - 1
_CREDIT = uint_of(CREDIT_MAX)
_HEADER = struct.Struct(">IBBH")


class _Field:
    """Places of fields in their lists."""

    NAME, HANDLE, SOURCE, TARGET, OFFERED, DESIRED, PROPERTIES = 0, 1, 5, 6, 11, 12, 13
    EXPIRY_POLICY, NODE_PROPERTIES, DEFAULT_OUTCOME = 2, 5, 8
    TRANSFER_TAG, TRANSFER_FORMAT, TRANSFER_STATE = 2, 3, 7
    FLOW_HANDLE, FLOW_CREDIT, FLOW_DRAIN, FLOW_ECHO, FLOW_PROPERTIES = 4, 6, 8, 9, 10
    DISPOSITION_STATE = 4


class Performative(msgspec.Struct, frozen=True):
    """One frame: its channel, what it is, its fields as they came, and what follows them.

    `code` is -1 for a performative that nobody knows.
    """

    channel: int
    code: int
    fields: tuple[bytes, ...]
    payload: bytes = b""

    def field(self, place: int) -> bytes:
        """A field's bytes; those of null if it isn't there."""
        return field_at(self.fields, place)

    def with_fields(self, places: dict[int, bytes]) -> "Performative":
        """The same with other fields at these places."""
        return replace(self, fields=with_places(self.fields, places))


class WalkedAttach(msgspec.Struct, frozen=True):
    """What an attach says. `frame` is the frame as the engine can read it."""

    frame: bytes
    channel: int
    handle: int
    name: str
    desired: frozenset[str]
    default_outcome: DeliveryState | None  #: None: none, or one that is no outcome
    #: That of a consumer among those of its subscription; None if it says one that is no integer.
    priority: int | None = 0
    redeliver: bool = False  #: a consumer wants at once what failed and waits
    expiry: str = ""  #: the word of the source's expiry policy; empty if it says none
    relayed: RelayedFor | None = None  #: for whom a gateway relays it


def parse(frame: bytes) -> Performative:
    """The performative of a whole frame. Raises DecodeError."""
    with reading():
        size, offset, _kind, channel = _HEADER.unpack_from(frame)
        if size != len(frame):
            raise DecodeError(f"a frame of {len(frame)} bytes says {size}")
        descriptor, at = _descriptor(frame, 4 * offset)
        stop = skip(frame, at)
        code = code_of(descriptor)
        return Performative(channel, code, fields_of(frame[at:stop]), frame[stop:])


def refuse_heavy(frame: bytes, limits: DecodeLimits) -> NoReturn:
    """Say why a frame isn't taken whose values were counted: more than it may bring, too deep, or
    broken. Raises DecodeError, always."""
    with reading():
        at = 4 * frame[4]
        read(frame, at, DecodeBudget(len(frame), limits))
    raise DecodeError("a frame whose values can't be told apart")


def encode(performative: Performative) -> bytes:
    """The frame."""
    body = descriptor(performative.code) + list_of(performative.fields)
    return _frame(performative.channel, body + performative.payload)


def _frame(channel: int, body: bytes) -> bytes:
    return _HEADER.pack(_HEADER.size + len(body), 2, 0, channel) + body


#: An open that says nothing: its container's id is null. For the engine alone.
BARE_OPEN = _frame(0, descriptor(Descriptor.OPEN) + compound(LISTS, [NULL]))


def numbered(frame: bytes) -> bytes:
    """The frame with its performative described by a number. Raises DecodeError if nobody knows
    what it is."""
    performative = parse(frame)
    if performative.code < 0:
        raise DecodeError("a frame of which nobody knows what it is")
    return encode(performative)


def attach(frame: bytes) -> WalkedAttach:
    """An attach, read as far as the engine doesn't. Raises DecodeError."""
    performative = parse(frame)
    with reading():
        name = value_of(performative.field(_Field.NAME))
        handle = value_of(performative.field(_Field.HANDLE))
        if not isinstance(name, str) or not isinstance(handle, int):
            raise DecodeError("an attach must have a name and a handle")
        source = performative.field(_Field.SOURCE)
        outcome: Value = None
        expiry: Value = None
        if source != NULL:
            fields = fields_of(_value(source))
            outcome = value_of(field_at(fields, _Field.DEFAULT_OUTCOME))
            expiry = value_of(field_at(fields, _Field.EXPIRY_POLICY))
        termini = {
            place: _numbered(performative.field(place)) for place in (_Field.SOURCE, _Field.TARGET)
        }
        changed = performative.with_fields(termini)
        return WalkedAttach(
            frame if changed == performative else encode(changed),
            performative.channel,
            handle,
            name,
            symbols_of(value_of(performative.field(_Field.DESIRED))),
            read_state(outcome),
            _priority(performative.field(_Field.PROPERTIES)),
            _redeliver(performative.field(_Field.PROPERTIES)),
            expiry if isinstance(expiry, str) else "",
            relayed_for(pairs_of(_whom(performative))),
        )


def _whom(attach: Performative) -> bytes:
    """The map in which an attach says for whom a gateway relays it: its properties, or, where the
    engine writes none, to a coordinator, those of the source's node."""
    source, target = (attach.field(place) for place in (_Field.SOURCE, _Field.TARGET))
    if NULL in (source, target) or code_of(_descriptor(target, 0)[0]) != Descriptor.COORDINATOR:
        return attach.field(_Field.PROPERTIES)
    return field_at(fields_of(_value(source)), _Field.NODE_PROPERTIES)


#: The properties of an attach in which clients of several brokers say a consumer's priority.
PRIORITIES = frozenset({"priority", "x-priority", "rabbitmq:priority"})


def _priority(properties: bytes) -> int | None:
    """The consumer's priority that an attach says; 0 if it says none, None if it can't be one."""
    for key, data in pairs_of(properties):
        if key in PRIORITIES and data != NULL:
            value = value_of(data)
            return value if isinstance(value, int) and not isinstance(value, bool) else None
    return 0


#: The property of an attach by which a consumer that was away demands redelivery.
REDELIVER = "redeliver"


def _redeliver(properties: bytes) -> bool:
    """Whether an attach demands redelivery."""
    pairs = pairs_of(properties)
    return any(key == REDELIVER and value_of(data) is True for key, data in pairs)


class WalkedFlow(msgspec.Struct, frozen=True):
    """What a flow says of a link (None: of its session alone). `frame` is the frame with no more
    credit than the engine can count; `asks`: its sender waits to hear where the link stands."""

    frame: bytes
    channel: int
    handle: int | None
    asks: bool
    acquires: bool  #: what is sent for this credit is to be part of a transaction


def flow(frame: bytes) -> WalkedFlow:
    """Read a flow. Raises DecodeError."""
    performative = parse(frame)
    with reading():
        handle = value_of(performative.field(_Field.FLOW_HANDLE))
        credit = value_of(performative.field(_Field.FLOW_CREDIT))
        drain = value_of(performative.field(_Field.FLOW_DRAIN))
        echo = value_of(performative.field(_Field.FLOW_ECHO))
        properties = tuple(pairs_of(performative.field(_Field.FLOW_PROPERTIES)))
    if isinstance(credit, int) and credit > CREDIT_MAX:
        frame = encode(performative.with_fields({_Field.FLOW_CREDIT: _CREDIT}))
    return WalkedFlow(
        frame,
        performative.channel,
        handle if isinstance(handle, int) else None,
        echo is True or (drain is True and credit in (0, None)),
        any(key == TRANSACTION for key, _ in properties),
    )


class OddTransfer(msgspec.Struct, frozen=True):
    """A transfer that isn't plain. `frame` is the frame as the engine can read it."""

    frame: bytes
    channel: int
    handle: int
    message_format: int
    state: int  #: descriptor of the delivery's state; 0: none, -1: one that nobody knows
    continues: bool  #: it has no tag: its message began in a transfer before


def transfer(frame: bytes) -> OddTransfer:
    """A transfer, read as far as the engine doesn't. Raises DecodeError."""
    performative = parse(frame)
    with reading():
        handle = value_of(performative.field(_Field.HANDLE - 1))
        message_format = value_of(performative.field(_Field.TRANSFER_FORMAT))
        state, named = _state(performative.field(_Field.TRANSFER_STATE))
    if not isinstance(handle, int) or not isinstance(message_format, int | None):
        raise DecodeError("a transfer's handle and message-format must be numbers")
    if named is not None:
        frame = encode(performative.with_fields({_Field.TRANSFER_STATE: named}))
    tag = performative.field(_Field.TRANSFER_TAG)
    return OddTransfer(
        frame, performative.channel, handle, message_format or 0, state, continues=tag == NULL
    )


def disposition(frame: bytes) -> tuple[bytes, int]:
    """The frame as the engine can read it, and the descriptor of its state: 0 if it has none, -1
    for one that nobody knows. Raises DecodeError."""
    performative = parse(frame)
    with reading():
        state, named = _state(performative.field(_Field.DISPOSITION_STATE))
    if named is not None:
        frame = encode(performative.with_fields({_Field.DISPOSITION_STATE: named}))
    return frame, state


class SplicedAttach(msgspec.Struct, frozen=True):
    """An attach of the engine's with what its properties carried put where it belongs."""

    frame: bytes
    channel: int
    handle: int
    link: int  #: the number by which we know it; 0 if it carried none


def spliced(frame: bytes) -> SplicedAttach:
    """An attach of the engine's as it goes to the peer. Raises DecodeError."""
    performative = parse(frame)
    with reading():
        carried = dict(pairs_of(performative.field(_Field.PROPERTIES)))
        offered = carried.pop(OFFERED, None)
        outcome = carried.pop(DEFAULT_OUTCOME, None)
        link = carried.pop(LINK, None)
        handle = _uint(value_of(performative.field(_Field.HANDLE)))
        if offered is None and outcome is None and link is None:
            return SplicedAttach(frame, performative.channel, handle, 0)
        if carried:
            raise DecodeError(f"an attach carries what it can't: {', '.join(map(str, carried))}")
        places = {_Field.PROPERTIES: NULL}
        if offered is not None:
            places[_Field.OFFERED] = offered
        source = performative.field(_Field.SOURCE)
        if outcome is not None and source != NULL:
            _, at = _descriptor(source, 0)
            fields = with_places(fields_of(source[at:]), {_Field.DEFAULT_OUTCOME: outcome})
            places[_Field.SOURCE] = source[:at] + list_of(fields)
        whole = encode(performative.with_fields(places))
        number = 0 if link is None else _uint(value_of(link))
        return SplicedAttach(whole, performative.channel, handle, number)


def _uint(value: Value) -> int:
    if not isinstance(value, int):
        raise DecodeError("a number was expected")
    return value


def _descriptor(data: bytes, at: int) -> tuple[Value, int]:
    """The descriptor of the value at `at`, and where what it describes begins."""
    if data[at] != DESCRIBED:
        raise DecodeError(f"the value at byte {at} must be described")
    return read(data, at + 1)


def _value(described: bytes) -> bytes:
    """What is described, without its descriptor."""
    return described[_descriptor(described, 0)[1] :]


def _numbered(described: bytes) -> bytes:
    """A described value with its descriptor as a number, if it has one; null as it is."""
    if described == NULL:
        return described
    said, at = _descriptor(described, 0)
    code = code_of(said)
    if code < 0 or not isinstance(said, str):
        return described
    return descriptor(code) + described[at:]


def _state(field: bytes) -> tuple[int, bytes | None]:
    """A delivery state's descriptor, and the state as the engine can read it if that isn't how it
    came."""
    if field == NULL:
        return 0, None
    descriptor, _ = _descriptor(field, 0)
    code = code_of(descriptor)
    if code == Descriptor.TRANSACTIONAL_STATE:
        return code, in_transaction(value_of(field))
    return code, _numbered(field) if isinstance(descriptor, str) and code >= 0 else None
