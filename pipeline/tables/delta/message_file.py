"""One data file of messages, and which messages its statistics allow in it."""

import msgspec

from distributary.pipeline.model.topic_pattern import is_pattern, least

#: Bytes up to which names are exact in statistics; a longer one may be cut, and no upper bound.
TOPIC_EXACT_MAX = 31


class MessageFile(msgspec.Struct, frozen=True):
    """One data file of messages. `reach` is the highest sequence in it and all files before it."""

    path: str
    low: int
    high: int
    topic_low: str | None
    topic_high: str | None
    reach: int

    def may_hold(self, topic: str) -> bool:
        return between(topic, self.topic_low, self.topic_high)


def between(topic: str, low: str | None, high: str | None) -> bool:
    """Whether a topic, or one that matches a pattern, may lie between two bounds; the upper bound
    may have been cut."""
    if low is None or high is None:
        return True
    if is_pattern(topic):
        return _some_between(least(topic).encode(), low.encode(), high.encode())
    key = topic.encode()
    bound = high.encode()
    return low.encode() <= key and (key <= bound or len(bound) > TOPIC_EXACT_MAX)


def _some_between(begin: bytes, low: bytes, high: bytes) -> bool:
    """Whether a name with this beginning may lie between the bounds."""
    return low[: len(begin)] <= begin and (begin <= high or len(high) > TOPIC_EXACT_MAX)
