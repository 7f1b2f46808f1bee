"""Commands to a transaction coordinator: declare and discharge; between the gateways of a lake also
to decide for other logs.

AMQP 1.0 part 4, sections 4.5.1 to 4.5.3. Hostile bytes cost a DecodeError, nothing else.
"""

import struct
from typing import TypeAlias

import msgspec

from distributary.pipeline.codec.amqp_codes import Descriptor, Kind, descriptor
from distributary.pipeline.codec.amqp_types import DecodeError, Described, Symbol, Value, read
from distributary.pipeline.codec.amqp_writer import write
from distributary.pipeline.codec.buffers import Bytes
from distributary.pipeline.codec.sections import decode

#: A transaction's id on the wire: its number, big-endian.
ID_BYTES = 8
#: A number that no transaction has.
NO_NUMBER = 2**64 - 1

#: First bytes of an amqp-value section.
_VALUE = descriptor(Kind.VALUE)
_DECLARE = (Descriptor.DECLARE, Descriptor.DECLARE.symbol)
_DECIDE = Symbol("distributary:decide:list")
_DISCHARGE = (Descriptor.DISCHARGE, Descriptor.DISCHARGE.symbol)


class Declare(msgspec.Struct, frozen=True):
    """Begin a transaction; `distributed`: as part of one that spans others, too."""

    distributed: bool


class Discharge(msgspec.Struct, frozen=True):
    """End a transaction: roll it back if `fail`, else commit it; or prepare it under `global_id`, a
    third field that only the gateways of a lake send to each other."""

    number: int
    fail: bool
    global_id: str = ""


class Decide(msgspec.Struct, frozen=True):
    """Let a transaction's commit decide the transaction of several logs with this id, in which
    these other logs have a part. Only the gateways of a lake send it to each other."""

    number: int
    decision: str
    logs: tuple[str, ...]

    def encoded(self) -> bytes:
        """Return the command's message."""
        fields: list[Value] = [id_of(self.number), self.decision, list(self.logs)]
        return _VALUE + write(Described(_DECIDE, fields))


Command: TypeAlias = Declare | Discharge | Decide


def command(message: Bytes) -> Command:
    """Read a message to a coordinator. Raises DecodeError."""
    if message[:3] == _VALUE:  # as all clients send them, without other sections
        try:
            value, _ = read(bytes(message), 3)
        except (IndexError, ValueError, struct.error) as error:
            raise DecodeError(f"a command can't be read: {error}") from None
    else:
        value = decode(message).body.value
    if isinstance(value, Described):
        fields = value.value if isinstance(value.value, list) else []
        first, second, third = (*fields, None, None, None)[:3]
        if value.descriptor in _DECLARE:
            return Declare(distributed=first is not None)
        if value.descriptor in _DISCHARGE:
            global_id = third if isinstance(third, str) else ""
            return Discharge(number_of(first), fail=second is True, global_id=global_id)
        if value.descriptor == _DECIDE and isinstance(second, str) and isinstance(third, list):
            return Decide(number_of(first), second, tuple(map(str, third)))
    raise DecodeError("a coordinator takes an amqp-value of declare or discharge")


def number_of(identifier: Value) -> int:
    """Return the number of the transaction with this id; NO_NUMBER for an id of another form."""
    if not isinstance(identifier, bytes) or len(identifier) != ID_BYTES:
        return NO_NUMBER
    return int.from_bytes(identifier, "big")


def id_of(number: int) -> bytes:
    """Return the id of the transaction with this number."""
    return number.to_bytes(ID_BYTES, "big")
