"""Addresses: the kind and the name of the destination that an address means.

Rule 1: a prefix of the address gives the kind; without one the capability of the terminus or the
        annotation of the message does; without either it is a bare address.
Rule 2: each of the four kinds has its own names: a topic and a queue of one name are different.
Rule 3: in the log a destination is one string without a kind, its topic: a queue has one, too.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from distributary.pipeline.model.amqp_error import INVALID_FIELD, NOT_FOUND, AmqpError

#: Characters of a destination's name: fits a file name, a log line and a metric label.
NAME_CHARACTERS_MAX = 255


class Kind(StrEnum):
    """The four kinds of JMS; the values are their capabilities on a terminus."""

    TOPIC = "topic"
    QUEUE = "queue"
    TEMPORARY_TOPIC = "temporary-topic"
    TEMPORARY_QUEUE = "temporary-queue"


#: Prefix of an address of each kind. The log leaves out the prefix of topics.
PREFIXES = {
    Kind.TOPIC: "topic://",
    Kind.QUEUE: "queue://",
    Kind.TEMPORARY_TOPIC: "temp-topic://",
    Kind.TEMPORARY_QUEUE: "temp-queue://",
}

#: Prefix of an address that names a subscription by its id, for a browser.
SUBSCRIPTION_PREFIX = "subscription://"

#: Prefix of a pattern of topics, in the log and in an address that gives it as the log does.
PATTERN_PREFIX: Final = "pattern://"

#: The scheme of a URI (RFC 3986, section 3.1).
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")

#: The message annotation `x-opt-jms-dest` (Qpid JMS): the kind of `properties.to`.
ANNOTATED = {
    0: Kind.QUEUE,
    1: Kind.TOPIC,
    2: Kind.TEMPORARY_QUEUE,
    3: Kind.TEMPORARY_TOPIC,
}

#: The kind of a prefix and the one given beside it may differ so: a client that got the name of a
#: temporary destination may use it like any other.
_FITTING = frozenset({(Kind.TEMPORARY_QUEUE, Kind.QUEUE), (Kind.TEMPORARY_TOPIC, Kind.TOPIC)})


_TEMPORARY = frozenset({Kind.TEMPORARY_QUEUE, Kind.TEMPORARY_TOPIC})


@dataclass(frozen=True, slots=True)
class Destination:
    """A place to which messages are published and from which they are consumed."""

    kind: Kind
    name: str

    @property
    def topic(self) -> str:
        """The destination's string in the log; also an address that needs no capability."""
        return self.name if self.kind is Kind.TOPIC else PREFIXES[self.kind] + self.name

    @property
    def is_queue(self) -> bool:
        return self.kind in (Kind.QUEUE, Kind.TEMPORARY_QUEUE)

    @property
    def is_temporary(self) -> bool:
        return self.kind in _TEMPORARY


def kind_of_topic(topic: str) -> Kind:
    """Return the kind of the destination with this string in the log."""
    return _prefixed(topic) or Kind.TOPIC


def is_temporary(topic: str) -> bool:
    """Whether the destination with this string in the log is a temporary one."""
    return kind_of_topic(topic) in _TEMPORARY


def said_by(capabilities: Iterable[str]) -> Kind | AmqpError | None:
    """Return the kind among a terminus' capabilities; None if there is none."""
    words = set(capabilities)
    kinds = [kind for kind in Kind if kind in words]
    if len(kinds) > 1:
        return AmqpError(
            INVALID_FIELD, f"the capabilities {' and '.join(kinds)} contradict each other"
        )
    return kinds[0] if kinds else None


def destination_of(address: str, said: Kind | None, bare: Kind) -> Destination | AmqpError:
    """Return the destination that an address means.

    `said` is the kind that the peer's capabilities name, `bare` the kind if neither they nor the
    address name one.
    """
    prefixed = _prefixed(address)
    name = address.removeprefix(PREFIXES[prefixed]) if prefixed else address
    if prefixed and said and prefixed is not said and (prefixed, said) not in _FITTING:
        return AmqpError(INVALID_FIELD, f"'{address}' is said to be a {said}, but names none")
    if not name or name.startswith("$"):
        return AmqpError(NOT_FOUND, f"'{address}' is not the name of a topic or queue")
    if name.startswith(SUBSCRIPTION_PREFIX):
        return AmqpError(
            INVALID_FIELD,
            f"'{address}' is a subscription, which can only be browsed (distribution mode copy)",
        )
    if len(name) > NAME_CHARACTERS_MAX or not name.isprintable():
        return AmqpError(
            INVALID_FIELD,
            f"a topic's or queue's name has {NAME_CHARACTERS_MAX} printable characters at most",
        )
    if _prefixed(name):
        return AmqpError(INVALID_FIELD, f"'{address}' says twice what kind of destination it is")
    if _SCHEME.match(name) and not name.startswith(PATTERN_PREFIX):
        known = " or ".join(PREFIXES.values())
        return AmqpError(INVALID_FIELD, f"'{address}': an address begins with {known}, or nothing")
    return Destination(prefixed or said or bare, name)


def _prefixed(address: str) -> Kind | None:
    for kind, prefix in PREFIXES.items():
        if address.startswith(prefix):
            return kind
    return None
