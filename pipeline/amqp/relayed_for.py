"""For whom a gateway relays a link to the owner of a log: what its attach says in its properties.

Only the attach of a gateway may say it: the owner believes it.
"""

from collections.abc import Iterable, Mapping

import msgspec

from distributary.pipeline.codec.amqp_types import DecodeError
from distributary.pipeline.codec.raw_values import value_of

#: The properties' keys.
PREFIX = "distributary:"
LOG, CONNECTION = f"{PREFIX}log", f"{PREFIX}connection"
CONTAINER, USER, PEER = f"{PREFIX}container", f"{PREFIX}user", f"{PREFIX}peer"
SOLE, DESIRED = f"{PREFIX}sole", f"{PREFIX}desired"


class RelayedFor(msgspec.Struct, frozen=True):
    """A client of another gateway. `connection` is a number of its connection there, `desired` are
    the capabilities that its attach desires, `log` is where the link is meant to go."""

    log: str
    connection: int
    container: str
    user: str
    peer: str
    sole: bool = False
    desired: frozenset[str] = frozenset()

    def properties(self) -> Mapping[str, str | int | bool]:
        """As an attach says it."""
        return {
            LOG: self.log,
            CONNECTION: self.connection,
            CONTAINER: self.container,
            USER: self.user,
            PEER: self.peer,
            SOLE: self.sole,
            DESIRED: " ".join(sorted(self.desired)),
        }


def relayed_for(pairs: Iterable[tuple[str, bytes]]) -> RelayedFor | None:
    """What the properties of an attach say, as keys and encoded values; None if they say nothing of
    it. Raises DecodeError where they say a part of it only."""
    said = {key: value_of(data) for key, data in pairs if key.startswith(PREFIX)}
    if not said:
        return None
    match said:
        case {
            "distributary:log": str(log),
            "distributary:connection": int(connection),
            "distributary:container": str(container),
            "distributary:user": str(user),
            "distributary:peer": str(peer),
            "distributary:sole": bool(sole),
            "distributary:desired": str(desired),
        }:
            words = frozenset(desired.split())
            return RelayedFor(log, connection, container, user, peer, sole, words)
    raise DecodeError("an attach says in part for whom it is relayed")
