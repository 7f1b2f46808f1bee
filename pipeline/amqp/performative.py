"""AMQP's frames as bytes: performatives read, and written again, field by field.

For frames with fields that the engine doesn't understand. Fields that aren't read are passed on
unchanged, byte for byte. Hostile bytes cost a DecodeError, nothing else.

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

#: Keys of an attach's properties that carry fields which the engine can't write in their places;
#: `spliced` moves them there. No peer ever sees these keys.
OFFERED = Symbol("offered-capabilities")
DEFAULT_OUTCOME = Symbol("default-outcome")
#: Key of our number of the link: the attach then tells its channel and handle.
LINK = Symbol("link")

#: Under this key a flow names the transaction that its credit is part of.
TRANSACTION = "txn-id"
#: The engine counts credit as a signed number; more credit than this is cut to this.
CREDIT_MAX = 2**31 - 1
_CREDIT = uint_of(CREDIT_MAX)
_HEADER = struct.Struct(">IBBH")


class _Field:
    """Places of fields in their lists."""

    NAME, HANDLE, SOURCE, TARGET, OFFERED, DESIRED, PROPERTIES = 0, 1, 5, 6, 11, 12, 13
    EXPIRY_POLICY, NODE_PROPERTIES, DEFAULT_OUTCOME = 2, 5, 8
    TRANSFER_TAG, TRANSFER_FORMAT, TRANSFER_STATE, TRANSFER_RESUME = 2, 3, 7, 8
    FLOW_NEXT_INCOMING, FLOW_WINDOW = 0, 1
    FLOW_HANDLE, FLOW_CREDIT, FLOW_DRAIN, FLOW_ECHO, FLOW_PROPERTIES = 4, 6, 8, 9, 10
    DISPOSITION_STATE = 4


class Performative(msgspec.Struct, frozen=True):
    """One frame: its channel, descriptor (`code`), fields as received, and payload.

    `code` is -1 for an unknown performative.
    """

    channel: int
    code: int
    fields: tuple[bytes, ...]
    payload: bytes = b""

    def field(self, place: int) -> bytes:
        """Return a field's bytes; those of null if it is absent."""
        return field_at(self.fields, place)

    def with_fields(self, places: dict[int, bytes]) -> "Performative":
        """Return the performative with other fields at these places."""
        return replace(self, fields=with_places(self.fields, places))


class WalkedAttach(msgspec.Struct, frozen=True):
    """The fields of an attach. `frame` is the frame in a form that the engine reads."""

    frame: bytes
    channel: int
    handle: int
    name: str
    desired: frozenset[str]
    default_outcome: DeliveryState | None  #: None: none, or one that is no outcome
    #: Priority of a consumer among those of its subscription; None for one that is no integer.
    priority: int | None = 0
    redeliver: bool = False  #: the consumer wants failed messages at once that wait for redelivery
    expiry: str = ""  #: the source's expiry policy; empty if there is none
    relayed: RelayedFor | None = None  #: the client for which a gateway relays the link


def parse(frame: bytes) -> Performative:
    """Parse a whole frame. Raises DecodeError."""
    with reading():
        size, offset, _kind, channel = _HEADER.unpack_from(frame)
        if size != len(frame):
            raise DecodeError(f"a frame of {len(frame)} bytes says {size}")
        descriptor, at = _descriptor(frame, 4 * offset)
        stop = skip(frame, at)
        code = code_of(descriptor)
        return Performative(channel, code, fields_of(frame[at:stop]), frame[stop:])


def refuse_heavy(frame: bytes, limits: DecodeLimits) -> NoReturn:
    """Raise the DecodeError for a frame whose values are too many, too deep or broken."""
    with reading():
        at = 4 * frame[4]
        read(frame, at, DecodeBudget(len(frame), limits))
    raise DecodeError("a frame whose values can't be told apart")


def encode(performative: Performative) -> bytes:
    """Return the performative's frame."""
    body = descriptor(performative.code) + list_of(performative.fields)
    return _frame(performative.channel, body + performative.payload)


def _frame(channel: int, body: bytes) -> bytes:
    return _HEADER.pack(_HEADER.size + len(body), 2, 0, channel) + body


#: An open without fields: its container's id is null. For the engine alone.
BARE_OPEN = _frame(0, descriptor(Descriptor.OPEN) + compound(LISTS, [NULL]))


def numbered(frame: bytes) -> bytes:
    """Return the frame with its performative described by a number. Raises DecodeError for an
    unknown one."""
    performative = parse(frame)
    if performative.code < 0:
        raise DecodeError("a frame of an unknown kind")
    return encode(performative)


def attach(frame: bytes) -> WalkedAttach:
    """Read the fields of an attach that the engine doesn't. Raises DecodeError."""
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
    """Return the map in which an attach names the client of a relayed link: its properties, or, to
    a coordinator, where the engine writes none, those of the source's node."""
    source, target = (attach.field(place) for place in (_Field.SOURCE, _Field.TARGET))
    if NULL in (source, target) or code_of(_descriptor(target, 0)[0]) != Descriptor.COORDINATOR:
        return attach.field(_Field.PROPERTIES)
    return field_at(fields_of(_value(source)), _Field.NODE_PROPERTIES)


#: The properties of an attach in which clients of several brokers give a consumer's priority.
PRIORITIES = frozenset({"priority", "x-priority", "rabbitmq:priority"})


def _priority(properties: bytes) -> int | None:
    """Return the consumer's priority in an attach; 0 if there is none, None if it is no integer."""
    for key, data in pairs_of(properties):
        if key in PRIORITIES and data != NULL:
            value = value_of(data)
            return value if isinstance(value, int) and not isinstance(value, bool) else None
    return 0


