"""The frames that a peer may send in each state of its connection, session and link.

The peer begins sessions and attaches links, the gateway only answers: so the frames that a peer may
send follow from those that it has sent. There is a table for each kind of endpoint; a frame must be
allowed by the tables of all endpoints that it concerns. Else it is a `Violation`, which ends the
connection before the engine gets the frame.

`ingest/native/build_pump.py` generates the tables of `ingest/native/guard.c` from these; no other
code has the rules. The engine itself checks the session's incoming window and the ids of the
gateway's own deliveries, which only it knows.

Connections, sessions and links: AMQP 1.0 part 2, sections 2.4 to 2.6; errors: 2.8.15 to 2.8.18.
"""

from enum import Enum, IntEnum
from typing import NamedTuple

from distributary.pipeline.codec.amqp_codes import Descriptor

ILLEGAL_STATE, NOT_ALLOWED = "amqp:illegal-state", "amqp:not-allowed"
INVALID_FIELD, DECODE_ERROR = "amqp:invalid-field", "amqp:decode-error"
FRAMING_ERROR, RESOURCE_LIMIT = "amqp:connection:framing-error", "amqp:resource-limit-exceeded"
HANDLE_IN_USE = "amqp:session:handle-in-use"
UNATTACHED_HANDLE = "amqp:session:unattached-handle"

#: The highest handle that a peer may use: the handle-max in each begin of the gateway.
HANDLE_MAX = 0x7FFFFFFF


class Kind(IntEnum):
    """Kind of a frame, as far as its legality depends on it."""

    OPEN = 0
    BEGIN = 1
    ATTACH_SENDER = 2  #: the peer will send
    ATTACH_RECEIVER = 3
    SESSION_FLOW = 4  #: without a handle
    LINK_FLOW = 5
    TRANSFER_MORE = 6  #: more of its delivery follows
    TRANSFER_LAST = 7  #: the last of its delivery, most often the only one; or an abort
    DISPOSITION = 8
    DETACH = 9
    END = 10
    CLOSE = 11


class ConnectionState(IntEnum):
    AWAITING_OPEN = 0
    OPENED = 1
    CLOSED = 2  #: the peer has sent its close; later frames are ignored


class SessionState(IntEnum):
    UNMAPPED = 0
    MAPPED = 1


class LinkState(IntEnum):
    UNATTACHED = 0
    SENDER = 1  #: the peer sends; no delivery is begun
    SENDING = 2  #: the peer has sent the beginning of a delivery
    RECEIVER = 3


class Rule(NamedTuple):
    """Reason why a connection ends: a condition, and a sentence about {name}, the performative, on
    {channel}, with {handle} and {number}."""

    condition: str
    sentence: str


