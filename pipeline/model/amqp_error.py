"""AMQP errors: the answer to a peer whose request is refused.

The conditions are those of AMQP 1.0 (part 2, section 8.15 to 8.18) that clients map to their own
errors; the description is one sentence with the fault, its place and the remedy.
"""

from dataclasses import dataclass

DELETED = "amqp:resource-deleted"
INVALID_FIELD = "amqp:invalid-field"
LIMIT_EXCEEDED = "amqp:resource-limit-exceeded"
LOCKED = "amqp:resource-locked"
NOT_FOUND = "amqp:not-found"
NOT_IMPLEMENTED = "amqp:not-implemented"
PRECONDITION_FAILED = "amqp:precondition-failed"
UNAUTHORIZED = "amqp:unauthorized-access"


@dataclass(frozen=True, slots=True)
class AmqpError:
    """An AMQP error condition and its description."""

    condition: str
    description: str
