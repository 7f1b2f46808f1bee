"""The log of a lake that a topic is in, and how that may change.

Rule 1: a topic's log is that of the first rule whose pattern matches; without one it is `main`.
Rule 2: where a rule has several logs, the topic's hash chooses: when one log is added or removed,
        only topics of that log change theirs.
Rule 3: a temporary destination is in the log in its name, whatever the rules say.
Rule 4: dead letters are in the log of their messages' queue or topic, by their queue's name,
        whatever the rules say: they were written there in one group with the settlement.
Rule 5: a rule that an earlier one hides is refused, for it could never apply.
Rule 6: a topic of a rule with `partitions` is in that many of its logs, those that its hash
        prefers; `pipeline.lake.partitions` tells a message's partition.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Final
from urllib.parse import unquote

import msgspec

from distributary.pipeline.amqp.dead_letter import PREFIX
from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.lake.pattern_overlap import covers, overlap
from distributary.pipeline.log_names import (
    ANY,
    MAIN,
    NONE,
    is_log_name,
    log_of_temporary,
    private_number,
)
from distributary.pipeline.model.address import (
    PATTERN_PREFIX,
    PREFIXES,
    Destination,
    Kind,
    destination_of,
    is_temporary,
    kind_of_topic,
)
from distributary.pipeline.model.amqp_error import AmqpError
from distributary.pipeline.model.topic_pattern import (
    REST,
    WORD,
    PatternStyle,
    consumed,
    expression,
    is_pattern,
)

_QUEUE: Final = PREFIXES[Kind.QUEUE]
_DEAD_LETTERS: Final = _QUEUE + PREFIX


class _Pattern(msgspec.Struct, frozen=True):
    """A rule's parsed pattern: `expression` matches a name followed by a dot; None for a pattern
    without wildcards."""

    is_queue: bool
    name: str
    words: tuple[str, ...]
    expression: re.Pattern[str] | None


@lru_cache(maxsize=4_096)
def _read(pattern: str) -> _Pattern:
    name = pattern.removeprefix(_QUEUE)
    words = tuple(name.split("."))
    wild = WORD in words or REST in words
    found = re.compile(expression(PATTERN_PREFIX + name)) if wild else None
    return _Pattern(pattern.startswith(_QUEUE), name, words, found)


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Topics of a pattern are in one of these logs, or each in `partitions` of them. `pattern` is a
    topic's name with the wildcards of the log, `*` and `#`, or `queue://` and a queue's."""

    pattern: str
    logs: tuple[str, ...]
    partitions: int = 1

    def matches(self, topic: str) -> bool:
        """Whether the rule applies to this topic or queue, a word of the log."""
        said, queue = _read(self.pattern), topic.startswith(_QUEUE)
        if queue is not said.is_queue or topic.startswith(PATTERN_PREFIX):
            return False
        name = topic[len(_QUEUE) :] if queue else topic
        if said.expression is None:
            return name == said.name
        return said.expression.fullmatch(f"{name}.") is not None

    @property
    def is_queue(self) -> bool:
        """Whether the rule is for queues."""
        return _read(self.pattern).is_queue

    @property
    def words(self) -> tuple[str, ...]:
        """The words of the pattern, without the kind of its destinations."""
        return _read(self.pattern).words

    @property
    def is_wild(self) -> bool:
        """Whether it may match several topics."""
        return _read(self.pattern).expression is not None

    def logs_of(self, topic: str) -> tuple[str, ...]:
        """Return the logs of a topic that it matches, that of its first partition first."""
        ranked = sorted(self.logs, key=lambda log: (_weight(log, topic), log), reverse=True)
        return tuple(ranked[: self.partitions])

    def hides(self, other: "Rule") -> bool:
        """Whether this rule matches all topics that the other one does."""
        return self.is_queue == other.is_queue and covers(self.words, other.words)


