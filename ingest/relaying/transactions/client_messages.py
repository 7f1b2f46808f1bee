"""Runs of messages of a client on their way to an owner, in a transaction or in none."""

from array import array
from collections.abc import Iterator
from itertools import groupby

from distributary.ingest.relaying.transactions.relayed_work import RelayedWork


class ClientMessages:
    """Messages that came together: `first` is the number of the first one on the owner's link, when
    they are sent. `deliveries` are the client's, 0 for a message with an outcome. `work`: their
    transaction, if any; all of its messages get an outcome from the owner, as its end waits for
    them. `again`: an owner that was lost may have written them."""

    __slots__ = (
        "again",
        "blob",
        "deliveries",
        "first",
        "left",
        "offsets",
        "sent",
        "settled",
        "work",
    )

    def __init__(
        self,
        blob: bytes,
        offsets: "array[int]",
        deliveries: "array[int]",
        work: RelayedWork | None,
        *,
        again: bool = False,
    ) -> None:
        self.blob, self.offsets, self.deliveries = blob, offsets, deliveries
        self.work, self.again = work, again
        #: Whether they need no outcome; how many were sent, and how many have no outcome yet.
        self.settled = not deliveries[0] and work is None
        self.first = self.sent = 0
        self.left = len(deliveries)

    @property
    def size(self) -> int:
        """Bytes of the messages."""
        return self.offsets[-1] - self.offsets[0]

    def unanswered(self) -> "list[ClientMessages]":
        """Return the messages without an outcome, as runs that weren't sent."""
        waiting = len(self.deliveries) - self.deliveries.count(0)
        blob, offsets, deliveries, work = self.blob, self.offsets, self.deliveries, self.work
        sent = self.again or self.sent > 0
        return [
            ClientMessages(
                blob, offsets[start : stop + 1], deliveries[start:stop], work, again=sent
            )
            for start, stop in alike(deliveries, waiting)
            if deliveries[start]
        ]


def alike(deliveries: "array[int]", waiting: int) -> Iterator[tuple[int, int]]:
    """Yield begin and end of stretches of deliveries that are all unsettled or all settled;
    `waiting` are unsettled."""
    if waiting in (0, len(deliveries)):
        yield 0, len(deliveries)
        return
    start = 0
    for _, group in groupby(deliveries, bool):
        stop = start + sum(1 for _ in group)
        yield start, stop
        start = stop