class Violation(Enum):
    """A breach of the rules by a peer."""

    NO_OPEN = Rule(ILLEGAL_STATE, "{name}: the first frame must be an open")
    OPEN_TWICE = Rule(ILLEGAL_STATE, "open: there was one before")
    NO_SESSION = Rule(NOT_ALLOWED, "{name}: there is no session on channel {channel}")
    BEGIN_TWICE = Rule(ILLEGAL_STATE, "begin: there is a session on channel {channel} already")
    HANDLE_IN_USE = Rule(
        HANDLE_IN_USE, "attach: handle {handle} on channel {channel} is that of another link"
    )
    UNATTACHED = Rule(
        UNATTACHED_HANDLE, "{name}: no link is attached to handle {handle} on channel {channel}"
    )
    TRANSFER_BY_RECEIVER = Rule(
        NOT_ALLOWED, "transfer: the peer is the receiver of link {handle} on channel {channel}"
    )
    # Frames that no state allows.
    FRAME_SIZE = Rule(FRAMING_ERROR, "a frame can't have {number} bytes here")
    FRAME_HEAD = Rule(FRAMING_ERROR, "a frame's head says that its body begins where it can't")
    FRAME_TYPE = Rule(FRAMING_ERROR, "a frame of type {number} came where only AMQP's may")
    UNKNOWN = Rule(DECODE_ERROR, "a frame of an unknown kind")
    FIELDS = Rule(DECODE_ERROR, "{name}: it can't be read: a field is missing, or isn't what it is")
    CHANNEL_MAX = Rule(FRAMING_ERROR, "begin: channel {channel} is above the channel-max")
    HANDLE_MAX = Rule(FRAMING_ERROR, "attach: handle {handle} is above the handle-max")
    REMOTE_CHANNEL = Rule(INVALID_FIELD, "begin: it answers channel {number}, which never asked")
    NAME_IN_USE = Rule(
        INVALID_FIELD, "attach: a link of this name and role is attached on channel {channel}"
    )
    LINKS_MAX = Rule(
        RESOURCE_LIMIT, "too many refused links that aren't detached (twice amqp.links_max)"
    )
    NO_DELIVERY_ID = Rule(INVALID_FIELD, "transfer: a delivery begins without a delivery-id")
    NO_DELIVERY_TAG = Rule(INVALID_FIELD, "transfer: a delivery begins without a delivery-tag")
    DELIVERY_ID = Rule(
        INVALID_FIELD, "transfer: delivery-id {number} isn't the next one of channel {channel}"
    )
    OTHER_DELIVERY = Rule(
        INVALID_FIELD,
        "transfer: delivery-id {number} came within another delivery of link {handle}",
    )
    RANGE = Rule(NOT_ALLOWED, "disposition: its first delivery-id comes behind its last, {number}")
    NEVER_SENT = Rule(
        INVALID_FIELD, "disposition: the peer has sent no delivery {number} on channel {channel}"
    )


#: A row of a table: for each state before the frame the state after it, or why it can't come.
Row = tuple[IntEnum | Violation, ...]

_C, _S, _L, _V = ConnectionState, SessionState, LinkState, Violation

#: Connection, for every frame: the state after it, for each state before it. After a close all
#: frames are ignored.
CONNECTION: dict[Kind, Row] = {
    # state before:        AWAITING_OPEN  OPENED          CLOSED
    Kind.OPEN:            (_C.OPENED,    _V.OPEN_TWICE,  _C.CLOSED),
    Kind.BEGIN:           (_V.NO_OPEN,   _C.OPENED,      _C.CLOSED),
    Kind.ATTACH_SENDER:   (_V.NO_OPEN,   _C.OPENED,      _C.CLOSED),
    Kind.ATTACH_RECEIVER: (_V.NO_OPEN,   _C.OPENED,      _C.CLOSED),
    Kind.SESSION_FLOW:    (_V.NO_OPEN,   _C.OPENED,      _C.CLOSED),
    Kind.LINK_FLOW:       (_V.NO_OPEN,   _C.OPENED,      _C.CLOSED),
    Kind.TRANSFER_MORE:   (_V.NO_OPEN,   _C.OPENED,      _C.CLOSED),
    Kind.TRANSFER_LAST:   (_V.NO_OPEN,   _C.OPENED,      _C.CLOSED),
    Kind.DISPOSITION:     (_V.NO_OPEN,   _C.OPENED,      _C.CLOSED),
    Kind.DETACH:          (_V.NO_OPEN,   _C.OPENED,      _C.CLOSED),
    Kind.END:             (_V.NO_OPEN,   _C.OPENED,      _C.CLOSED),
    Kind.CLOSE:           (_C.CLOSED,    _C.CLOSED,      _C.CLOSED),
}  # fmt: skip

#: Session on the frame's channel, for all frames but open and close. An end also ends the session's
#: links.
SESSION: dict[Kind, Row] = {
    # state before:        UNMAPPED        MAPPED
    Kind.BEGIN:           (_S.MAPPED,     _V.BEGIN_TWICE),
    Kind.ATTACH_SENDER:   (_V.NO_SESSION, _S.MAPPED),
    Kind.ATTACH_RECEIVER: (_V.NO_SESSION, _S.MAPPED),
    Kind.SESSION_FLOW:    (_V.NO_SESSION, _S.MAPPED),
    Kind.LINK_FLOW:       (_V.NO_SESSION, _S.MAPPED),
    Kind.TRANSFER_MORE:   (_V.NO_SESSION, _S.MAPPED),
    Kind.TRANSFER_LAST:   (_V.NO_SESSION, _S.MAPPED),
    Kind.DISPOSITION:     (_V.NO_SESSION, _S.MAPPED),
    Kind.DETACH:          (_V.NO_SESSION, _S.MAPPED),
    Kind.END:             (_V.NO_SESSION, _S.UNMAPPED),
}  # fmt: skip

