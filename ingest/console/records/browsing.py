"""Messages in pages: of a topic, a queue or a pattern, from a place or a time, by selector.

Rule 1: a page reads a bounded part of the log. Files and row groups that can't hold any of it by
        their statistics aren't opened. Where it stops before it is full it says where to go on.
Rule 2: the cursor is a sequence, so a page is the same page however often it is asked for, and what
        is published meanwhile shifts nothing.
"""

import heapq
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from distributary.ingest.console.log_rows.log_files import LogFiles, RowGroup
from distributary.ingest.console.log_rows.log_reader import AsOf, Snapshot
from distributary.ingest.console.log_rows.message_rows import COLUMNS, StoredMessage, stored
from distributary.ingest.console.log_rows.record_limits import RecordLimits
from distributary.ingest.console.log_rows.sight import Sight
from distributary.ingest.console.records.message_content import (
    BodyKind,
    Branch,
    Content,
    Leaf,
    Node,
    content_of,
)
from distributary.ingest.console.records.standings import KnownStanding
from distributary.pipeline.errors import InvalidRequest, SelectorFailed
from distributary.pipeline.model.record_batch import RecordBatch
from distributary.pipeline.model.subscription import Definition
from distributary.pipeline.model.topic_pattern import is_pattern
from distributary.pipeline.selector.matching import Selections, selected
from distributary.pipeline.selector.parser import parse
from distributary.pipeline.tables.arrow.arrow_types import Chunked, Int64s
from distributary.pipeline.tables.arrow.topic_rows import rows_of
from distributary.pipeline.tables.delta.commits import AddedFile
from distributary.pipeline.tables.delta.message_file import between
from distributary.pipeline.tables.reading.table_statistics import first_at, messages_of
from distributary.pipeline.tables.topic_log.topic_log import TIME_MAX
from distributary.pipeline.tables.upkeep.table_upkeep import day_of

#: Characters of a body that a line of a page shows.
PREVIEW: Final = 160
#: Parts of a list or a map that it shows, and how deep.
ITEMS: Final = 20
LEVELS: Final = 3
_Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Query:
    """A question for messages: of `topic` (a word of the log, a pattern too), with sequences from
    `start` to `stop - 1` (None: to the end), that `selector` selects. With `standing` only those
    that its subscription is still owed."""

    topic: str
    selector: str | None = None
    start: int = 0
    stop: int | None = None
    newest_first: bool = True
    standing: KnownStanding | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """One message of a page: a row, what it says of itself, and the beginning of its body."""

    message: StoredMessage
    message_id: str
    subject: str
    preview: str
    body_bytes: int
    error: str


@dataclass(frozen=True, slots=True)
class Page:
    """Messages in the order that was asked for. `next` is where to go on: the `start` of the next
    page, with the newest first its `stop`; None at the end. `stopped`: it would have read too much,
    and there may be others that come before `next`. `examined` is how many were looked at."""

    lines: tuple[Line, ...]
    next: int | None
    stopped: bool
    examined: int
    as_of: AsOf


def browse(snapshot: Snapshot, query: Query, *, sight: Sight, limits: RecordLimits) -> Page:
    """A page of messages; of a pattern those of the topics that the user may see. Raises
    InvalidRequest for a selector that is none or a topic that the user may not see, Replaced,
    StoreError."""
    if not is_pattern(query.topic) and not sight.topic(query.topic):
        raise InvalidRequest(f"there is no topic or queue {query.topic} that you may read")
    selector = _Selector(query.topic, query.selector) if (query.selector or "").strip() else None
    with LogFiles(snapshot.view, limits.page_bytes_max) as files:
        reading = _Reading(files, query, sight, limits, selector)
        found, bound = reading.run()
    lines = tuple(_line(one, limits) for one in found[: limits.page_messages])
    stopped = bound is not None and len(lines) < limits.page_messages
    if len(found) > len(lines):
        last = lines[-1].message.sequence
        bound = last if query.newest_first else last + 1
    if query.newest_first and bound is not None and bound <= query.start:
        bound = None
    return Page(lines, bound, stopped, reading.examined, snapshot.as_of)


def sequence_at(snapshot: Snapshot, time: int) -> int:
    """The first sequence that was published at a time (microseconds) or later, or that which comes
    next. Raises StoreError, FileNotFoundError where a file was replaced."""
    day = day_of(min(time, TIME_MAX))
    found = first_at(snapshot.view.store, messages_of(snapshot.view.state.files), time, day=day)
    return snapshot.as_of.sequence if found is None else found