#: The property of an attach by which a returning consumer demands redelivery.
REDELIVER = "redeliver"


def _redeliver(properties: bytes) -> bool:
    """Whether an attach demands redelivery."""
    pairs = pairs_of(properties)
    return any(key == REDELIVER and value_of(data) is True for key, data in pairs)


class WalkedFlow(msgspec.Struct, frozen=True):
    """The fields of a flow of a link, or (`handle` None) of its session alone. `frame` is the frame
    with no more credit than the engine can count; `asks`: its sender waits for the link's state."""

    frame: bytes
    channel: int
    handle: int | None
    asks: bool
    acquires: bool  #: deliveries for this credit are to be part of a transaction
    window: int  #: transfers that its sender takes from the first one on that it hasn't seen


def flow(frame: bytes) -> WalkedFlow:
    """Read a flow. Raises DecodeError."""
    performative = parse(frame)
    with reading():
        handle = value_of(performative.field(_Field.FLOW_HANDLE))
        credit = value_of(performative.field(_Field.FLOW_CREDIT))
        drain = value_of(performative.field(_Field.FLOW_DRAIN))
        echo = value_of(performative.field(_Field.FLOW_ECHO))
        properties = tuple(pairs_of(performative.field(_Field.FLOW_PROPERTIES)))
        window = value_of(performative.field(_Field.FLOW_WINDOW))
    if isinstance(credit, int) and credit > CREDIT_MAX:
        frame = encode(performative.with_fields({_Field.FLOW_CREDIT: _CREDIT}))
    return WalkedFlow(
        frame,
        performative.channel,
        handle if isinstance(handle, int) else None,
        echo is True or (drain is True and credit in (0, None)),
        any(key == TRANSACTION for key, _ in properties),
        window if isinstance(window, int) else 0,
    )


def shut(frame: bytes) -> bytes:
    """Return a flow, like this one, by which the engine sends no transfer in its session until the
    next flow comes. Raises DecodeError."""
    flow = parse(frame)
    closed = flow.with_fields({_Field.FLOW_NEXT_INCOMING: NULL, _Field.FLOW_WINDOW: uint_of(0)})
    return encode(replace(closed, fields=closed.fields[: _Field.FLOW_HANDLE]))


#: The state by which the engine tells a resumed delivery from others: no peer may give it.
RESUMED = descriptor(Descriptor.DECLARED) + list_of([])


class OddTransfer(msgspec.Struct, frozen=True):
    """A transfer that isn't plain. `frame` is the frame in a form that the engine reads."""

    frame: bytes
    channel: int
    handle: int
    message_format: int
    state: int  #: descriptor of the delivery's state; 0: none, -1: unknown
    continues: bool  #: it has no tag: its message began in an earlier transfer
    resumes: bool  #: its sender goes on with a delivery of an earlier attachment of the link


def transfer(frame: bytes) -> OddTransfer:
    """Read the fields of a transfer that the engine doesn't. Raises DecodeError."""
    performative = parse(frame)
    with reading():
        handle = value_of(performative.field(_Field.HANDLE - 1))
        message_format = value_of(performative.field(_Field.TRANSFER_FORMAT))
        state, named = _state(performative.field(_Field.TRANSFER_STATE))
        resumes = value_of(performative.field(_Field.TRANSFER_RESUME)) is True
    if not isinstance(handle, int) or not isinstance(message_format, int | None):
        raise DecodeError("a transfer's handle and message-format must be numbers")
    if resumes:
        named = RESUMED
    if named is not None:
        frame = encode(performative.with_fields({_Field.TRANSFER_STATE: named}))
    tag = performative.field(_Field.TRANSFER_TAG)
    return OddTransfer(
        frame,
        performative.channel,
        handle,
        message_format or 0,
        state,
        continues=tag == NULL,
        resumes=resumes,
    )


def disposition(frame: bytes) -> tuple[bytes, int]:
    """Return the frame in a form that the engine reads, and the descriptor of its state: 0 if it
    has none, -1 for an unknown one. Raises DecodeError."""
    performative = parse(frame)
    with reading():
        state, named = _state(performative.field(_Field.DISPOSITION_STATE))
    if named is not None:
        frame = encode(performative.with_fields({_Field.DISPOSITION_STATE: named}))
    return frame, state


class SplicedAttach(msgspec.Struct, frozen=True):
    """An attach of the engine, with the fields in its properties moved to their places."""

    frame: bytes
    channel: int
    handle: int
    link: int  #: our number of the link; 0 if the properties carried none


def spliced(frame: bytes) -> SplicedAttach:
    """Return an attach of the engine as it is sent to the peer. Raises DecodeError."""
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
    """Return the descriptor of the value at `at`, and where the described value begins."""
    if data[at] != DESCRIBED:
        raise DecodeError(f"the value at byte {at} must be described")
    return read(data, at + 1)


def _value(described: bytes) -> bytes:
    """Return a described value without its descriptor."""
    return described[_descriptor(described, 0)[1] :]


def _numbered(described: bytes) -> bytes:
    """Return a described value with its descriptor as a number, if that is known; null as it is."""
    if described == NULL:
        return described
    said, at = _descriptor(described, 0)
    code = code_of(said)
    if code < 0 or not isinstance(said, str):
        return described
    return descriptor(code) + described[at:]


def _state(field: bytes) -> tuple[int, bytes | None]:
    """Return a delivery state's descriptor, and the state in a form that the engine reads, or None
    if it came so."""
    if field == NULL:
        return 0, None
    descriptor, _ = _descriptor(field, 0)
    code = code_of(descriptor)
    if code == Descriptor.TRANSACTIONAL_STATE:
        return code, in_transaction(value_of(field))
    return code, _numbered(field) if isinstance(descriptor, str) and code >= 0 else None
