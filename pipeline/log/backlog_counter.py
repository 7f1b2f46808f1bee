"""The backlog counter of one topic: its messages and their bytes, by sequence.

Durable messages are added to it, a stretch at a time. A subscription's backlog is its read messages
that aren't settled, and the topic's messages from the position on that aren't settled. For a
subscription with a selector this is an upper bound, as unread messages aren't evaluated for it.

Rule 1: stretches don't overlap, and their bounds are true. Counts from a bound on are exact, and
        within a stretch that has the topic's messages only. Within one that was joined across other
        topics' messages, or of which a table tells the bounds only, `since` is an upper bound and
        `at_least` a lower one. Messages are given up by a lower bound.
Rule 2: memory is bounded: older stretches are joined when there are too many.
"""

from array import array
from bisect import bisect_left, bisect_right

import msgspec

#: Most stretches that one topic remembers, 48 bytes each.
STRETCHES_MAX = 8_192
#: Microseconds within which a stretch goes on, if no other topic's message lies between.
TOGETHER = 100_000


class Volume(msgspec.Struct, frozen=True):
    """A number of messages, and their bytes."""

    messages: int = 0
    bytes: int = 0


class BacklogCounter:
    """The messages of one topic from some sequence on. Sizes are in bytes, times in
    microseconds."""

    __slots__ = (
        "_before",
        "_before_bytes",
        "_begun",
        "_bytes",
        "_ended",
        "_firsts",
        "_messages",
        "_stops",
    )

    def __init__(self) -> None:
        # Of each stretch: its first sequence and the one after its last, the publishing times of
        # its first and last message, and messages and bytes before it, since the first stretch.
        self._firsts, self._stops = array("q"), array("q")
        self._begun, self._ended = array("q"), array("q")
        self._before, self._before_bytes = array("q"), array("q")
        self._messages = self._bytes = 0  #: all, since the first stretch

    def __len__(self) -> int:
        """The number of remembered stretches."""
        return len(self._firsts)

    def add(self, first: int, stop: int, messages: int, size: int, at: int) -> bool:
        """Add messages of `size` bytes together from `first` to `stop - 1`, published at this time
        (microseconds). Earlier additions lie below `first`, or among them: then they are one
        stretch. Return whether a stretch begins with them."""
        if self._ended and at < self._ended[-1]:
            at = self._ended[-1]  # the clock may have been set
        # Joined with the last stretch if both have the topic's messages only.
        goes_on = (
            bool(self._stops)
            and self._stops[-1] == first
            and stop - first == messages
            and at - self._begun[-1] < TOGETHER
            and first - self._firsts[-1] == self._messages - self._before[-1]
        )
        if goes_on:
            self._stops[-1] = stop
            self._ended[-1] = at
        elif self._stops and first < self._stops[-1]:
            goes_on = True
            self._widen(first, stop, at)
        else:
            if len(self._firsts) >= STRETCHES_MAX:
                self._join()
            self._firsts.append(first)
            self._stops.append(stop)
            self._begun.append(at)
            self._ended.append(at)
            self._before.append(self._messages)
            self._before_bytes.append(self._bytes)
        self._messages += messages
        self._bytes += size
        return not goes_on

    def _widen(self, first: int, stop: int, at: int) -> None:
        """Widen the last stretch to these bounds; it takes in the stretches that it reaches."""
        first, stop = min(first, self._firsts[-1]), max(stop, self._stops[-1])
        while len(self._firsts) > 1 and first < self._stops[-2]:
            for column in self._columns():
                del column[-1]
            first = min(first, self._firsts[-1])
        self._firsts[-1], self._stops[-1], self._ended[-1] = first, stop, at

    def _columns(self) -> "tuple[array[int], ...]":
        times, sums = (self._begun, self._ended), (self._before, self._before_bytes)
        return (self._firsts, self._stops, *times, *sums)

    def _join(self) -> None:
        """Join neighbouring stretches in pairs, in the older half."""
        half = len(self._firsts) // 4 * 2
        for column in (self._firsts, self._begun, self._before, self._before_bytes):
            column[:half] = column[:half:2]
        for column in (self._stops, self._ended):
            column[:half] = column[1:half:2]

    def extend(self, later: "BacklogCounter") -> None:
        """Add the stretches of another counter, which was fed from a later sequence on."""
        ends = len(later)
        for at in range(ends):
            last = at + 1 == ends
            upto = later._messages if last else later._before[at + 1]
            upto_bytes = later._bytes if last else later._before_bytes[at + 1]
            self.add(
                later._firsts[at],
                later._stops[at],
                upto - later._before[at],
                upto_bytes - later._before_bytes[at],
                later._begun[at],
            )

    def trim(self, below: int) -> None:
        """Forget messages below this sequence: no subscription is owed any of them."""
        gone = bisect_right(self._stops, below)
        if gone:
            for column in self._columns():
                del column[:gone]

    def since(self, sequence: int) -> Volume:
        """Return the messages and bytes from this sequence on, or somewhat more."""
        at = bisect_right(self._stops, sequence)
        if at == len(self._firsts):
            return Volume()
        inside = self._inside(at).messages
        return self._after(at, inside - min(inside, self._stops[at] - sequence))

    def at_least(self, sequence: int) -> Volume:
        """Return the messages from this sequence on, or somewhat less, and about their bytes."""
        at = bisect_right(self._stops, sequence)
        if at == len(self._firsts):
            return Volume()
        return self._after(at, min(self._inside(at).messages, max(sequence - self._firsts[at], 0)))

    def _inside(self, at: int) -> Volume:
        """Return the volume of one stretch."""
        if at + 1 == len(self._firsts):
            return self._after(at, 0)
        size = self._before_bytes[at + 1] - self._before_bytes[at]
        return Volume(self._before[at + 1] - self._before[at], size)

    def _after(self, at: int, passed: int) -> Volume:
        """Return the volume from this stretch on, without so many messages of it."""
        messages = self._messages - self._before[at]
        size = self._bytes - self._before_bytes[at]
        if passed:
            inside = self._inside(at)
            size -= inside.bytes * passed // inside.messages
        return Volume(messages - passed, size)

    def published_at(self, sequence: int) -> int | None:
        """Return the publishing time of the first message from this sequence on, or a time somewhat
        before it; None if there is no such message."""
        at = bisect_right(self._stops, sequence)
        return self._begun[at] if at < len(self._begun) else None

    def older(self, time: int) -> int:
        """Return the sequence below which all messages were published before this time, or
        somewhat less."""
        count = bisect_left(self._ended, time)
        return self._stops[count - 1] if count else 0