class _Reading:
    """One page while it is read."""

    def __init__(
        self,
        files: LogFiles,
        query: Query,
        sight: Sight,
        limits: RecordLimits,
        selector: "_Selector | None",
    ) -> None:
        self._files, self._query, self._sight = files, query, sight
        self._limits, self._selector = limits, selector
        self._stop = files.view.state.sequence if query.stop is None else query.stop
        self.examined = 0

    def run(self) -> tuple[list[StoredMessage], int | None]:
        """At least one more than a page has, in order, if there are so many; and where reading
        stopped, None at the end: all that comes before it is there."""
        found: list[StoredMessage] = []
        wanted = self._limits.page_messages + 1
        for one in self._row_groups():
            key = self._key(one)
            ready = [message for message in found if self._before(message.sequence, key)]
            if len(ready) >= wanted or (self._moved(key) and (self._files.full or self._tired)):
                return ready, key + 1 if self._query.newest_first else key
            found = sorted(
                [*found, *self._messages(one)],
                key=lambda message: message.sequence,
                reverse=self._query.newest_first,
            )
        return found, None

    @property
    def _tired(self) -> bool:
        """Whether the selector was asked of as many messages as it may."""
        return self._selector is not None and self.examined >= self._limits.selected_messages_max

    def _moved(self, key: int) -> bool:
        """Whether a page that stops before this sequence leads on."""
        return key + 1 < self._stop if self._query.newest_first else key > self._query.start

    def _before(self, sequence: int, key: int) -> bool:
        return sequence > key if self._query.newest_first else sequence < key

    def _key(self, one: RowGroup) -> int:
        """The first sequence of a row group in the order that is asked for."""
        bounds = one.sequence
        assert bounds is not None  # noqa: S101 (those without aren't read)
        return int(bounds[1] if self._query.newest_first else bounds[0])

    def _row_groups(self) -> Iterator[RowGroup]:
        """The row groups that may have wanted messages, in the order of their first sequences."""
        newest = self._query.newest_first
        waiting: list[tuple[int, str, int, RowGroup]] = []
        files = [file for file in messages_of(self._files.view.state.files) if self._due(file)]
        for file in sorted(files, key=lambda f: -(f.high or 0) if newest else (f.low or 0)):
            edge = -(file.high or 0) if newest else (file.low or 0)
            while waiting and waiting[0][0] < edge:
                yield heapq.heappop(waiting)[-1]
            for one in self._files.row_groups(file):
                if one.sequence is not None and self._may_have(one):
                    key = self._key(one)
                    rank = -key if newest else key
                    heapq.heappush(waiting, (rank, file.path, one.nth, one))
        while waiting:
            yield heapq.heappop(waiting)[-1]

    def _due(self, file: AddedFile) -> bool:
        if file.low is None or file.high is None:
            return False
        here = file.low < self._stop and file.high >= self._query.start
        return here and between(self._query.topic, file.topic_low, file.topic_high)

    def _may_have(self, one: RowGroup) -> bool:
        low, high = one.sequence or (0, 0)
        if low >= self._stop or high < self._query.start:
            return False
        topics = one.topic or (None, None)
        return between(self._query.topic, topics[0], topics[1])

    def _messages(self, one: RowGroup) -> Iterator[StoredMessage]:
        """The first of those that it has: as many as a page, and one more."""
        narrow = self._files.read(one, ("sequence", "topic"))
        sequences = narrow["sequence"].to_numpy()
        rows = np.flatnonzero(self._of_query(sequences, narrow["topic"]))
        if not len(rows):
            return
        rows = rows[np.argsort(sequences[rows], kind="stable")]
        most = self._limits.page_messages + 1
        if self._selector is None:
            rows = rows[-most:] if self._query.newest_first else rows[:most]
            self.examined += len(rows)
            yield from stored(self._files.read(one, COLUMNS).take(rows))
            return
        table = self._files.read(one, COLUMNS).take(rows)
        self.examined += table.num_rows
        chosen = self._selector.rows(table)
        chosen = chosen[-most:] if self._query.newest_first else chosen[:most]
        yield from stored(table.take(chosen))

    def _of_query(self, sequences: Int64s, topics: Chunked) -> _Flags:
        due: _Flags = rows_of(self._query.topic, topics).to_numpy(zero_copy_only=False)
        due &= (sequences >= self._query.start) & (sequences < self._stop)
        if is_pattern(self._query.topic) and self._sight.topics is not None:
            seen = pa.array(sorted(self._sight.topics), pa.string())
            due &= pc.is_in(topics, value_set=seen).to_numpy()
        if self._query.standing is not None:
            due &= self._query.standing.waits(sequences)
        return due


class _Selector:
    """One selector, asked of rows. Raises InvalidRequest if it is none."""

    def __init__(self, topic: str, text: str | None) -> None:
        self._definition = Definition(topic, shared=True, selector=text)
        self._selections = Selections()
        parse(text or "")
        self._selections.join(self._definition)

    def rows(self, table: pa.Table) -> Int64s:
        """The numbers of the rows that it selects; rows are by sequence. Raises InvalidRequest if
        it can't be evaluated."""
        messages = [bytes(one) for one in table["message"].to_pylist() if one is not None]
        offsets = np.zeros(len(messages) + 1, np.int32)
        np.cumsum([len(one) for one in messages], out=offsets[1:])
        blob = b"".join(messages)
        listed = array("q", table["sequence"].to_numpy().tobytes())
        batch = RecordBatch(listed[0], len(listed), blob, offsets.tobytes(), listed)
        try:
            chosen = selected(self._selections, self._definition, batch)
        except SelectorFailed as error:
            raise InvalidRequest(f"the selector can't be evaluated: {error}") from error
        return np.searchsorted(table["sequence"].to_numpy(), np.array(chosen, np.int64))


def _line(message: StoredMessage, limits: RecordLimits) -> Line:
    content = content_of(message.data, limits)
    return Line(
        message,
        content.said("message-id"),
        content.said("subject"),
        preview(content),
        content.body.size,
        content.error,
    )


def preview(content: Content) -> str:
    """The beginning of a body on one line."""
    body = content.body
    match body.kind:
        case BodyKind.NONE:
            return ""
        case BodyKind.BYTES:
            return " ".join(body.text[8:55].split()) + (" …" if body.size > 16 else "")
        case _:
            text = " ".join((body.text or one_line(body.tree)).split())
            return text[:PREVIEW] + ("…" if len(text) > PREVIEW else "")


def one_line(node: Node | None, depth: int = 0) -> str:
    """A value with parts as one line of text, as far as a line needs it."""
    match node:
        case Leaf(text=text):
            return text
        case Branch(kind=kind, items=items) if depth < LEVELS:
            said = [(name, one_line(one, depth + 1)) for name, one in items[:ITEMS]]
            if kind == "list":
                return f"[{', '.join(text for _, text in said)}]"
            return f"{{{', '.join(f'{name}: {text}' for name, text in said)}}}"
        case _:
            return "…"
