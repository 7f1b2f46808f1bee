"""Giving a message up: the reason, its outcome, and whether a copy is kept."""

from typing import Final

from distributary.pipeline.model.outcome import Outcome, Reason
from distributary.pipeline.model.policy import Overflow, Policy
from distributary.pipeline.model.transitions import Event

#: Reason for giving a message up -> its outcome where no copy of it is kept.
OUTCOMES: Final = {
    Reason.REJECTED: Outcome.REJECTED,
    Reason.UNDELIVERABLE: Outcome.MODIFIED,
    Reason.EXHAUSTED: Outcome.MODIFIED,
    Reason.EXPIRED: Outcome.EXPIRED,
    Reason.OVERFLOW: Outcome.DROPPED,
    Reason.REDRIVEN: Outcome.REDRIVEN,
}

#: Event that ends a delivery for good, except `accepted` -> reason for giving the message up.
REASONS: Final = {
    Event.REJECT: Reason.REJECTED,
    Event.MODIFY_UNDELIVERABLE: Reason.UNDELIVERABLE,
}


def keeps(policy: Policy, reason: Reason) -> bool:
    """Whether the policy keeps copies of messages that are given up for this reason."""
    if not policy.dead_letter:
        return False
    match reason:
        case Reason.EXPIRED:
            return policy.dead_letter_expired
        case Reason.OVERFLOW:
            return policy.backlog.overflow is Overflow.DEAD_LETTER
        case Reason.REDRIVEN:
            return False
        case _:
            return True
