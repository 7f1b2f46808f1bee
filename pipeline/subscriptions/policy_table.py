"""Policies as they are written: a table has the keys that differ from the policy below it.

Tables come from settings (the defaults), from a file (by patterns), and from a subscription's own
record (a text of JSON); the keys are the same everywhere, those of a backlog begin with `backlog_`.

    [[subscription]]
    match = "queue/orders*"        # the subscription's id; `*` and `?` as in permissions
    delivery_attempts_max = 5
    [[topic]]
    match = "queue://orders*"      # the topic or queue; a pattern as in permissions
    duplicates_messages = 10_000
    routes = ["queue://audit where amount > 100"]

Rule 1: the defaults hold, then every line that matches, in the order of the file, then the
        subscription's own table. Each overrides single keys of those before it.
Rule 2: every table must be consistent with the defaults alone, or it is refused when it is written.
        Two lines together may still contradict each other, as a delay above its maximum: then the
        maximum holds. So may a subscription's own table and the defaults of a later start.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import TypeAlias

import msgspec

from distributary.pipeline.codec.quoting import quoted
from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.model.address import Destination, Kind, destination_of
from distributary.pipeline.model.amqp_error import AmqpError
from distributary.pipeline.model.policy import (
    DEFAULT,
    DEFAULT_TOPIC,
    Backlog,
    Lifetime,
    Overflow,
    Policy,
    Redefine,
    Route,
    Storage,
    TopicPolicy,
)
from distributary.pipeline.selector.lexer import SelectorError
from distributary.pipeline.selector.parser import parse as parse_selector
from distributary.pipeline.subscriptions.permission import Pattern, fits, pattern_of

#: Values of a policy by their keys, as in `pipeline.model.policy`.
Table: TypeAlias = Mapping[str, object]

#: Ten years in milliseconds: longer than any real delay; as microseconds it still fits in 64 bits.
MS_MOST = 10 * 365 * 24 * 3_600 * 1_000
#: The same in seconds: a client's longer time-out is cut to this, and the answer says so.
EXPIRY_SECONDS_MOST = MS_MOST // 1_000
#: More than any log holds, and exact as a double, as which other JSON readers take it.
COUNT_MOST = 2**53 - 1
#: Routes of one topic: each costs a publisher what one more message does.
ROUTES_MOST = 32
#: ActiveMQ's "no limit" of a subscription's consumers; it is the same as 0.
NO_LIMIT = -1
#: Bytes of a page: the least holds a few messages; two pages of the most still fit in memory.
PAGE_LEAST = 4_096
PAGE_MOST = 1 << 28
#: Most ids that one topic remembers; each takes about 150 bytes.
DUPLICATES_MOST = 1_000_000

#: Separator of a route's address and its selector.
_WHERE = re.compile(r"\s+where\s+", re.IGNORECASE)

_MATCH = "match"
_SUBSCRIPTION, _TOPIC = "subscription", "topic"


class _Reader:
    """One table, read key by key; a missing key's value comes from the policy below it."""

    def __init__(self, said: Table, where: str) -> None:
        self._said, self._where = said, where
        self._known: list[str] = []

    def wrong(self, sentence: str) -> InvalidRequest:
        return InvalidRequest(f"{self._where}: {sentence}")

    def _take(self, key: str) -> object:
        self._known.append(key)
        return self._said.get(key)

    def whole(self, key: str, below: int, most: int, least: int = 0) -> int:
        value = self._take(key)
        if value is None:
            return below
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self.wrong(f"{key} must be a whole number from {least} to {most}")
        return value

    def size(self, key: str, below: int, least: int, most: int) -> int:
        """Read a number of bytes from `least` to `most`, or 0 for an unset limit."""
        size = self.whole(key, below, most)
        if 0 < size < least:
            raise self.wrong(f"{key} must be 0, or {least} at least")
        return size

    def number(self, key: str, below: float, least: float, most: float) -> float:
        value = self._take(key)
        if value is None:
            return below
        number = value if isinstance(value, int | float) and not isinstance(value, bool) else None
        if number is None or not least <= number <= most:
            raise self.wrong(f"{key} must be a number from {least:g} to {most:g}")
        return float(number)

    def truth(self, key: str, below: bool) -> bool:
        value = self._take(key)
        if value is None:
            return below
        if not isinstance(value, bool):
            raise self.wrong(f"{key} must be true or false")
        return value

    def text(self, key: str, below: str) -> str:
        value = self._take(key)
        if value is None:
            return below
        if not isinstance(value, str):
            raise self.wrong(f"{key} must be a string")
        return value

    def queue(self, key: str, below: str) -> str:
        """Read the address of a queue; it may be empty."""
        address = self.text(key, below)
        if address and not dead_letter_queue(address):
            raise self.wrong(f"{key} is {quoted(address)}; it must name a queue")
        return address

    def routes(self, key: str, below: tuple[Route, ...]) -> tuple[Route, ...]:
        """Read a route or a list of them, as `ADDRESS` or `ADDRESS where SELECTOR`; an empty text
        is no route."""
        value = self._take(key)
        if value is None:
            return below
        if isinstance(value, str):
            value = [value] if value.strip() else []
        if not isinstance(value, list) or len(value) > ROUTES_MOST:
            raise self.wrong(f"{key} must be a route, or a list of {ROUTES_MOST} at most")
        return tuple(self._route(key, text) for text in value)

    def _route(self, key: str, text: object) -> Route:
        address, *selector = _WHERE.split(text, maxsplit=1) if isinstance(text, str) else ("",)
        to = destination_of(address.strip(), None, Kind.TOPIC)
        if isinstance(to, AmqpError):
            raise self.wrong(f"{key} has {quoted(str(text))}: {to.description}")
        if to.is_temporary:
            raise self.wrong(f"{key} has {quoted(str(text))}: a temporary destination can't be one")
        try:
            return Route(to, parse_selector(selector[0]).text if selector else None)
        except SelectorError as error:
            raise self.wrong(f"{key} has {quoted(str(text))}: {error}") from None

    def word(self, key: str, below: str, words: Iterable[str]) -> str:
        """Read one of these words."""
        value, known = self.text(key, below), list(words)
        if value not in known:
            raise self.wrong(f"{key} is {quoted(value)}; it must be one of {', '.join(known)}")
        return value

    def finish(self) -> None:
        """Check that the table has no other keys."""
        for key in self._said:
            if key not in self._known:
                known = ", ".join(self._known)
                raise self.wrong(f"unknown key {quoted(key)}; there are {known}")


