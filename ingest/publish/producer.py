"""Producers: links by which peers publish."""


class Producer:
    """An incoming link, to one topic, or (None) with messages that name their topics. `returns`:
    its peer wants messages released that no subscription is owed; `divided`: its messages may
    belong to several logs."""

    __slots__ = ("divided", "returns", "topic")

    def __init__(self, topic: str | None, *, returns: bool = False, divided: bool = False) -> None:
        self.topic, self.returns, self.divided = topic, returns, divided
