"""Check of the messages: every sequence exactly once, rising with the groups; and their topics.

Memory holds a roaring bitmap for each topic: a few bytes for each stretch of sequences, two bytes
for a message at most.
"""

from array import array
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from distributary.pipeline.model.topic_pattern import is_pattern, matches
from distributary.pipeline.tables.arrow import topic_log_schema
from distributary.pipeline.tables.arrow.arrow_types import Int64s
from distributary.pipeline.tables.reading import page_attributes
from distributary.pipeline.tables.topic_log.table_view import TableView
from distributary.pipeline.tables.verify.check import Check, Findings, counted, sequences
from distributary.pipeline.tables.verify.verify_files import FileReader

NAME = "sequences"
#: The highest priority of a message (AMQP 1.0, 3.2.1, as JMS uses it).
PRIORITY_MAX = 9


def bitmap(values: Int64s) -> BitMap64:
    """Make a set of these values; pyroaring reads an `array` without a Python object for each."""
    words = array("Q")
    words.frombytes(np.ascontiguousarray(values).data.cast("B"))
    return BitMap64(words)


def stretch(start: int, stop: int) -> BitMap64:
    """Make the set of start .. stop - 1."""
    return BitMap64(range(max(start, 0), max(stop, start, 0)))


def members(of: BitMap64) -> Int64s:
    """Return the set's members, ascending."""
    return np.frombuffer(of.to_array(), np.int64)


@dataclass(slots=True)
class GroupRows:
    """The table's messages of the groups `first` .. `last`: counts and first sequences."""

    first: int
    last: int
    counts: Int64s = field(init=False)
    firsts: Int64s = field(init=False)

    def __post_init__(self) -> None:
        size = max(self.last - self.first + 1, 0)
        self.counts = np.zeros(size, np.int64)
        self.firsts = np.full(size, np.iinfo(np.int64).max)

    def add(self, groups: Int64s, values: Int64s) -> None:
        here = (groups >= self.first) & (groups <= self.last)
        if here.any():
            at = groups[here] - self.first
            np.add.at(self.counts, at, 1)
            np.minimum.at(self.firsts, at, values[here])


@dataclass(slots=True)
class Messages:
    """All messages of the table, as sets of sequences."""

    topics: dict[str, BitMap64] = field(default_factory=dict)
    all: BitMap64 = field(default_factory=BitMap64)
    expiring: BitMap64 = field(default_factory=BitMap64)
    first: int = 0  #: the first retained sequence; the next one when there is none
    next: int = 0
    #: For each pattern that was asked for: all messages of its topics.
    _of_patterns: dict[str, BitMap64] = field(default_factory=dict)

    def of(self, topic: str) -> BitMap64:
        """Return the messages of a topic, or of all topics that match a pattern; to be called when
        all were read."""
        if not is_pattern(topic):
            return self.topics.get(topic, BitMap64())
        found = self._of_patterns.get(topic)
        if found is None:
            some = (of for name, of in self.topics.items() if matches(topic, name))
            found = self._of_patterns[topic] = BitMap64().union(*some)
        return found


def check_messages(
    view: TableView, reader: FileReader, shared: GroupRows, step: Callable[[int], None]
) -> tuple[Check, Messages]:
    """Read every message's row. Fills `shared` with the groups that the journal has, too; calls
    `step` with the bytes of each file that is done."""
    findings = Findings()
    messages = Messages(next=view.state.sequence)
    for file in view.of(topic_log_schema.MESSAGE):
        if reader.present(file):
            for table in reader.row_groups_of(file):
                _add(table, file.path, view, messages, findings)
                shared.add(table["group"].to_numpy(), table["sequence"].to_numpy())
        step(file.size)
    messages.first = int(messages.all.min()) if messages.all else view.state.sequence
    _check_dense(view, messages, findings)
    span = f"from {messages.first:,} to {view.state.sequence - 1:,}" if messages.all else "none yet"
    words = counted(messages=len(messages.all), topics=len(messages.topics))
    return findings.check(NAME, f"{words}, {span}"), messages


def _add(
    table: pa.Table, path: str, view: TableView, messages: Messages, findings: Findings
) -> None:
    values, groups = table["sequence"].to_numpy(), table["group"].to_numpy()
    order = np.argsort(values, kind="stable")
    if (np.diff(groups[order]) < 0).any():
        findings.problem(
            f"{view.uri}/{path} has sequences that don't rise with their groups: it was not "
            "written by a gateway. Restore it from a copy"
        )
    if groups.max() > view.state.group:
        findings.problem(
            f"{view.uri}/{path} has messages of group {groups.max()}, but the table ends with "
            f"group {view.state.group}. Restore the table from a copy"
        )
    new = bitmap(values)
    twice = new & messages.all
    if twice or len(new) < len(values):
        again = members(twice) if twice else _repeated(values[order])
        findings.problem(
            f"{view.uri}/{path} has messages that are there already: sequences "
            f"{sequences(again)}. They are delivered twice; restore the table from a copy"
        )
    messages.all |= new
    _add_attributes(table, f"{view.uri}/{path}", messages, findings)
    names = table["topic"].combine_chunks().dictionary_encode()
    topic_of = names.indices.to_numpy()
    for nth, name in enumerate(names.dictionary.to_pylist()):
        messages.topics.setdefault(str(name), BitMap64()).update(
            new if len(names.dictionary) == 1 else bitmap(values[topic_of == nth])
        )


def _add_attributes(table: pa.Table, where: str, messages: Messages, findings: Findings) -> None:
    """Check that priorities are AMQP's, and times after 1970."""
    columns = page_attributes.columns_of(table)
    if columns is None:
        return
    values = table["sequence"].to_numpy()
    wrong = (columns.priority > PRIORITY_MAX) | (columns.expires_at < 0) | (columns.deliver_at < 0)
    if wrong.any():
        findings.problem(
            f"{where} has messages with a priority above {PRIORITY_MAX}, or times before 1970: "
            f"sequences {sequences(np.sort(values[wrong]))}. Restore it from a copy"
        )
    messages.expiring |= bitmap(values[columns.expires_at != 0])


def _repeated(ascending: Int64s) -> Int64s:
    return np.unique(ascending[1:][np.diff(ascending) == 0])


def _check_dense(view: TableView, messages: Messages, findings: Findings) -> None:
    missing = stretch(messages.first, view.state.sequence) - messages.all
    if missing:
        findings.problem(
            f"{len(missing):,} messages are in no file of {view.uri}: sequences "
            f"{sequences(members(missing))}. Restore the table from a copy"
        )
    beyond = messages.all - stretch(0, view.state.sequence)
    if beyond:
        findings.problem(
            f"{view.uri} has messages with sequences {sequences(members(beyond))}, but says that "
            f"the next one is {view.state.sequence}: it would be used twice. Restore the table "
            "from a copy"
        )