def over(below: Policy, said: Table, where: str) -> Policy:
    """Return the policy `below` with the table's keys replaced. Raises InvalidRequest, beginning
    with `where`, for an unknown key or a value out of range."""
    read = _Reader(said, where)
    policy = Policy(
        delivery_attempts_max=read.whole(
            "delivery_attempts_max", below.delivery_attempts_max, 1_000_000
        ),
        redelivery_delay_ms=read.whole("redelivery_delay_ms", below.redelivery_delay_ms, MS_MOST),
        redelivery_multiplier=read.number(
            "redelivery_multiplier", below.redelivery_multiplier, 1, 1_000
        ),
        redelivery_delay_ms_max=read.whole(
            "redelivery_delay_ms_max", below.redelivery_delay_ms_max, MS_MOST
        ),
        redelivery_jitter=read.number("redelivery_jitter", below.redelivery_jitter, 0, 1),
        lost_consumer_counts=read.truth("lost_consumer_counts", below.lost_consumer_counts),
        dead_letter=read.truth("dead_letter", below.dead_letter),
        dead_letter_address=read.text("dead_letter_address", below.dead_letter_address),
        dead_letter_expired=read.truth("dead_letter_expired", below.dead_letter_expired),
        consumers_max=max(
            read.whole("consumers_max", below.consumers_max, COUNT_MOST, NO_LIMIT), 0
        ),
        single_active=read.truth("single_active", below.single_active),
        message_groups=read.truth("message_groups", below.message_groups),
        lock_ms=read.whole("lock_ms", below.lock_ms, MS_MOST),
        redefine=Redefine(read.word("redefine", below.redefine, Redefine)),
        sharing_may_change=read.truth("sharing_may_change", below.sharing_may_change),
        create_on_use=read.truth("create_on_use", below.create_on_use),
        expiry=Lifetime(read.word("expiry", below.expiry, Lifetime)),
        expiry_seconds=read.whole("expiry_seconds", below.expiry_seconds, EXPIRY_SECONDS_MOST),
        page_bytes=read.size("page_bytes", below.page_bytes, PAGE_LEAST, PAGE_MOST),
        backlog=_backlog(read, below.backlog),
    )
    read.finish()
    return policy


