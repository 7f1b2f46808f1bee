"""Owners of names: client ids, and the names of subscriptions that belong to no client id.

    ["*"]                                  # all users
    client_ids = ["{user}", "{user}-*", "ID:*"]
    [billing]
    client_ids = ["billing", "invoices-*"]
    subscriptions = ["dispatchers*"]

Rule 1: a name that fits a pattern in the line of a user is that user's. Several users may own it.
Rule 2: a user may use any other name that fits a pattern of `["*"]`, where `{user}` stands for
        that user's name; without a line `["*"]`, all users may use any other name.
Rule 3: `*` and `?` in a pattern have the same meaning as in permissions.
"""

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.model.amqp_error import UNAUTHORIZED, AmqpError
from distributary.pipeline.model.subscription import SubscriptionKey
from distributary.pipeline.subscriptions.permission import EVERYBODY, fits

#: In a pattern of `["*"]`: the name of the asking user.
USER = "{user}"
_WILD = frozenset("*?")


class NameKind(StrEnum):
    """Kind of a name; the words are the keys of a line."""

    CLIENT_ID = "client_ids"  #: the container id of a connection
    SUBSCRIPTION = "subscriptions"  #: a global subscription, durable or not


class _Reserved(msgspec.Struct, frozen=True):
    """The names of one kind that have owners: those without a wildcard, and the patterns."""

    exact: Mapping[str, frozenset[str]] = msgspec.field(default_factory=dict)
    patterns: tuple[tuple[str, str], ...] = ()
    everybody: tuple[str, ...] | None = None  #: the patterns of `["*"]`; None: any name

    def may_use(self, user: str, name: str) -> bool:
        owners = {owner for pattern, owner in self.patterns if fits(pattern, name)}
        owners |= self.exact.get(name, frozenset())
        if owners:
            return user in owners
        if self.everybody is None:
            return True
        return any(_fits_for(pattern, user, name) for pattern in self.everybody)


class OwnedNames(msgspec.Struct, frozen=True):
    """The patterns of names by user; `ANYBODYS` where no file of names is configured."""

    kinds: Mapping[NameKind, _Reserved] = msgspec.field(default_factory=dict)

    def may_use(self, user: str, kind: NameKind, name: str) -> bool:
        """Whether the user may use this name."""
        reserved = self.kinds.get(kind)
        return reserved is None or reserved.may_use(user, name)

    def may_use_key(self, user: str, key: SubscriptionKey | None) -> bool:
        """Whether the user may use the subscription's name. Queues, and subscriptions of a link's
        own, have no owned name."""
        if key is None or key.queue:
            return True
        if key.container is None:
            return self.may_use(user, NameKind.SUBSCRIPTION, key.name)
        return self.may_use(user, NameKind.CLIENT_ID, key.container)

    def amqp_error(self, user: str, key: SubscriptionKey | None) -> AmqpError | None:
        """Return None when the user may use the subscription's name, else the error for the
        peer."""
        if key is None or self.may_use_key(user, key):
            return None
        what = f"subscription {key.id}"
        if key.container is not None:
            what = f"client id '{key.container}' and its subscriptions"
        return AmqpError(
            UNAUTHORIZED, f"user '{user}' may not use the {what}: the name is another's"
        )


ANYBODYS = OwnedNames()


def parse(tree: Mapping[str, object]) -> OwnedNames:
    """Parse the names as written: user, kind, patterns. Raises InvalidRequest."""
    lines = {user: _line(user, said) for user, said in tree.items()}
    return OwnedNames({kind: _reserved(kind, lines) for kind in NameKind})


def _reserved(kind: NameKind, lines: Mapping[str, Mapping[NameKind, tuple[str, ...]]]) -> _Reserved:
    exact: dict[str, set[str]] = {}
    patterns: list[tuple[str, str]] = []
    for user, line in lines.items():
        for pattern in line.get(kind, ()) if user != EVERYBODY else ():
            if _WILD.isdisjoint(pattern):
                exact.setdefault(pattern, set()).add(user)
            else:
                patterns.append((pattern, user))
    everybody = lines.get(EVERYBODY, {}).get(kind)
    return _Reserved(
        {name: frozenset(users) for name, users in exact.items()}, tuple(patterns), everybody
    )


def _line(user: str, said: object) -> Mapping[NameKind, tuple[str, ...]]:
    if not isinstance(said, dict):
        raise InvalidRequest(f"the entry of '{user}' is no table; write [{user}] above its lines")
    found: dict[NameKind, tuple[str, ...]] = {}
    for word, patterns in said.items():
        if word not in set(NameKind):
            known = ", ".join(NameKind)
            raise InvalidRequest(f"[{user}]: unknown key '{word}'; there are {known}")
        if not isinstance(patterns, list) or not all(isinstance(p, str) and p for p in patterns):
            raise InvalidRequest(f"[{user}] {word}: it must be a list of patterns")
        if user != EVERYBODY and any(USER in pattern for pattern in patterns):
            raise InvalidRequest(f'[{user}] {word}: {USER} is for ["{EVERYBODY}"] alone')
        found[NameKind(word)] = tuple(patterns)
    return found


def _fits_for(pattern: str, user: str, name: str) -> bool:
    """Whether the name fits with the user's name in place of `{user}`. For a user whose name has a
    wildcard it never does: the pattern would fit other users' names."""
    if USER in pattern and not _WILD.isdisjoint(user):
        return False
    return fits(pattern.replace(USER, user), name)
