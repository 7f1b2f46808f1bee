"""How gateways of one lake log in at each other: SCRAM-SHA-256 as a user that nobody else can be.

Its password is the lake's secret: who can read that can read the lake. It is never sent, so that
who listens at an address of before learns nothing.
"""

import msgspec

from distributary.ingest.security.scram import ITERATIONS_MIN, ScramKeys, keys_of

#: The user. No users file and no certificate can name it.
GATEWAY = "$gateway"


class GatewayLogin(msgspec.Struct, frozen=True):
    """What the owner of a log knows of other gateways. `log`: links to topics of this one are
    taken from them. One that is silent for so many ms is lost, and what its clients have goes to
    others: by then it must have given its owner up, or it would read on what was on its way and
    give it to its clients, too."""

    log: str
    keys: ScramKeys
    silence_ms: int


def gateway_login(log: str, secret: str, lease_ms: int) -> GatewayLogin:
    """Of a lake's secret, 32 random bytes: guessing is hopeless, so nothing here is slow.

    A gateway gives an owner up that was silent for a lease, which is no owner any more. We wait for
    it half as long again: it says something each quarter of what we wait, so we have heard of it
    three eighths of a lease before a network failed, or later, and miss it behind its own end.
    """
    return GatewayLogin(log, keys_of(secret, iterations=ITERATIONS_MIN), lease_ms * 3 // 2)
