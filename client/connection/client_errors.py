"""Everything that the client raises on purpose; each is one sentence.

* ClientError
  x InvalidRequest    an argument that can't be (`pipeline.errors`: it is no ClientError)
  x ConnectionFailed  no server answers, or the connection is lost for longer than give_up_seconds
  x LoginRefused      the other side doesn't let this user in
  x Refused           a link, or the connection, was ended by the other side: it says why
  x NotAccepted       a message wasn't taken: its outcome, and why
  x RolledBack        a transaction didn't commit: none of its work is done
  x ClientClosed      the client, or the subscription, is closed already
"""

from distributary.pipeline.errors import DistributaryError


class ClientError(DistributaryError):
    """The base of the client's errors."""


class ConnectionFailed(ClientError):
    """No server answers, or the connection is lost and the client has given up. Whether a publish
    that was under way was accepted is unknown."""


class LoginRefused(ClientError):
    """The other side doesn't let this user in."""


class Refused(ClientError):
    """The other side ended a link or the connection. `condition` is AMQP's error condition."""

    def __init__(self, what: str, condition: str, description: str) -> None:
        said = ": ".join(part for part in (condition, description) if part)
        super().__init__(f"{what}: {said or 'no reason is given'}")
        self.condition, self.description = condition, description


class NotAccepted(ClientError):
    """A message wasn't taken. `outcome` is `rejected`, `released`, `modified` or `settled without
    an outcome`; `condition` says why, or is empty."""

    def __init__(self, address: str, outcome: str, condition: str = "", reason: str = "") -> None:
        said = ": ".join(part for part in (condition, reason) if part)
        super().__init__(f"a message to {address} was {outcome}" + (f": {said}" if said else ""))
        self.address, self.outcome, self.condition = address, outcome, condition


class RolledBack(ClientError):
    """A transaction didn't commit; nothing of it is done. If the connection was lost during the
    commit, whether it is done is unknown, and the message says so."""


class ClientClosed(ClientError):
    """An operation on a client or a subscription that is closed."""
