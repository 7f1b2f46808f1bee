"""Which messages the selectors of a topic's subscriptions match, a slab at a time.

Rule 1: a message that several subscriptions read one after the other is read once, and equal
        selectors are evaluated once: what was found is kept for the newest messages of the topic.
        Older ones are evaluated for the subscription that is so far behind, alone.
Rule 2: what is found out is the same whoever asks, and whenever.
"""

from array import array
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass

from pipeline.message import Slab
from pipeline.selector.evaluate import Accessor, compiled
from pipeline.selector.parser import parse
from pipeline.selector.reading import Reader
from pipeline.subscription import Definition

#: Messages of one topic whose matches are kept, about 100 bytes each: those that came while the
#: slowest of its subscriptions that keep up wasn't served.
KEPT_MAX = 16_384


@dataclass(frozen=True, slots=True, eq=False)
class Matches:
    """Of the messages up to `stop - 1` those in `sequences` match, all of them if that is None;
    `work` is how many evaluations it took."""

    sequences: "array[int] | None"
    stop: int
    work: int = 0


@dataclass(slots=True, eq=False)
class _Known:
    """One selector of a topic: `bit` is its place in what is kept, `users` its subscriptions."""

    bit: int
    reader: Reader
    identifiers: frozenset[str]
    matches: Callable[[Accessor], bool]
    users: int = 0


class Selections:
    """The selectors of all subscriptions that are served now, by topic."""

    __slots__ = ("_topics",)

    def __init__(self) -> None:
        self._topics: dict[str, _Topic] = {}

    def join(self, claim: Definition) -> None:
        """A subscription begins to be served. Raises SelectorError if its selector is none."""
        if claim.selector is not None:
            known = self._topics.get(claim.topic) or _Topic()
            known.join(claim.selector)
            self._topics[claim.topic] = known

    def leave(self, claim: Definition) -> None:
        """It is served no more."""
        if claim.selector is not None:
            self._topics[claim.topic].leave(claim.selector)
            if not self._topics[claim.topic].users:
                del self._topics[claim.topic]

    def matches(
        self, claim: Definition, slab: Slab, start: int, *, room: int, work_max: int
    ) -> Matches:
        """What of the slab, from the sequence `start` on, a claim with a selector matches: until
        there are as many as there is room for, or it took as many evaluations as it may."""
        assert claim.selector is not None  # noqa: S101
        return self._topics[claim.topic].matches(claim.selector, slab, start, room, work_max)


class _Topic:
    """The selectors of one topic, and what is known of its newest messages."""

    __slots__ = ("_kept", "_newest", "_reader", "_selectors", "users")

    def __init__(self) -> None:
        self._selectors: dict[str, _Known] = {}
        self._reader = Reader(())  #: of all names in all selectors
        self._kept: dict[int, int] = {}  #: sequence -> the bits of the selectors that match it
        self._newest = 0  #: what is below it was evaluated, if it is not kept any more then alone
        self.users = 0

    def join(self, selector: str) -> None:
        known = self._selectors.get(selector)
        if known is None:
            parsed = parse(selector)
            names = parsed.identifiers
            taken = {one.bit for one in self._selectors.values()}
            bit = next(1 << n for n in range(len(taken) + 1) if 1 << n not in taken)
            known = _Known(bit, Reader(names), names, compiled(parsed))
            self._selectors[selector] = known
            self._changed()
        known.users += 1
        self.users += 1

    def leave(self, selector: str) -> None:
        known = self._selectors[selector]
        known.users -= 1
        self.users -= 1
        if not known.users:
            del self._selectors[selector]
            self._changed()

    def _changed(self) -> None:
        """There are other selectors now, of which what is kept says nothing."""
        names = frozenset[str]().union(*[one.identifiers for one in self._selectors.values()])
        self._reader = Reader(names)
        self._kept.clear()

    def matches(self, selector: str, slab: Slab, start: int, room: int, work_max: int) -> Matches:
        own, listed, count = self._selectors[selector], slab.sequences, slab.count
        offsets = memoryview(slab.offsets).cast("B").cast("i")
        at = max(start - slab.first, 0) if listed is None else bisect_left(listed, start)
        found, work = array("q"), 0
        while at < count and len(found) < room and work < work_max:
            sequence = slab.first + at if listed is None else listed[at]
            bits = self._kept.get(sequence)
            if bits is not None:
                matched = bool(bits & own.bit)
                work += 1
            elif self.users == 1 or sequence < self._newest:
                matched = own.matches(own.reader.read(slab.blob, offsets[at], offsets[at + 1]).get)
                work += 1
            else:
                bits = self._evaluate(slab, offsets[at], offsets[at + 1])
                self._keep(sequence, bits)
                matched = bool(bits & own.bit)
                work += len(self._selectors)
            if matched:
                found.append(sequence)
            at += 1
        following = slab.first + at if listed is None or at == count else listed[at]
        return Matches(found, slab.stop if at == count else following, work)

    def _evaluate(self, slab: Slab, begin: int, end: int) -> int:
        """The bits of all selectors that match the message."""
        get = self._reader.read(slab.blob, begin, end).get
        return sum([one.bit for one in self._selectors.values() if one.matches(get)])

    def _keep(self, sequence: int, bits: int) -> None:
        if len(self._kept) >= KEPT_MAX:
            self._kept.clear()
        self._kept[sequence] = bits
        self._newest = sequence + 1
