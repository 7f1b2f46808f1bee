"""Choice of a topic's schema where several patterns match it.

Rule: a schema set for the topic itself; else that of the longest pattern; of equally long patterns
      the first in alphabetical order.
"""

from collections.abc import Iterable

from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.model.address import NAME_CHARACTERS_MAX, Kind
from distributary.pipeline.subscriptions.permission import Pattern, pattern_of

#: Stands for any text that `*` matches: longer than a name, of a character that no name has.
_ANY = "\0" * (NAME_CHARACTERS_MAX + 1)


def pattern(text: str) -> Pattern:
    """Parse a topic, or a pattern of topics or queues in the syntax of policies. Raises
    InvalidRequest."""
    made = pattern_of(text)
    if made is None:
        raise InvalidRequest(f"'{text}' is no topic and no pattern, such as orders or orders.*")
    if made.kind not in (Kind.TOPIC, Kind.QUEUE):
        raise InvalidRequest(f"'{text}' is a {made.kind}: topics and queues have schemas")
    return made


def chosen(patterns: Iterable[str], topic: str) -> str | None:
    """Return the pattern whose schema a topic, as the log names it, has; None if it has none."""
    found = [one for one in patterns if one == topic or pattern(one).matches_topic(topic)]
    return min(found, key=lambda one: (one != topic, -len(one), one), default=None)


def stand_in(text: str) -> str:
    """Return a destination that stands for all topics of a pattern: a user with a permission for it
    has that permission for each of them."""
    return text.replace("*", _ANY).replace("?", "\0")