class Placement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The logs of a lake, and the rules for topics. Each change has the next `version`."""

    version: int
    logs: tuple[str, ...]
    rules: tuple[Rule, ...] = ()

    def __post_init__(self) -> None:
        """Raises InvalidRequest for contradictions."""
        if MAIN not in self.logs:
            raise InvalidRequest(f"the log {MAIN} is missing: it is the home itself")
        if len(set(self.logs)) < len(self.logs):
            raise InvalidRequest("a log is named twice")
        for log in self.logs:
            check_name(log)
        for nth, rule in enumerate(self.rules):
            if rule.pattern != canonical(rule.pattern):
                raise InvalidRequest(f"the rule {rule.pattern} isn't written as it is kept")
            check_logs(self, rule.logs)
            check_partitions(rule)
            for former in self.rules[:nth]:
                if former.hides(rule):
                    raise InvalidRequest(
                        f"the rule {rule.pattern} would never be asked: {former.pattern} stands "
                        "before it and matches all its topics. Put it before that one"
                    )

    def logs_of(self, topic: str) -> tuple[str, ...]:
        """Return the log of a topic, a queue (`queue://name`) or a temporary destination; for a
        partitioned one its logs, in the order of its partitions. A name with an unknown log is
        placed as if it had none."""
        if is_temporary(topic):
            log = log_of_temporary(topic.removeprefix(PREFIXES[kind_of_topic(topic)]))
            return (log if self._has(log) else MAIN,)
        if topic.startswith(_DEAD_LETTERS) and (logs := self._logs_of_dead_letters(topic)):
            return logs
        for rule in self.rules:
            if rule.matches(topic):
                return rule.logs_of(topic)
        return (MAIN,)

    def _has(self, log: str) -> bool:
        """Whether the log exists, or may: private logs of gateways come and go."""
        return log in self.logs or private_number(log) is not None

    def _logs_of_dead_letters(self, queue: str) -> tuple[str, ...]:
        """Return the logs of a queue of dead letters; none if it only has such a name."""
        kind, _, name = queue.removeprefix(_DEAD_LETTERS).partition("/")
        match kind:
            case "queue":
                return self.logs_of(_QUEUE + unquote(name))
            case "topic":
                return self.logs_of(name)
            case "log":
                log, _, _ = name.partition("/")
                return (log,) if self._has(log) else ()
            case "global" | "container":
                return (MAIN,)
        return ()

    def logs_of_pattern(self, pattern: str) -> tuple[str, ...]:
        """Return all logs that may have topics of a word of the log: a pattern
        (`pattern://orders.*`) or a destination."""
        if not is_pattern(pattern):
            return self.logs_of(pattern)
        words = pattern.removeprefix(PATTERN_PREFIX).split(".")
        found: set[str] = set()
        for rule in self.rules:
            if rule.is_queue or not overlap(rule.words, words):
                continue
            found.update(rule.logs if rule.is_wild else rule.logs_of(rule.pattern))
            if covers(rule.words, words):
                break
        else:
            found.add(MAIN)
        return tuple(sorted(found))


def check_name(log: str) -> None:
    """Raise InvalidRequest for an impossible name of a log."""
    if not is_log_name(log):
        raise InvalidRequest(
            f"'{log}' can't be the name of a log: it has up to 63 characters of a-z, 0-9, - and _, "
            f"begins with a letter or a digit, and isn't {NONE} or {ANY}"
        )


def check_logs(placement: Placement, logs: Sequence[str]) -> None:
    """Raise InvalidRequest unless a rule may name these logs."""
    if not logs or len(set(logs)) < len(logs):
        raise InvalidRequest("a rule has one log or several different ones")
    for log in logs:
        if log not in placement.logs:
            known = ", ".join(placement.logs)
            raise InvalidRequest(f"there is no log {log}: there are {known}. Create it first")


def check_partitions(rule: Rule) -> None:
    """Raise InvalidRequest unless each of the rule's partitions can be in another log."""
    if not 1 <= rule.partitions <= len(rule.logs):
        raise InvalidRequest(
            f"the rule {rule.pattern} has {len(rule.logs)} logs and {rule.partitions} partitions: "
            "a topic has one partition at least, and each is in a log of its own. Name more logs"
        )


def canonical(pattern: str) -> str:
    """Return a pattern, topic or queue in the form of rules. Raises InvalidRequest for others."""
    asked = destination_of(pattern, None, Kind.TOPIC)
    if isinstance(asked, AmqpError):
        raise InvalidRequest(asked.description)
    if asked.is_temporary:
        raise InvalidRequest(
            f"{pattern} is temporary: it is in the log of the gateway that made it"
        )
    meant = consumed(Destination(Kind.TOPIC, asked.name), PatternStyle.RABBITMQ)
    if isinstance(meant, AmqpError):
        raise InvalidRequest(meant.description)
    return (_QUEUE if asked.is_queue else "") + meant.name.removeprefix(PATTERN_PREFIX)


def with_log(placement: Placement, log: str) -> Placement:
    """Return the placement with one more log, still without topics. Raises InvalidRequest."""
    check_name(log)
    if private_number(log) is not None:
        raise InvalidRequest(
            f"{log} is the name of the log of a gateway that has none: take another"
        )
    if log in placement.logs:
        raise InvalidRequest(f"there is a log {log} already")
    return Placement(placement.version + 1, (*placement.logs, log), placement.rules)


def with_rule(
    placement: Placement,
    pattern: str,
    logs: Sequence[str],
    before: str | None = None,
    partitions: int = 1,
) -> Placement:
    """Return the placement with one more rule, or with other logs for the rule of this pattern. A
    new rule is the last one, or comes before the rule of the pattern `before`. Raises
    InvalidRequest."""
    rule = Rule(canonical(pattern), tuple(logs), partitions)
    check_logs(placement, logs)
    rules = list(placement.rules)
    patterns = [one.pattern for one in rules]
    if before is not None:
        if rule.pattern in patterns:
            del rules[patterns.index(rule.pattern)]
        rules.insert(_place(rules, before), rule)
    elif rule.pattern in patterns:
        rules[patterns.index(rule.pattern)] = rule
    else:
        rules.append(rule)
    return Placement(placement.version + 1, placement.logs, tuple(rules))


def without_rule(placement: Placement, pattern: str) -> Placement:
    """Return the placement without this pattern's rule. Raises InvalidRequest if it is absent."""
    gone = _place(placement.rules, pattern)
    rules = placement.rules[:gone] + placement.rules[gone + 1 :]
    return Placement(placement.version + 1, placement.logs, rules)


def _place(rules: Sequence[Rule], pattern: str) -> int:
    wanted = canonical(pattern)
    for nth, rule in enumerate(rules):
        if rule.pattern == wanted:
            return nth
    known = ", ".join(rule.pattern for rule in rules) or "none at all"
    raise InvalidRequest(f"there is no rule {wanted}: there are {known}")


def moved(before: Placement, after: Placement, topics: Iterable[str]) -> list[str]:
    """Return those of these topics and patterns, words of the log, whose logs change, in order and
    each once."""
    found = {
        topic for topic in topics if before.logs_of_pattern(topic) != after.logs_of_pattern(topic)
    }
    return sorted(found)


def misplaced(placement: Placement, log: str, topics: Iterable[str]) -> list[str]:
    """Return those of these topics and patterns, words of the log, that don't belong to `log`."""
    return sorted(topic for topic in topics if log not in placement.logs_of_pattern(topic))


def _weight(log: str, topic: str) -> bytes:
    return sha256(f"{log}\n{topic}".encode()).digest()


#: The placement of a home that is no lake yet.
ONE_LOG: Final = Placement(0, (MAIN,))