def topic_over(below: TopicPolicy, said: Table, where: str) -> TopicPolicy:
    """Return the topic's policy `below` with the table's keys replaced, as `over` does."""
    read = _Reader(said, where)
    policy = TopicPolicy(
        duplicates_messages=read.whole(
            "duplicates_messages", below.duplicates_messages, DUPLICATES_MOST
        ),
        duplicates_ms=read.whole("duplicates_ms", below.duplicates_ms, MS_MOST),
        routes=read.routes("routes", below.routes),
        create_on_use=read.truth("create_on_use", below.create_on_use),
        page_bytes=read.size("page_bytes", below.page_bytes, PAGE_LEAST, PAGE_MOST),
        storage=Storage(read.word("storage", below.storage, Storage)),
        dead_letter_address=read.queue("dead_letter_address", below.dead_letter_address),
        backlog=_backlog(read, below.backlog),
    )
    read.finish()
    return policy


def _backlog(read: _Reader, below: Backlog) -> Backlog:
    word = read.word("backlog_overflow", below.overflow, Overflow)
    return Backlog(
        messages_max=read.whole("backlog_messages_max", below.messages_max, COUNT_MOST),
        bytes_max=read.whole("backlog_bytes_max", below.bytes_max, COUNT_MOST),
        age_ms_max=read.whole("backlog_age_ms_max", below.age_ms_max, MS_MOST),
        overflow=Overflow(word),
    )


def dead_letter_queue(address: str) -> Destination | None:
    """Return the queue of an address of dead letters; None if it names no queue."""
    found = destination_of(address, None, Kind.QUEUE)
    if isinstance(found, Destination) and found.kind is Kind.QUEUE:
        return found
    return None


def check(policy: Policy, where: str) -> None:
    """Raise InvalidRequest when parts of the policy contradict each other."""
    keeps = policy.dead_letter
    rules = (
        (
            policy.redelivery_delay_ms <= policy.redelivery_delay_ms_max,
            (
                f"redelivery_delay_ms ({policy.redelivery_delay_ms}) is more than "
                f"redelivery_delay_ms_max ({policy.redelivery_delay_ms_max})"
            ),
        ),
        (
            keeps or not policy.dead_letter_address,
            "dead_letter_address is of no use with dead_letter = false",
        ),
        (
            keeps or not policy.dead_letter_expired,
            "dead_letter_expired is of no use with dead_letter = false",
        ),
        (
            keeps or policy.backlog.overflow is not Overflow.DEAD_LETTER,
            "backlog_overflow = 'dead_letter' can't be with dead_letter = false",
        ),
        (
            not policy.dead_letter_address or dead_letter_queue(policy.dead_letter_address),
            f"dead_letter_address is {quoted(policy.dead_letter_address)}; it must name a queue",
        ),
    )
    for holds, sentence in rules:
        if not holds:
            raise InvalidRequest(f"{where}: {sentence}")


def text_of(said: Table) -> str:
    """Return a subscription's own table as the text in its record, without keys whose value is
    None; empty if no key is left."""
    kept = {key: value for key, value in said.items() if value is not None}
    return json.dumps(kept, sort_keys=True, separators=(",", ":")) if kept else ""


