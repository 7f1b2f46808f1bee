"""States of deliveries in frames: outcomes, alone or in a transaction.

Outcomes: AMQP 1.0 part 3, section 3.4; states of transactions: part 4, section 4.5.
"""

from distributary.pipeline.amqp.coordinator_command import id_of, number_of
from distributary.pipeline.codec.amqp_codes import Descriptor, descriptor
from distributary.pipeline.codec.amqp_types import DecodeError, Described, Value
from distributary.pipeline.codec.amqp_writer import write
from distributary.pipeline.codec.raw_values import list_of
from distributary.pipeline.model.outcome import Outcome
from distributary.pipeline.model.transitions import DeliveryState

#: Descriptors of the outcomes that a receiver may give.
OUTCOMES: dict[int, Outcome] = {
    Descriptor.ACCEPTED: Outcome.ACCEPTED,
    Descriptor.REJECTED: Outcome.REJECTED,
    Descriptor.RELEASED: Outcome.RELEASED,
    Descriptor.MODIFIED: Outcome.MODIFIED,
}
#: The states that a delivery can have.
STATES = frozenset({Descriptor.RECEIVED, *OUTCOMES, Descriptor.TRANSACTIONAL_STATE})

#: Numbers of the descriptors that may come as names, and that the engine reads as numbers.
NUMBERS: dict[str, int] = {
    one.symbol: int(one)
    for one in (
        *(one for one in Descriptor if one <= Descriptor.CLOSE),
        *(one for one in Descriptor if Descriptor.RECEIVED <= one <= Descriptor.TARGET),
        Descriptor.COORDINATOR,
        Descriptor.DECLARED,
        Descriptor.TRANSACTIONAL_STATE,
    )
}
_KNOWN = frozenset(NUMBERS.values())


def code_of(descriptor: Value) -> int:
    """Return the number of a descriptor; -1 for an unknown one."""
    if isinstance(descriptor, str):
        return NUMBERS.get(descriptor, -1)
    return descriptor if isinstance(descriptor, int) and descriptor in _KNOWN else -1


def read_state(value: Value) -> DeliveryState | None:
    """Return the outcome in a value; None if it is none."""
    if not isinstance(value, Described):
        return None
    outcome = OUTCOMES.get(code_of(value.descriptor))
    fields = value.value if isinstance(value.value, list) else []
    if outcome is not Outcome.MODIFIED:
        return DeliveryState(outcome) if outcome else None
    failed, undeliverable = (*fields[:2], None, None)[:2]
    return DeliveryState(outcome, failed is True, undeliverable is True)


def in_transaction(state: Value) -> bytes:
    """Encode a transactional state in the one form that the pump reads: an id of ID_BYTES, and an
    outcome by its number, or none. An id of another form becomes the id of no transaction. Raises
    DecodeError for an outcome that is none."""
    fields = state.value if isinstance(state, Described) else None
    if not isinstance(fields, list):
        raise DecodeError("a transactional-state must be a list")
    identifier, outcome = (*fields, None, None)[:2]
    content = [write(id_of(number_of(identifier)))]
    if outcome is not None:
        said = read_state(outcome)
        if said is None:
            raise DecodeError("the outcome in a transaction must be one of the four")
        content.append(described(said))
    return descriptor(Descriptor.TRANSACTIONAL_STATE) + list_of(content)


def described(said: DeliveryState) -> bytes:
    """Encode an outcome for a frame, with the fields that have a meaning here."""
    [code] = (code for code, outcome in OUTCOMES.items() if outcome is said.outcome)
    flags = []
    if said.outcome is Outcome.MODIFIED:
        flags = [write(said.failed), write(said.undeliverable)]
    return descriptor(code) + list_of(flags)
