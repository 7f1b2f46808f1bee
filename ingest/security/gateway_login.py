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
    taken from them. One that is silent for so long is lost, and what its clients have goes back."""

    log: str
    keys: ScramKeys
    silence_ms: int


def gateway_login(log: str, secret: str, silence_ms: int) -> GatewayLogin:
    """Of a lake's secret, 32 random bytes: guessing is hopeless, so nothing here is slow."""
    return GatewayLogin(log, keys_of(secret, iterations=ITERATIONS_MIN), silence_ms)
