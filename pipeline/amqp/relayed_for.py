"""The client for which a gateway relays a link to the owner of a log, in the attach's properties.

Only a gateway's attach may have these properties: the owner trusts them.
"""

from collections.abc import Iterable, Mapping

import msgspec

from distributary.pipeline.codec.amqp_types import DecodeError
from distributary.pipeline.codec.raw_values import value_of
from distributary.pipeline.model.address import Kind

#: The properties' keys.
PREFIX = "distributary:"
LOG, CONNECTION = f"{PREFIX}log", f"{PREFIX}connection"
CONTAINER, USER, PEER = f"{PREFIX}container", f"{PREFIX}user", f"{PREFIX}peer"
SOLE, DESIRED, KEEPS = f"{PREFIX}sole", f"{PREFIX}desired", f"{PREFIX}keeps"
BARE = f"{PREFIX}bare"
#: Capability of a source in an owner's answer to a gateway: the link has made its subscription.
MADE = f"{PREFIX}made"
#: Condition of the refusal of a link that `keeps`: it may change the subscription.
CHANGES = f"{PREFIX}changes"


class RelayedFor(msgspec.Struct, frozen=True):
    """A client of another gateway. `connection` is a number of its connection there, `desired` are
    the capabilities that its attach desires, `log` is the log that the link is for. `keeps`: where
    the link would change its subscription, the owner only says so, by a refusal. `bare` is the kind
    that an address without one has at that gateway; None from a gateway that doesn't say it."""

    log: str
    connection: int
    container: str
    user: str
    peer: str
    sole: bool = False
    desired: frozenset[str] = frozenset()
    keeps: bool = False
    bare: Kind | None = None

    def properties(self) -> Mapping[str, str | int | bool]:
        """Return the properties for an attach."""
        said: dict[str, str | int | bool] = {
            LOG: self.log,
            CONNECTION: self.connection,
            CONTAINER: self.container,
            USER: self.user,
            PEER: self.peer,
            SOLE: self.sole,
            DESIRED: " ".join(sorted(self.desired)),
        }
        if self.bare is not None:
            said[BARE] = self.bare.value
        return {**said, KEEPS: True} if self.keeps else said


def relayed_for(pairs: Iterable[tuple[str, bytes]]) -> RelayedFor | None:
    """Read the properties of an attach, given as keys and encoded values; return None without any
    of ours. Raises DecodeError where only a part of them is there."""
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
            keeps = said.get(KEEPS) is True
            bare = next((kind for kind in Kind if kind == said.get(BARE)), None)
            return RelayedFor(log, connection, container, user, peer, sole, words, keeps, bare)
    raise DecodeError("an attach says in part for whom it is relayed")