def of_text(text: str, where: str) -> Table:
    """Return the table of a text of `text_of`; `over` checks its keys. Raises InvalidRequest."""
    if not text:
        return {}
    try:
        said = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"{where}: the policy is not JSON: {error}") from None
    if not isinstance(said, dict):
        raise InvalidRequest(f"{where}: the policy must be a table of keys and values")
    return said


class _Line(msgspec.Struct, frozen=True):
    """One line's pattern, of ids if it is a text, else of destinations, and its keys."""

    match: str | Pattern
    said: Table
    where: str


class Policies(msgspec.Struct, frozen=True):
    """All defaults and lines, without the subscriptions' own tables. See the module's rules."""

    default: Policy = DEFAULT
    default_topic: TopicPolicy = DEFAULT_TOPIC
    subscriptions: tuple[_Line, ...] = ()
    topics: tuple[_Line, ...] = ()

    def of_subscription(self, subscription_id: str, own: str = "") -> Policy:
        """Return the policy in force; `own` is the text in the subscription's record, which may
        contradict the defaults of now. Raises InvalidRequest when that text isn't valid."""
        policy = self.default
        for line in self.subscriptions:
            if isinstance(line.match, str) and fits(line.match, subscription_id):
                policy = over(policy, line.said, line.where)
        if own:
            where = f"subscription {subscription_id}"
            policy = over(policy, of_text(own, where), where)
        return policy

    def check_own(self, own: str, subscription_id: str) -> None:
        """Raise InvalidRequest when a subscription can't have this text as its own policy."""
        where = f"subscription {subscription_id}"
        check(over(self.default, of_text(own, where), where), where)

    @property
    def seek_duplicates(self) -> bool:
        """Whether duplicates are looked for on any topic."""
        lines = (topic_over(self.default_topic, line.said, line.where) for line in self.topics)
        return self.default_topic.seeks_duplicates or any(line.seeks_duplicates for line in lines)

    def of_topic(self, topic: str) -> TopicPolicy:
        """Return the policy of a topic or queue, by its word in the log."""
        policy = self.default_topic
        for line in self.topics:
            if isinstance(line.match, Pattern) and line.match.matches_topic(topic):
                policy = topic_over(policy, line.said, line.where)
        return policy


def parse(tree: Table, default: Policy, default_topic: TopicPolicy) -> Policies:
    """Parse a policies file. Raises InvalidRequest that names the line."""
    for name in tree:
        if name not in (_SUBSCRIPTION, _TOPIC):
            raise InvalidRequest(f"unknown section {name!r}; there are [[subscription]], [[topic]]")
    subscriptions = []
    for number, said in enumerate(_lines(tree, _SUBSCRIPTION), 1):
        match, where, rest = _matched(said, _SUBSCRIPTION, number)
        check(over(default, rest, where), where)
        subscriptions.append(_Line(match, rest, where))
    topics = []
    for number, said in enumerate(_lines(tree, _TOPIC), 1):
        match, where, rest = _matched(said, _TOPIC, number)
        pattern = pattern_of(match)
        if pattern is None:
            raise InvalidRequest(f"{where}: {match!r} is no pattern of topics or queues")
        topic_over(default_topic, rest, where)
        topics.append(_Line(pattern, rest, where))
    return Policies(default, default_topic, tuple(subscriptions), tuple(topics))


def _lines(tree: Table, name: str) -> list[object]:
    lines = tree.get(name, [])
    if not isinstance(lines, list):
        raise InvalidRequest(f"[{name}] must be written [[{name}]]: there may be several")
    return lines


def _matched(said: object, name: str, number: int) -> tuple[str, str, Table]:
    """Return a line's pattern, the line's name for errors, and its other keys."""
    where = f"[[{name}]] number {number}"
    if not isinstance(said, dict):
        raise InvalidRequest(f"{where} must be a table")
    match = said.get(_MATCH)
    if not isinstance(match, str) or not match:
        raise InvalidRequest(f"{where} must say what it is for: {_MATCH} = 'pattern'")
    return match, f"[[{name}]] '{match}'", {k: v for k, v in said.items() if k != _MATCH}
