"""Patterns of topics: wildcards in addresses, and the topics that match them.

Rule 1: a name is words with dots between them. A wildcard stands for a whole word (`*`), or for the
        rest: any number of words, also none (`#`, in ActiveMQ Classic `>`).
Rule 2: in the log a pattern is one string, `pattern://` and the name in RabbitMQ's syntax, from
        every style; so a durable subscription outlives a change of style in the settings.
Rule 3: patterns are for topics: queues and temporary destinations never match.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final

from distributary.pipeline.model.address import (
    NAME_CHARACTERS_MAX,
    PATTERN_PREFIX,
    PREFIXES,
    Destination,
    Kind,
    kind_of_topic,
)
from distributary.pipeline.model.amqp_error import INVALID_FIELD, AmqpError

#: Rests in one pattern at most: Spark's regular expressions try all ways to share a name between
#: them, a name of 128 words 8,000 ways with two and 350,000 with three.
RESTS_MAX: Final = 2
#: The wildcards in the log: for a word, and for the rest.
WORD, REST = "*", "#"


class PatternStyle(StrEnum):
    """The product whose wildcards consumers use (`delivery.pattern_style`)."""

    ARTEMIS = "artemis"
    CLASSIC = "classic"
    RABBITMQ = "rabbitmq"
    NONE = "none"  #: there are no patterns: every character stands for itself


@dataclass(frozen=True, slots=True)
class Syntax:
    """Wildcards of one style; `anywhere`: the rest may stand before other words."""

    word: str
    rest: str
    anywhere: bool


#: ActiveMQ Artemis: "Wildcard Syntax". ActiveMQ Classic: "Wildcards". RabbitMQ: topic exchanges.
SYNTAX: Final = {
    PatternStyle.ARTEMIS: Syntax("*", "#", anywhere=False),
    PatternStyle.CLASSIC: Syntax("*", ">", anywhere=False),
    PatternStyle.RABBITMQ: Syntax("*", "#", anywhere=True),
}

#: Stands for any word: longer than a name, of a character that no name has.
_ANY: Final = "\0" * (NAME_CHARACTERS_MAX + 1)
#: The syntax of patterns in the log, which means the same in every style.
_IN_THE_LOG: Final = Syntax(WORD, REST, anywhere=True)


def is_pattern(topic: str) -> bool:
    """Whether this string of the log is a pattern of topics."""
    return topic.startswith(PATTERN_PREFIX)


def consumed(destination: Destination, style: PatternStyle) -> Destination | AmqpError:
    """Return the destination that a consumer means: a pattern if the name has wildcards, else the
    destination itself."""
    name, syntax = _read_as(destination.name, style)
    if syntax is None or destination.is_temporary:
        return destination
    words = name.split(".")
    if destination.is_queue:
        return _wild_queue(destination, words, syntax) or destination
    if why := _wrong(name, words, syntax):
        return AmqpError(INVALID_FIELD, f"'{destination.name}' is no pattern: {why}")
    if syntax.word not in words and syntax.rest not in words:
        return destination
    canonical = [REST if word == syntax.rest else word for word in words]
    return Destination(Kind.TOPIC, PATTERN_PREFIX + ".".join(_shortened(canonical)))


def published(destination: Destination, style: PatternStyle) -> AmqpError | None:
    """Return the error for publishing to this destination if it is a pattern, else None."""
    name, syntax = _read_as(destination.name, style)
    if syntax is None or destination.is_temporary:
        return None
    if destination.is_queue:
        return _wild_queue(destination, name.split("."), syntax)
    if is_pattern(destination.name) or syntax.word in name or syntax.rest in name:
        text = f"'{destination.name}' is a pattern: consumers have patterns, a message has a topic"
        return AmqpError(INVALID_FIELD, text)
    return None


def _read_as(name: str, style: PatternStyle) -> tuple[str, Syntax | None]:
    """Return the name without its prefix, and its syntax; None if it can have no wildcard."""
    if is_pattern(name):
        return name.removeprefix(PATTERN_PREFIX), _IN_THE_LOG
    syntax = SYNTAX.get(style)
    if syntax is None or not (syntax.word in name or syntax.rest in name):
        return name, None
    return name, syntax


def _wild_queue(queue: Destination, words: list[str], syntax: Syntax) -> AmqpError | None:
    if is_pattern(queue.name) or syntax.word in words or syntax.rest in words:
        text = f"'{queue.topic}' has wildcards: patterns are for topics, a queue has one name"
        return AmqpError(INVALID_FIELD, text)
    return None


def _wrong(name: str, words: list[str], syntax: Syntax) -> str:
    """Return why these words are neither a name nor a pattern; empty if they are one of them."""
    wild = (syntax.word, syntax.rest)
    if any(word not in wild and any(one in word for one in wild) for word in words):
        return f"{syntax.word} and {syntax.rest} stand for whole words between dots"
    if not syntax.anywhere and syntax.rest in words[:-1]:
        return f"{syntax.rest} stands at its end alone"
    if len([word for word in _shortened(words) if word == syntax.rest]) > RESTS_MAX:
        return f"{syntax.rest} stands in it {RESTS_MAX} times at most"
    if REST in words and syntax.rest != REST:
        return f"a word of {REST} alone can't be told from a wildcard"
    if syntax is _IN_THE_LOG and not {WORD, REST} & set(words):
        return f"there is no wildcard in {name}"
    return ""


def _shortened(words: list[str]) -> list[str]:
    """Return the words with one rest in place of consecutive ones."""
    pairs = zip(words, ["", *words], strict=False)
    return [word for word, before in pairs if not word == before == REST]


def matches(topic: str, name: str) -> bool:
    """Whether `topic`, a pattern or a destination, includes the destination `name`; both as strings
    of the log."""
    if not is_pattern(topic):
        return topic == name
    if is_pattern(name) or kind_of_topic(name) is not Kind.TOPIC:
        return False
    return _compiled(topic).fullmatch(f"{name}.") is not None


def expression(pattern: str) -> str:
    """Return a regular expression (of Python, of Java) for a topic's name with a dot behind it. The
    caller excludes other destinations by their prefixes, `NOT_TOPICS`."""
    words = pattern.removeprefix(PATTERN_PREFIX).split(".")
    return "^" + "".join(_expression_of(word) for word in words) + "$"


#: Prefixes, in the log, of all destinations that are no topics.
NOT_TOPICS: Final = tuple(prefix for kind, prefix in PREFIXES.items() if kind is not Kind.TOPIC)


def _expression_of(word: str) -> str:
    if word == WORD:
        return r"[^.]*\."
    return r"([^.]*\.)*" if word == REST else re.escape(word) + r"\."


@lru_cache(maxsize=1_024)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(expression(pattern))


def stand_ins(pattern: str) -> list[str]:
    """Return names such that a rule with `*` for any characters and `?` for one, which matches all
    of them, matches every topic of the pattern. Each wildcard becomes more characters than a name
    has; a rest also becomes no word."""
    names: list[list[str]] = [[]]
    for word in pattern.removeprefix(PATTERN_PREFIX).split("."):
        longer = [[*name, _ANY if word in (WORD, REST) else word] for name in names]
        names = names + longer if word == REST else longer
    return [".".join(name) for name in names]


def least(pattern: str) -> str:
    """Return the longest prefix of all matching topics' names that the pattern gives."""
    words = pattern.removeprefix(PATTERN_PREFIX).split(".")
    known = words[: next(nth for nth, word in enumerate(words) if word in (WORD, REST))]
    # Without the dot behind it: a name in which the rest is no word has none.
    return ".".join(known)