#: Link of the frame's handle, for the frames that have one. A link that the gateway has ended stays
#: attached until its peer detaches it: frames that crossed the gateway's detach are legal.
LINK: dict[Kind, Row] = {
    # state before:        UNATTACHED      SENDER             SENDING            RECEIVER
    Kind.ATTACH_SENDER:   (_L.SENDER,     _V.HANDLE_IN_USE,  _V.HANDLE_IN_USE,  _V.HANDLE_IN_USE),
    Kind.ATTACH_RECEIVER: (_L.RECEIVER,   _V.HANDLE_IN_USE,  _V.HANDLE_IN_USE,  _V.HANDLE_IN_USE),
    Kind.LINK_FLOW:       (_V.UNATTACHED, _L.SENDER,         _L.SENDING,        _L.RECEIVER),
    Kind.TRANSFER_MORE:   (_V.UNATTACHED, _L.SENDING,        _L.SENDING,  _V.TRANSFER_BY_RECEIVER),
    Kind.TRANSFER_LAST:   (_V.UNATTACHED, _L.SENDER,         _L.SENDER,   _V.TRANSFER_BY_RECEIVER),
    Kind.DETACH:          (_V.UNATTACHED, _L.UNATTACHED,     _L.UNATTACHED,     _L.UNATTACHED),
}  # fmt: skip


class Type(IntEnum):
    """Types of fields, as far as the rules need their values."""

    BOOLEAN = 0
    USHORT = 1
    UINT = 2
    BINARY = 3
    STRING = 4


class Field(NamedTuple):
    """A field of a performative that the rules need. A field of another type is refused: the engine
    would read it as 0."""

    place: int
    type: Type
    mandatory: bool = False


#: By the performative's descriptor: its fields, in their order.
FIELDS: dict[int, dict[str, Field]] = {
    Descriptor.OPEN: {"channel_max": Field(3, Type.USHORT)},
    Descriptor.BEGIN: {
        "remote_channel": Field(0, Type.USHORT),
        "incoming_window": Field(2, Type.UINT),
        "peer_handle_max": Field(4, Type.UINT),
    },
    Descriptor.ATTACH: {
        "name": Field(0, Type.STRING, True),
        "handle": Field(1, Type.UINT, True),
        "role": Field(2, Type.BOOLEAN, True),
    },
    Descriptor.FLOW: {
        "next_incoming_id": Field(0, Type.UINT),
        "incoming_window": Field(1, Type.UINT),
        "handle": Field(4, Type.UINT),
    },
    Descriptor.TRANSFER: {
        "handle": Field(0, Type.UINT, True),
        "delivery_id": Field(1, Type.UINT),
        "delivery_tag": Field(2, Type.BINARY),
        "more": Field(5, Type.BOOLEAN),
        "aborted": Field(9, Type.BOOLEAN),
    },
    Descriptor.DISPOSITION: {
        "role": Field(0, Type.BOOLEAN, True),
        "first": Field(1, Type.UINT, True),
        "last": Field(2, Type.UINT),
    },
    Descriptor.DETACH: {"handle": Field(0, Type.UINT, True)},
    Descriptor.END: {},
    Descriptor.CLOSE: {},
}
#: Names of performatives.
NAMES: dict[int, str] = {code: Descriptor(code).name.lower() for code in FIELDS}
VIOLATIONS: tuple[Violation, ...] = tuple(Violation)


def condition_and_sentence(
    violation: int, *, code: int, channel: int, handle: int, number: int
) -> tuple[str, str]:
    """Return condition and sentence of the close for the violation with this index in `VIOLATIONS`,
    by a frame of the performative `code`."""
    rule = VIOLATIONS[violation].value
    name = NAMES.get(code, "a frame")
    return rule.condition, rule.sentence.format(
        name=name, channel=channel, handle=handle, number=number
    )
