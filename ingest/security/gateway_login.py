"""Logins of a lake's gateways at each other: SCRAM-SHA-256, as a user reserved for gateways.

Its password is the lake's secret: a process that can read the secret can read the lake. It is never
sent, so that a process that listens at a gateway's former address learns nothing.
"""

import msgspec

from distributary.ingest.security.scram import ITERATIONS_MIN, ScramKeys, keys_of

#: The gateways' user. No users file and no certificate can name it.
GATEWAY = "$gateway"


class GatewayLogin(msgspec.Struct, frozen=True):
    """An owner's terms for other gateways. `log`: the log whose links it takes from them. A gateway
    that is silent for `silence_ms` is lost, and messages in flight to its clients go to other
    consumers: by then it must have given this owner up, or it would still deliver those messages,
    too."""

    log: str
    keys: ScramKeys
    silence_ms: int


def gateway_login(log: str, secret: str, lease_ms: int) -> GatewayLogin:
    """Return the login of a lake's secret, 32 random bytes: it can't be guessed, so the hash may be
    cheap.

    A gateway gives an owner up that was silent for a lease, as it is no owner any more. We wait 1.5
    leases for the gateway. It sends a frame at least each quarter of that, so its last frame came
    at most 3/8 of a lease before a network failure: we give it up after it has given us up.
    """
    return GatewayLogin(log, keys_of(secret, iterations=ITERATIONS_MIN), lease_ms * 3 // 2)
