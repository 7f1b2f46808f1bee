"""Producers: links by which peers publish."""


class Producer:
    """An incoming link: messages for one topic, or (None) each for its own."""

    __slots__ = ("topic",)

    def __init__(self, topic: str | None) -> None:
        self.topic = topic
