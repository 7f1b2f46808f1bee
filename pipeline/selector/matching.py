"""Matching of messages by the selectors of a topic's subscriptions, a batch at a time.

Rule 1: a message that several subscriptions need one after the other is read once, and equal
        selectors are evaluated once: the results are kept for the newest messages of the topic.
        Older messages are evaluated for each subscription alone.
Rule 2: the results depend on the message and the selector alone.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from distributary.pipeline.errors import SelectorFailed
from distributary.pipeline.model.record_batch import RecordBatch
from distributary.pipeline.model.subscription import Definition
from distributary.pipeline.selector.evaluate import Code, truth
from distributary.pipeline.selector.keys import keyed, required
from distributary.pipeline.selector.like import passes
from distributary.pipeline.selector.parser import parse
from distributary.pipeline.selector.reading import Columned, Reader
from distributary.pipeline.selector.syntax import Selector
from distributary.pipeline.sequences.sequence_set import Run

#: Spans of one topic's newest messages whose matches are kept, besides two for each of its
#: subscriptions: enough for messages that came since the slowest one that keeps up was served.
SPANS_MAX = 256
#: Time to read a message and evaluate one selector, in evaluations.
READING = 2
#: Messages that are read at a time, at least and at most; more than the least only if there is
#: room for all of them.
CHUNK_MIN, CHUNK_MAX = 16, 64
#: Bytes of messages that are read at a time: of large messages fewer are read.
CHUNK_BYTES = 1 << 20
#: Characters of a pass over texts, and bytes read in front of a message's body, that take as long
#: as one evaluation. The first READING_BYTES of each message are part of READING.
CHARS_LIKE_ONE, BYTES_LIKE_ONE, READING_BYTES = 512, 1_024, 512
#: If the texts of a message take more evaluations than this for all selectors together, each
#: selector is evaluated alone, in its turn.
TOGETHER_MAX = 256
#: Sequences up to which a span grows.
SPAN_MAX = 512

_NOTHING = array("q")


@dataclass(frozen=True, slots=True, eq=False)
class Matches:
    """Messages up to `stop - 1` that match: `sequences`, or all of them if that is None. `work` is
    the time spent, as a number of messages with one selector."""

    sequences: "array[int] | None"
    stop: int
    work: int = 0


#: Makes a reader of the values of these names.
Reading = Callable[[Iterable[str]], Columned]
#: The number of a selector, its function, and its passes over the texts of a message.
_Numbered = tuple[int, Code, int]


class _Together:
    """Selectors that are evaluated together; `numbers` has the number of each by its text.

    Selectors that require one of a few values of a property are looked up by the message's value;
    the others are evaluated for each message.
    """

    __slots__ = ("_always", "_by_value", "_passes", "_reader", "numbers")

    def __init__(self, reading: Reading, selectors: list[Selector]) -> None:
        self.numbers = {selector.text: number for number, selector in enumerate(selectors)}
        names = frozenset[str]().union(*[selector.identifiers for selector in selectors])
        self._reader = reading(sorted(names))
        self._always: list[_Numbered] = []
        self._by_value: dict[str, dict[object, list[_Numbered]]] = {}
        self._passes = sum(passes(selector.expression) for selector in selectors)
        keys = keyed([required(selector.expression) for selector in selectors])
        for number, (selector, key) in enumerate(zip(selectors, keys, strict=True)):
            one = (number, truth(selector), passes(selector.expression))
            if key is None:
                self._always.append(one)
                continue
            name, values = key
            by_value = self._by_value.setdefault(name, {})
            for value in values:
                by_value.setdefault(value, []).append(one)

    def evaluate(  # noqa: C901 (calls cost more)
        self, batch: RecordBatch, start: int, own: int, room: int, work_max: int
    ) -> "tuple[list[array[int]], int, int]":
        """Return the matches of each selector from the sequence `start` on, until the selector with
        the number `own` has `room` matches or `work_max` is reached; the sequence where that is;
        and the work. Work 0: the first message takes too long for all selectors together."""
        listed, found = batch.sequences, [array("q") for _ in self.numbers]
        mine, spent, budget, evaluated = found[own], 0, work_max * READING, False
        at = max(start - batch.first, 0) if listed is None else bisect_left(listed, start)
        row: dict[str, object] = {}
        offsets = memoryview(batch.offsets).cast("B").cast("i")
        while at < batch.count and len(mine) < room and spent < budget:
            stop = at + min(batch.count - at, CHUNK_MAX, max(room - len(mine), CHUNK_MIN))
            while offsets[stop] - offsets[at] > CHUNK_BYTES and stop - at > 1:
                stop = (at + stop) // 2
            columns, looked = self._reader.columns(batch, at, stop)
            spent += max(looked - READING_BYTES * (stop - at), 0) // BYTES_LIKE_ONE
            every = list(columns.items())
            lookups = [(columns[name], by.get) for name, by in self._by_value.items()]
            for index in range(stop - at):
                candidates = self._always
                for column, of_value in lookups:
                    more = of_value(column[index])
                    if more is not None:
                        candidates = candidates + more if candidates else more
                if candidates:
                    for name, column in every:
                        row[name] = column[index]
                    if self._passes:
                        long = _longest(row)
                        extra = long * sum(one[2] for one in candidates) // CHARS_LIKE_ONE
                        if extra > TOGETHER_MAX and len(found) > 1:
                            return (
                                found,
                                _place(batch, at),
                                -(-spent // READING) if evaluated else 0,
                            )
                        spent += extra
                    sequence = batch.first + at if listed is None else listed[at]
                    for number, code, _ in candidates:
                        if code(row.get) is True:
                            found[number].append(sequence)
                at += 1
                evaluated = True
                spent += READING - 1 + len(candidates)
                if spent >= budget or len(mine) >= room:
                    break
        work = -(-spent // READING)
        return found, _place(batch, at), work


@dataclass(slots=True, eq=False)
class _Known:
    """One selector of a topic, alone; `users` are its subscriptions."""

    selector: Selector
    alone: _Together
    users: int = 0


@dataclass(slots=True, eq=False)
class _Span:
    """Matches of every selector among the topic's messages from `start` to `stop - 1`. Matches of
    the messages behind it are added while it is shorter than SPAN_MAX."""

    start: int
    stop: int
    matched: "dict[str, array[int]]"


class Selections:
    """The selectors of all subscriptions that are served now, by topic. `reading` makes the
    reader of messages."""

    __slots__ = ("_reading", "_topics")

    def __init__(self, reading: Reading = Reader) -> None:
        self._reading = reading
        self._topics: dict[str, _Topic] = {}

    @property
    def topics(self) -> AbstractSet[str]:
        """Topics that have a subscription with a selector."""
        return self._topics.keys()

    @property
    def kept(self) -> int:
        """Number of spans that are kept for all topics."""
        return sum(topic.kept for topic in self._topics.values())

    def join(self, definition: Definition) -> None:
        """Add a subscription that is served from now on. Raises SelectorError."""
        if definition.selector is not None:
            known = self._topics.get(definition.topic) or _Topic(self._reading)
            known.join(definition.selector)
            self._topics[definition.topic] = known

    def leave(self, definition: Definition) -> None:
        """Remove a subscription that is served no more."""
        if definition.selector is not None:
            self._topics[definition.topic].leave(definition.selector)
            if not self._topics[definition.topic].users:
                del self._topics[definition.topic]

    def matches(
        self, definition: Definition, batch: RecordBatch, start: int, *, room: int, work_max: int
    ) -> Matches:
        """Return the messages of the batch, from the sequence `start` on, that a definition with a
        selector matches, until there are `room` of them or `work_max` is reached. Raises
        SelectorFailed; then nothing has changed."""
        assert definition.selector is not None  # noqa: S101
        return self._topics[definition.topic].matches(
            definition.selector, batch, start, room, work_max
        )


class _Topic:
    """The selectors of one topic, and their matches among its newest messages."""

    __slots__ = ("_reading", "_selectors", "_spans", "_starts", "_together", "users")

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._selectors: dict[str, _Known] = {}
        self._together: _Together | None = None  #: all selectors; None until needed
        self._spans: list[_Span] = []  #: ascending, without overlaps
        self._starts: list[int] = []  #: of the spans
        self.users = 0

    @property
    def kept(self) -> int:
        return len(self._spans)

    def join(self, text: str) -> None:
        known = self._selectors.get(text)
        if known is None:
            selector = parse(text)
            alone = _Together(self._reading, [selector])
            known = self._selectors[text] = _Known(selector, alone)
            self._changed()
        known.users += 1
        self.users += 1

    def leave(self, text: str) -> None:
        known = self._selectors[text]
        known.users -= 1
        self.users -= 1
        if not known.users:
            del self._selectors[text]
            self._changed()

    def _changed(self) -> None:
        """Drop kept matches, as the set of selectors has changed."""
        self._together = None
        self._spans.clear()
        self._starts.clear()

    def matches(
        self, text: str, batch: RecordBatch, start: int, room: int, work_max: int
    ) -> Matches:
        at = bisect_right(self._starts, start) - 1
        if at >= 0 and start < self._spans[at].stop and not batch.filtered:
            return _within(self._spans[at], text, batch, start, room)
        if self.users == 1 or at < len(self._spans) - 1 or batch.filtered:
            return self._alone(text, batch, start, room, work_max)
        if self._together is None:
            known = [one.selector for one in self._selectors.values()]
            self._together = _Together(self._reading, known)
        numbers = self._together.numbers
        own = numbers[text]
        try:
            found, stop, work = self._together.evaluate(batch, start, own, room, work_max)
        except Exception:  # noqa: BLE001 (of one selector: alone it raises it again)
            return self._alone(text, batch, start, room, work_max)
        if not work and stop < batch.stop:
            return self._alone(text, batch, start, room, 1)
        mine = found[own][:]
        matched = zip(numbers, found, strict=True)
        self._keep(start, stop, {text: some for text, some in matched if some})
        return Matches(mine, stop, work)

    def _alone(
        self, text: str, batch: RecordBatch, start: int, room: int, work_max: int
    ) -> Matches:
        """Return the matches of one selector, evaluated alone. Raises SelectorFailed."""
        alone = self._selectors[text].alone
        try:
            (sequences,), stop, work = alone.evaluate(batch, start, 0, room, work_max)
        except Exception as error:
            raise SelectorFailed(text, error) from error
        return Matches(sequences, stop, work)

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


def selected(selections: Selections, definition: Definition, batch: RecordBatch) -> Run:
    """Return all messages of a batch that a definition selects; one with a selector has joined."""
    if definition.selector is None:
        return range(batch.first, batch.stop) if batch.sequences is None else batch.sequences
    found = array("q")
    for part in selected_parts(selections, definition, batch, READING * batch.count):
        found.extend(part)
    return found


def selected_parts(
    selections: Selections, definition: Definition, batch: RecordBatch, work_max: int
) -> Iterator[Run]:
    """Return the same in parts that take at most `work_max` each, so that the caller can let other
    tasks run between two parts."""
    if definition.selector is None:
        yield selected(selections, definition, batch)
        return
    start = batch.first
    while start < batch.stop:
        found = selections.matches(definition, batch, start, room=batch.count, work_max=work_max)
        assert found.sequences is not None  # noqa: S101
        yield found.sequences
        start = found.stop


def _longest(row: dict[str, object]) -> int:
    """Return the number of characters of the longest text among a message's values."""
    return max((len(value) for value in row.values() if isinstance(value, str)), default=0)


def _place(batch: RecordBatch, at: int) -> int:
    """Return the sequence of the message with this index, or the one behind the last message."""
    if at == batch.count:
        return batch.stop
    return batch.first + at if batch.sequences is None else batch.sequences[at]


def _within(span: _Span, selector: str, batch: RecordBatch, start: int, room: int) -> Matches:
    """Return the kept matches of a span that are in the batch."""
    matched, stop = span.matched.get(selector, _NOTHING), min(span.stop, batch.stop)
    first, last = bisect_left(matched, start), bisect_left(matched, stop)
    if last - first > room:
        last = first + room
        stop = matched[last - 1] + 1
    return Matches(matched[first:last], stop, 1)