class Dropped(msgspec.Struct, frozen=True):
    """The number of owed messages that an event took from a subscription. `at_most`: it is an upper
    bound, as the selector wasn't evaluated for them."""

    messages: int = 0
    at_most: bool = False

    @property
    def facts(self) -> dict[str, int | bool]:
        """The attributes of an answer."""
        said: dict[str, int | bool] = {"dropped": self.messages}
        if self.at_most and self.messages:
            said["at_most"] = True
        return said


#: No messages were taken.
NOTHING = Dropped()


def waiting(
    counter: BacklogCounter,
    *,
    floor: int,
    position: int,
    outstanding: int,
    beyond: int,
    looked: int | None = None,
) -> Volume:
    """Return the backlog of a subscription, or somewhat more. `outstanding` messages were read and
    aren't settled; of the topic's messages from `position` on, `beyond` are among those, or are
    settled. Bytes are estimated by the average of their part of the log.

    With `looked` return a lower bound, by which messages may be given up: somewhat less, without
    unread messages from `looked` on, for which a selector wasn't evaluated.
    """
    rest = unread = counter.since(position)
    if looked is not None:
        some, new = counter.at_least(position), counter.since(max(looked, position))
        unread = Volume(max(some.messages - new.messages, 0), max(some.bytes - new.bytes, 0))
    owed = max(unread.messages - beyond, 0)
    size = unread.bytes * owed // unread.messages if unread.messages else 0
    if outstanding:
        whole = counter.since(floor)
        read = Volume(whole.messages - rest.messages, whole.bytes - rest.bytes)
        part = read if read.messages else whole
        size += part.bytes * outstanding // part.messages if part.messages else 0
    return Volume(owed + outstanding, size)
