"""Ids of messages that were published recently, so that a duplicate is recognized.

An id is the bytes of a message's id: the number of its AMQP type and its value, as received. Each
topic has a window of its own. Times are microseconds.

Rule 1: an id counts while it is among the last ones of its window and not too old. A duplicate
        doesn't renew it.
Rule 2: a message without an id is never a duplicate.
Rule 3: memory is bounded, for all topics together. When it is full, the topic that was quiet for
        longest forgets all of its ids; a duplicate of a forgotten message is published again.
"""

from collections import OrderedDict, deque
from collections.abc import Sequence
from hashlib import blake2b

#: Longer ids are kept as hashes; a collision is practically impossible.
ID_BYTES_MAX = 64
#: First byte of a hash, and of no id: no AMQP value has a type of this number.
_HASH = b"\0"
_HASH_BYTES = 16

MILLISECOND = 1_000


class Window:
    """The last ids of one topic, at most `messages` of them and not older than `age`; 0: no limit
    of this kind, but never more than `most`."""

    __slots__ = ("_age", "_batches", "_ids", "_messages", "_order")

    def __init__(self, messages: int, age: int, most: int) -> None:
        self._ids: set[bytes] = set()
        self._order: deque[bytes] = deque()  #: the same ids, the oldest first
        self._batches: deque[tuple[int, int]] = deque()  #: time and number of those added together
        self.limit(messages, age, most)

    def __len__(self) -> int:
        return len(self._ids)

    def limit(self, messages: int, age: int, most: int) -> None:
        """Set the limits that hold from now on."""
        self._messages, self._age = min(messages or most, most), age
        self._forget(len(self._order) - self._messages)

    def known(self, ids: Sequence[bytes], now: int) -> list[int]:
        """Return the indices of those of these ids that are in the window. None is added."""
        self._expire(now)
        return [place for place, whole in enumerate(ids) if whole and _short(whole) in self._ids]

    def add(self, ids: Sequence[bytes], now: int) -> list[int]:
        """Add the ids of messages that come now, in this order (empty where a message has none),
        and return the indices of the duplicates among them."""
        self._expire(now)
        known, order, most = self._ids, self._order, self._messages
        found: list[int] = []
        added = gone = 0
        for place, whole in enumerate(ids):
            if not whole:
                continue
            one = _short(whole)
            if one in known:
                found.append(place)
                continue
            known.add(one)
            order.append(one)
            added += 1
            if len(order) > most:
                known.remove(order.popleft())
                gone += 1
        if added:
            self._count_in(now, added)
            self._count_out(gone)
        return found

    def _expire(self, now: int) -> None:
        batches = self._batches
        while self._age and batches and batches[0][0] < now - self._age:
            self._forget(batches[0][1])

    def _forget(self, count: int) -> None:
        """Remove the `count` oldest ids."""
        for _ in range(count):
            self._ids.remove(self._order.popleft())
        self._count_out(count)

    def _count_in(self, now: int, count: int) -> None:
        """Count added ids; those added within a millisecond have the same time."""
        batches = self._batches
        if batches and now - batches[-1][0] < MILLISECOND:
            batches[-1] = (batches[-1][0], batches[-1][1] + count)
        else:
            batches.append((now, count))

    def _count_out(self, count: int) -> None:
        """Take the `count` oldest ids out of the counts."""
        batches = self._batches
        while count > 0:
            at, size = batches.popleft()
            if size > count:
                batches.appendleft((at, size - count))
            count -= size


class Windows:
    """The windows of all topics, with `most` ids in all of them together."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._windows: OrderedDict[str, Window] = OrderedDict()  # the one used last is the last
        self._total = 0

    def __len__(self) -> int:
        """The number of ids in all windows."""
        return self._total

    def sizes(self) -> dict[str, int]:
        """Return the number of ids of each topic that has any."""
        return {topic: len(window) for topic, window in self._windows.items()}

    def add(
        self, topic: str, ids: Sequence[bytes], now: int, *, messages: int, age: int
    ) -> list[int]:
        """Do `Window.add` for the topic, which has these limits now."""
        window = self._windows.get(topic)
        before = len(window) if window is not None else 0
        if window is None:
            window = self._windows[topic] = Window(messages, age, self.most)
        else:
            self._windows.move_to_end(topic)
            window.limit(messages, age, self.most)
        found = window.add(ids, now)
        self._total += len(window) - before
        while self._total > self.most:
            self._total -= len(self._windows.popitem(last=False)[1])
        if not window:
            del self._windows[topic]
        return found

    def known(
        self, topic: str, ids: Sequence[bytes], now: int, *, messages: int, age: int
    ) -> list[int]:
        """As `Window.known` says, for the topic, which has these limits now."""
        window = self._windows.get(topic)
        if window is None:
            return []
        before = len(window)
        window.limit(messages, age, self.most)
        found = window.known(ids, now)
        self._total += len(window) - before
        return found

    def forget(self, topic: str) -> None:
        """Forget the topic's ids: duplicates aren't looked for there any more."""
        window = self._windows.pop(topic, None)
        if window is not None:
            self._total -= len(window)


def _short(whole: bytes) -> bytes:
    """Return the id, or the hash of a long one."""
    if len(whole) <= ID_BYTES_MAX:
        return whole
    return _HASH + blake2b(whole, digest_size=_HASH_BYTES).digest()
