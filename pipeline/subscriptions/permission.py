"""Permissions of users at destinations: a literal reading of the permissions file.

    ["*"]                        # all users, anonymous clients too
    consume = ["news"]
    [alice]
    publish = ["orders.*"]
    consume = ["orders.*", "queue://billing/*"]
    create = ["*", "temp-queue://*"]

Rule 1: an action that no line allows is not allowed; there are no lines that forbid.
Rule 2: a pattern is for one kind of destination, the one that its prefix names (`topic://`, which
        may be left out, `queue://`, `temp-queue://`, `temp-topic://`).
Rule 3: in the name `*` stands for zero or more characters, and `?` for one; every other character
        stands for itself. Neither a dot nor a slash is special.
Rule 4: no action includes another.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.model.address import PREFIXES, Kind, kind_of_topic
from distributary.pipeline.model.amqp_error import UNAUTHORIZED, AmqpError
from distributary.pipeline.model.topic_pattern import is_pattern, stand_ins

#: In place of a user's name: all users.
EVERYBODY = "*"


class Action(StrEnum):
    PUBLISH = "publish"  #: send to the destination
    CONSUME = "consume"  #: receive from it, browse it
    CREATE = "create"  #: make and end durable subscriptions on it; make a queue, a temporary one
    MANAGE = "manage"  #: end subscriptions on it, whichever user made them


@dataclass(frozen=True, slots=True)
class Pattern:
    """A kind of destination and a pattern of its names."""

    kind: Kind
    name: str

    def matches(self, kind: Kind, name: str) -> bool:
        return self.kind == kind and fits(self.name, name)

    def matches_topic(self, topic: str) -> bool:
        """Whether the pattern fits the destination with this word in the log."""
        return self.matches(*_parts(topic))


Grants = Mapping[Action, tuple[Pattern, ...]]


@dataclass(frozen=True, slots=True)
class Permissions:
    """The grants of each user; `EVERYTHING` where no permissions are configured."""

    grants: Mapping[str, Grants] | None

    def allow(self, user: str, action: Action, topic: str) -> bool:
        """Whether the user may do this to the destination, named as in the log. A pattern of topics
        is allowed if every topic that matches it is."""
        if self.grants is None:
            return True
        if is_pattern(topic):
            return all(self.allow(user, action, name) for name in stand_ins(topic))
        kind, name = _parts(topic)
        return any(
            pattern.matches(kind, name)
            for who in (user, EVERYBODY)
            for pattern in self.grants.get(who, {}).get(action, ())
        )

    def everywhere(self, user: str, action: Action) -> bool:
        """Whether the user may do this to every topic and every queue."""
        if self.grants is None:
            return True
        every = {
            pattern.kind
            for who in (user, EVERYBODY)
            for pattern in self.grants.get(who, {}).get(action, ())
            if pattern.name == "*"
        }
        return {Kind.TOPIC, Kind.QUEUE} <= every

    def amqp_error(self, user: str, topic: str, *actions: Action) -> AmqpError | None:
        """Return None when the user may do one of these actions, else the error for the peer."""
        if any(self.allow(user, action, topic) for action in actions):
            return None
        words = " or ".join(actions)
        return AmqpError(UNAUTHORIZED, f"user '{user}' has no permission to {words} '{topic}'")


EVERYTHING = Permissions(None)


def parse(tree: Mapping[str, object]) -> Permissions:
    """Parse the permissions as written: user, action, patterns. Raises InvalidRequest."""
    return Permissions({user: _grants(user, lines) for user, lines in tree.items()})


def _grants(user: str, lines: object) -> Grants:
    if not isinstance(lines, dict):
        raise InvalidRequest(f"the entry of '{user}' is no table; write [{user}] above its lines")
    grants: dict[Action, tuple[Pattern, ...]] = {}
    known = ", ".join(Action)
    for action, patterns in lines.items():
        if action not in set(Action):
            raise InvalidRequest(f"[{user}]: unknown action '{action}'; there are {known}")
        if not isinstance(patterns, list) or not all(isinstance(p, str) for p in patterns):
            raise InvalidRequest(f"[{user}] {action}: it must be a list of patterns")
        grants[Action(action)] = tuple(_pattern(user, action, text) for text in patterns)
    return grants


def _pattern(user: str, action: str, text: str) -> Pattern:
    pattern = pattern_of(text)
    if pattern is None:
        prefixes = ", ".join(PREFIXES.values())
        raise InvalidRequest(
            f"[{user}] {action}: '{text}' is no pattern; it is a name, or one behind {prefixes}"
        )
    return pattern


def pattern_of(text: str) -> Pattern | None:
    """Parse a pattern of destinations; return None for a text that is none."""
    kind, name = _parts(text)
    return None if not name or kind_of_topic(name) is not Kind.TOPIC else Pattern(kind, name)


def _parts(topic: str) -> tuple[Kind, str]:
    """Return kind and name of a destination; `topic://` may stand before a topic."""
    kind = kind_of_topic(topic)
    return kind, topic.removeprefix(PREFIXES[kind])


def fits(pattern: str, name: str) -> bool:
    """Whether the name fits the pattern.

    After a mismatch only the last `*` may take one more character: the earlier ones never need
    more than they took.
    """
    at = position = taken = 0
    star = -1
    while position < len(name):
        if at < len(pattern) and pattern[at] == "*":
            star, taken, at = at, position, at + 1
        elif at < len(pattern) and pattern[at] in ("?", name[position]):
            at, position = at + 1, position + 1
        elif star >= 0:
            taken += 1
            at, position = star + 1, taken
        else:
            return False
    return all(rest == "*" for rest in pattern[at:])
