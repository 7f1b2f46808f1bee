"""Which schema a topic has, where several patterns match it.

Rule: the one that was set for the very topic; else that of the longest pattern; of two as long the
      first in the order of texts.
"""

from collections.abc import Iterable

from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.model.address import NAME_CHARACTERS_MAX, Kind
from distributary.pipeline.subscriptions.permission import Pattern, pattern_of

#: What no name has, and is longer than one: it stands for all that `*` can be.
_ANY = "\0" * (NAME_CHARACTERS_MAX + 1)


def pattern(text: str) -> Pattern:
    """A topic, or a pattern of topics or queues, as policies have them. Raises InvalidRequest."""
    made = pattern_of(text)
    if made is None:
        raise InvalidRequest(f"'{text}' is no topic and no pattern, such as orders or orders.*")
    if made.kind not in (Kind.TOPIC, Kind.QUEUE):
        raise InvalidRequest(f"'{text}' is a {made.kind}: topics and queues have schemas")
    return made


def chosen(patterns: Iterable[str], topic: str) -> str | None:
    """The pattern whose schema a topic has, by its word in the log; None if it has none."""
    found = [one for one in patterns if one == topic or pattern(one).matches_topic(topic)]
    return min(found, key=lambda one: (one != topic, -len(one), one), default=None)


def stand_in(text: str) -> str:
    """A destination that stands for all of a pattern: who may do something there may do it with
    every topic of the pattern."""
    return text.replace("*", _ANY).replace("?", "\0")
