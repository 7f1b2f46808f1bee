"""Which messages the selectors of a topic's subscriptions match, a slab at a time.

Rule 1: a message that several subscriptions read one after the other is read once, and equal
        selectors are evaluated once: what was found is kept for the newest messages of the topic.
        Older ones are evaluated for the subscription that is so far behind, alone.
Rule 2: what is found out is the same whoever asks, and whenever.
"""

from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import TypeAlias

from pipeline.message import Slab
from pipeline.selector.evaluate import Code, truth
from pipeline.selector.parser import parse
from pipeline.selector.reading import Reader
from pipeline.subscription import Definition

#: Stretches of one topic's newest messages whose matches are kept, besides two for each of its
#: subscriptions: what came while the slowest of those that keep up wasn't served.
SPANS_MAX = 256
#: To read a message and evaluate one selector takes as long as to evaluate so many more.
READING = 10
#: Sequences of a stretch: until it has as many, it grows.
SPAN_MAX = 512

_NOTHING = array("q")


@dataclass(frozen=True, slots=True, eq=False)
class Matches:
    """Of the messages up to `stop - 1` those in `sequences` match, all of them if that is None;
    `work` is how many messages with one selector would have taken as long."""

    sequences: "array[int] | None"
    stop: int
    work: int = 0


@dataclass(slots=True, eq=False)
class _Known:
    """One selector of a topic; `users` are its subscriptions."""

    reader: Reader
    identifiers: frozenset[str]
    matches: Code
    users: int = 0


@dataclass(slots=True, eq=False)
class _Span:
    """What every selector matches of the topic's messages from `start` to `stop - 1`. What follows
    right behind it is added to it while it is short."""

    start: int
    stop: int
    matched: "dict[str, array[int]]"


#: A selector, and where the sequences go that it matches.
_Wanted: TypeAlias = "tuple[Code, array[int]]"


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
        there are as many as there is room for, or it took as much work as it may."""
        assert claim.selector is not None  # noqa: S101
        return self._topics[claim.topic].matches(claim.selector, slab, start, room, work_max)


class _Topic:
    """The selectors of one topic, and what they match of its newest messages."""

    __slots__ = ("_reader", "_selectors", "_spans", "_starts", "users")

    def __init__(self) -> None:
        self._selectors: dict[str, _Known] = {}
        self._reader = Reader(())  #: of all names in all selectors
        self._spans: list[_Span] = []  #: ascending, without overlaps
        self._starts: list[int] = []  #: of the spans
        self.users = 0

    def join(self, selector: str) -> None:
        known = self._selectors.get(selector)
        if known is None:
            parsed = parse(selector)
            names = parsed.identifiers
            known = self._selectors[selector] = _Known(Reader(names), names, truth(parsed))
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
        self._spans.clear()
        self._starts.clear()

    def matches(self, selector: str, slab: Slab, start: int, room: int, work_max: int) -> Matches:
        at = bisect_right(self._starts, start) - 1
        if at >= 0 and start < self._spans[at].stop:
            return _within(self._spans[at], selector, slab, start, room)
        own = self._selectors[selector]
        if self.users == 1 or at < len(self._spans) - 1:
            sequences = array("q")
            stop, count = _evaluate(
                slab, start, own.reader, [(own.matches, sequences)], room, work_max
            )
            return Matches(sequences, stop, count)
        found = {text: array("q") for text in self._selectors}
        wanted = [(one.matches, found[text]) for text, one in self._selectors.items()]
        wanted.sort(key=lambda pair: pair[1] is not found[selector])
        count_max = max(work_max * READING // (READING - 1 + len(wanted)), 1)
        stop, count = _evaluate(slab, start, self._reader, wanted, room, count_max)
        self._keep(start, stop, {text: some for text, some in found.items() if some})
        work = -(-count * (READING - 1 + len(wanted)) // READING)
        return Matches(found[selector][:], stop, work)

    def _keep(self, start: int, stop: int, matched: "dict[str, array[int]]") -> None:
        last = self._spans[-1] if self._spans else None
        if last is not None and last.stop == start and start - last.start < SPAN_MAX:
            last.stop = stop
            for text, sequences in matched.items():
                last.matched.setdefault(text, array("q")).extend(sequences)
            return
        most = SPANS_MAX + 2 * self.users
        if len(self._spans) >= most:
            del self._spans[: most // 2], self._starts[: most // 2]
        self._spans.append(_Span(start, stop, matched))
        self._starts.append(start)


def _within(span: _Span, selector: str, slab: Slab, start: int, room: int) -> Matches:
    """What is known already, as far as it lies in the slab."""
    matched, stop = span.matched.get(selector, _NOTHING), min(span.stop, slab.stop)
    first, last = bisect_left(matched, start), bisect_left(matched, stop)
    if last - first > room:
        last = first + room
        stop = matched[last - 1] + 1
    return Matches(matched[first:last], stop, 1)


def _evaluate(
    slab: Slab, start: int, reader: Reader, wanted: list[_Wanted], room: int, count_max: int
) -> tuple[int, int]:
    """Gather what each of `wanted` matches, until the first of them has as much as there is room
    for; where that is, and how many messages it took."""
    listed, blob, read = slab.sequences, slab.blob, reader.read
    offsets = memoryview(slab.offsets).cast("B").cast("i")
    first = max(start - slab.first, 0) if listed is None else bisect_left(listed, start)
    end = min(slab.count, first + count_max)
    own = wanted[0][1]
    at = first
    while at < end and len(own) < room:
        sequence = slab.first + at if listed is None else listed[at]
        get = read(blob, offsets[at], offsets[at + 1]).get
        for matches, sequences in wanted:
            if matches(get) is True:
                sequences.append(sequence)
        at += 1
    if at == slab.count:
        return slab.stop, at - first
    return slab.first + at if listed is None else listed[at], at - first
