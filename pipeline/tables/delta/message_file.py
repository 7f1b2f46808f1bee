"""One data file of messages, as far as its statistics tell which messages lie in it."""

import msgspec

from distributary.pipeline.model.topic_pattern import is_pattern, least

#: Names may be cut to this length in statistics, so a longer one is no bound from above.
TOPIC_EXACT_MAX = 31


class MessageFile(msgspec.Struct, frozen=True):
    """One data file of messages. `reach` is the highest sequence in it and all before it."""

    path: str
    low: int
    high: int
    topic_low: str | None
    topic_high: str | None
    reach: int

    def may_hold(self, topic: str) -> bool:
        return between(topic, self.topic_low, self.topic_high)


def between(topic: str, low: str | None, high: str | None) -> bool:
    """Whether a topic, or one that matches a pattern, may lie between two bounds of which the upper
    one may have been cut."""
    if low is None or high is None:
        return True
    if is_pattern(topic):
        return _some_between(least(topic).encode(), low.encode(), high.encode())
    key = topic.encode()
    bound = high.encode()
    return low.encode() <= key and (key <= bound or len(bound) > TOPIC_EXACT_MAX)


def _some_between(begin: bytes, low: bytes, high: bytes) -> bool:
    """Whether a name that begins so may lie between the bounds."""
    return low[: len(begin)] <= begin and (begin <= high or len(high) > TOPIC_EXACT_MAX)
