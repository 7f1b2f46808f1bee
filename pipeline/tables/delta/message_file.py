"""One data file of messages, as far as its statistics tell which messages lie in it."""

from dataclasses import dataclass

#: Names may be cut to this length in statistics, so a longer one is no bound from above.
TOPIC_EXACT_MAX = 31


@dataclass(frozen=True, slots=True)
class MessageFile:
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
    """Whether a topic may lie between two bounds of which the upper one may have been cut."""
    if low is None or high is None:
        return True
    key = topic.encode()
    bound = high.encode()
    return low.encode() <= key and (key <= bound or len(bound) > TOPIC_EXACT_MAX)
