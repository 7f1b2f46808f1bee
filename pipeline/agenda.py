"""What lies ahead in one topic: messages of a high priority, and when messages expire.

One agenda serves all subscriptions of its topic. It decides only order and time, never what is
owed: a subscription finds every message that is owed by reading on, whether it is here or not.
"""

from pipeline.traits import Traits


class Agenda:
    """High priorities and expiries of a topic's messages that somebody may still be owed."""

    def add(self, first: int, stop: int, traits: Traits) -> None:
        """These messages, all that the topic has from `first` to `stop - 1`, became durable, or
        were found at start. They come in the order of their sequences."""

    def trim(self, below: int) -> None:
        """Nobody is owed anything below this sequence."""

    def lapsed(self, now: int) -> list[range]:
        """Stretches in which something has expired by now; they leave the agenda."""
        return []

    def again(self, stretch: range, at: int) -> None:
        """Something in this stretch expires at this time, too."""

    @property
    def next_lapse(self) -> int | None:
        """When the next message expires; None if none does."""
        return None
