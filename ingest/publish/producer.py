"""Producers: links by which peers publish."""


class Producer:
    """An incoming link: messages for one topic, or (None) each for its own. `returns`: its peer
    wants back what nobody is subscribed to; `divided`: its messages may be of several logs."""

    __slots__ = ("divided", "returns", "topic")

    def __init__(self, topic: str | None, *, returns: bool = False, divided: bool = False) -> None:
        self.topic, self.returns, self.divided = topic, returns, divided
