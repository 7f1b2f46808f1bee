"""Everything that the client raises on purpose; each is one sentence.

* ClientError
  x InvalidRequest    an argument that can't be (`pipeline.errors`: it is no ClientError)
  x ConnectionFailed  nobody answers, or the connection is lost for longer than one waits
  x LoginRefused      the other side doesn't let this user in
  x Refused           a link, or the connection, was ended by the other side: it says why
  x NotAccepted       a message wasn't taken: its outcome, and why
  x RolledBack        a transaction didn't commit: none of its work is done
  x ClientClosed      the client, or the subscription, is closed already
"""

from distributary.pipeline.errors import DistributaryError


class ClientError(DistributaryError):
    """The base of what the client raises."""


class ConnectionFailed(ClientError):
    """Nobody answers, or the connection is lost and nobody waits for it any more. Of a publish that
    was under way nobody knows whether it was taken."""


class LoginRefused(ClientError):
    """The other side doesn't let this user in."""


class Refused(ClientError):
    """The other side ended a link or the connection. `condition` is AMQP's word for why."""

    def __init__(self, what: str, condition: str, description: str) -> None:
        said = ": ".join(part for part in (condition, description) if part)
        super().__init__(f"{what}: {said or 'no reason is given'}")
        self.condition, self.description = condition, description


class NotAccepted(ClientError):
    """A message wasn't taken. `outcome` is `rejected`, `released` or `modified`; `condition` says
    why where the other side does."""

    def __init__(self, address: str, outcome: str, condition: str = "", reason: str = "") -> None:
        said = ": ".join(part for part in (condition, reason) if part)
        super().__init__(f"a message to {address} was {outcome}" + (f": {said}" if said else ""))
        self.address, self.outcome, self.condition = address, outcome, condition


class RolledBack(ClientError):
    """A transaction didn't commit; nothing of it is done. If the connection was lost while it
    committed, nobody knows: the message says so."""


class ClientClosed(ClientError):
    """What was asked of a client, a publisher or a subscription that is closed."""
