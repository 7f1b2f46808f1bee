"""The states of deliveries as frames have them: outcomes, alone or in a transaction.

Outcomes: AMQP 1.0 part 3, section 3.4; states of transactions: part 4, section 4.5.
"""

from distributary.pipeline.amqp.coordinator_command import id_of, number_of
from distributary.pipeline.codec.amqp_types import DecodeError, Described, Value
from distributary.pipeline.model.outcome import Outcome
from distributary.pipeline.model.transitions import DeliveryState

RECEIVED, TRANSACTIONAL_STATE = 0x23, 0x34

#: Descriptors of the outcomes that a receiver may give.
OUTCOMES: dict[int, Outcome] = {
    0x24: Outcome.ACCEPTED,
    0x25: Outcome.REJECTED,
    0x26: Outcome.RELEASED,
    0x27: Outcome.MODIFIED,
}
#: The states that a delivery can have.
STATES = frozenset({RECEIVED, *OUTCOMES, TRANSACTIONAL_STATE})

#: What is described by a name in what the engine reads by number.
NUMBERS: dict[str, int] = {
    "amqp:open:list": 0x10,
    "amqp:begin:list": 0x11,
    "amqp:attach:list": 0x12,
    "amqp:flow:list": 0x13,
    "amqp:transfer:list": 0x14,
    "amqp:disposition:list": 0x15,
    "amqp:detach:list": 0x16,
    "amqp:end:list": 0x17,
    "amqp:close:list": 0x18,
    "amqp:received:list": RECEIVED,
    "amqp:accepted:list": 0x24,
    "amqp:rejected:list": 0x25,
    "amqp:released:list": 0x26,
    "amqp:modified:list": 0x27,
    "amqp:source:list": 0x28,
    "amqp:target:list": 0x29,
    "amqp:coordinator:list": 0x30,
    "amqp:declared:list": 0x33,
    "amqp:transactional-state:list": TRANSACTIONAL_STATE,
}
_KNOWN = frozenset(NUMBERS.values())


def code_of(descriptor: Value) -> int:
    """The number of a descriptor; -1 for one that nobody knows."""
    if isinstance(descriptor, str):
        return NUMBERS.get(descriptor, -1)
    return descriptor if isinstance(descriptor, int) and descriptor in _KNOWN else -1


def verdict(value: Value) -> DeliveryState | None:
    """The outcome that a value is; None if it is none."""
    if not isinstance(value, Described):
        return None
    outcome = OUTCOMES.get(code_of(value.descriptor))
    fields = value.value if isinstance(value.value, list) else []
    if outcome is not Outcome.MODIFIED:
        return DeliveryState(outcome) if outcome else None
    failed, undeliverable = (*fields[:2], None, None)[:2]
    return DeliveryState(outcome, failed is True, undeliverable is True)


def in_transaction(state: Value) -> bytes:
    """A transactional state as the pump reads it, whatever forms its sender chose: an id as ours
    are, and an outcome by its number, or none. What can't be an id of ours becomes that of no
    transaction. Raises DecodeError for an outcome that is none."""
    fields = state.value if isinstance(state, Described) else None
    if not isinstance(fields, list):
        raise DecodeError("a transactional-state must be a list")
    identifier, outcome = (*fields, None, None)[:2]
    content = b"\xa0\x08" + id_of(number_of(identifier))
    if outcome is not None:
        said = verdict(outcome)
        if said is None:
            raise DecodeError("the outcome in a transaction must be one of the four")
        content += described(said)
    count = 1 if outcome is None else 2
    return b"\x00\x53\x34\xc0" + bytes([len(content) + 1, count]) + content


def described(said: DeliveryState) -> bytes:
    """An outcome as it stands in a frame, with what of it has a meaning here."""
    [code] = (code for code, outcome in OUTCOMES.items() if outcome is said.outcome)
    flags = b""
    if said.outcome is Outcome.MODIFIED:
        flags = bytes([0x41 if said.failed else 0x42, 0x41 if said.undeliverable else 0x42])
    return b"\x00\x53" + bytes([code, 0xC0, len(flags) + 1, len(flags)]) + flags
