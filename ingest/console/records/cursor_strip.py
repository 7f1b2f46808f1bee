"""A subscription's cursor as ranges, to be drawn: settled, given up, in flight, waiting.

A range is a stretch of the messages of the subscription's topics: sequences of other topics between
them don't count. Where there are more ranges than can be drawn, the short ones beside each other
become one that is mixed, and the strip says that it is merged.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from distributary.ingest.console.log_rows.log_files import LogFiles
from distributary.ingest.console.log_rows.record_limits import RecordLimits
from distributary.ingest.console.records.standings import KnownStanding
from distributary.pipeline.tables.arrow.arrow_types import Int64s
from distributary.pipeline.tables.arrow.topic_rows import rows_of
from distributary.pipeline.tables.delta.message_file import between
from distributary.pipeline.tables.reading.table_statistics import messages_of

_States = npt.NDArray[np.int8]


class MessageState(IntEnum):
    """How a message stands with the subscription."""

    SETTLED = 0
    GIVEN_UP = 1
    IN_FLIGHT = 2
    WAITING = 3
    MIXED = 4  #: of a range: several of these


@dataclass(frozen=True, slots=True)
class StripRange:
    """`counts` are messages by state, from `first` to `last`, both of which are among them."""

    first: int
    last: int
    state: MessageState
    counts: tuple[int, int, int, int]

    @property
    def messages(self) -> int:
        return sum(self.counts)


@dataclass(frozen=True, slots=True)
class Strip:
    """`ranges` by sequence, from a little before the floor to `covered` (all up to `head` if that
    is as much). `at_most`: with a selector messages that it doesn't select count as waiting until
    the floor passes them. `given_up`: the newest messages settled finally without an accept."""

    floor: int
    head: int
    covered: int
    ranges: tuple[StripRange, ...]
    merged: bool
    at_most: bool
    given_up: tuple[int, ...]
    given_up_count: int
    given_up_whole: bool  #: the count goes back to the incarnation's beginning

    @property
    def waiting(self) -> int:
        """Messages that wait or are in flight."""
        states = (MessageState.IN_FLIGHT, MessageState.WAITING)
        return sum(one.counts[state] for one in self.ranges for state in states)


#: Dead messages that are named.
NAMED_MAX = 20
#: Messages before the floor that are drawn: so many at least, and a quarter of those above.
BEFORE_MIN = 100


def strip_of(
    files: LogFiles, standing: KnownStanding, held: Iterable[int], limits: RecordLimits
) -> Strip:
    """The strip of an incarnation that lives; `held` are the sequences in flight now. Raises
    Replaced and StoreError."""
    one, head = standing.incarnation, files.view.state.sequence
    before = max(BEFORE_MIN, (head - standing.floor) // 4)
    start = max(one.floor, standing.floor - before)
    sequences, covered = topic_sequences(files, one.topic, start)
    states = _states(sequences, standing, held)
    ranges, merged = ranges_of(sequences, states, limits.ranges_max)
    dead = standing.given_up
    newest = [int(dead[len(dead) - 1 - nth]) for nth in range(min(len(dead), NAMED_MAX))]
    return Strip(
        standing.floor,
        head,
        covered,
        ranges,
        merged,
        one.selector is not None,
        tuple(newest),
        len(dead),
        standing.given_up_since <= one.began.group,
    )


def topic_sequences(files: LogFiles, topic: str, start: int) -> tuple[Int64s, int]:
    """The sequences of a topic's messages from `start` on, ascending, and up to which sequence they
    are complete: all of them unless that is more than a request may read."""
    found: list[Int64s] = []
    due = [file for file in messages_of(files.view.state.files) if (file.high or 0) >= start]
    covered = files.view.state.sequence
    for file in due:
        if not between(topic, file.topic_low, file.topic_high):
            continue
        if files.full:
            covered = min(covered, file.low or 0)
            break
        for one in files.row_groups(file):
            bounds = one.topic or (None, None)
            high = start if one.sequence is None else int(one.sequence[1])
            if high < start or not between(topic, bounds[0], bounds[1]):
                continue
            table = files.read(one, ("sequence", "topic"))
            rows = table["sequence"].to_numpy()[
                rows_of(topic, table["topic"]).to_numpy(zero_copy_only=False)
            ]
            found.append(rows[rows >= start])
        files.close(file.path)
    every = np.sort(np.concatenate([np.zeros(0, np.int64), *found]))
    return every[every < covered], covered


def _states(sequences: Int64s, standing: KnownStanding, held: Iterable[int]) -> _States:
    states: _States = np.where(
        standing.waits(sequences), MessageState.WAITING, MessageState.SETTLED
    ).astype(np.int8)
    dead = np.array(standing.given_up.to_array(), np.int64)
    states[np.isin(sequences, dead) & (states == MessageState.SETTLED)] = MessageState.GIVEN_UP
    flying = np.isin(sequences, np.fromiter(held, np.int64))
    states[flying & (states == MessageState.WAITING)] = MessageState.IN_FLIGHT
    return states


def ranges_of(
    sequences: Int64s, states: _States, ranges_max: int
) -> tuple[tuple[StripRange, ...], bool]:
    """Stretches of one state, `ranges_max` at most; and whether some were merged for that."""
    if not len(sequences):
        return (), False
    begins = np.flatnonzero(np.diff(states, prepend=np.int8(-1)))
    merged = len(begins) > ranges_max
    if merged:
        begins = _longest(begins, len(states), ranges_max)
    ends = np.append(begins[1:], len(states))
    return tuple(
        _range(sequences[begin:end], states[begin:end])
        for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)
    ), merged


def _longest(begins: Int64s, count: int, ranges_max: int) -> Int64s:
    """The begins of ranges if only the longest stay by themselves: half of the ranges that there
    may be, and one range between any two of them."""
    lengths = np.diff(begins, append=count)
    keep = np.zeros(len(begins), np.bool_)
    keep[np.argsort(-lengths, kind="stable")[: max((ranges_max - 1) // 2, 1)]] = True
    first_of_rest = ~keep & np.concatenate([[True], keep[:-1]])
    return np.asarray(begins[keep | first_of_rest], np.int64)


def _range(sequences: Int64s, states: _States) -> StripRange:
    counts: Sequence[int] = np.bincount(states, minlength=4).tolist()
    some = [state for state in MessageState if state < 4 and counts[state]]
    state = some[0] if len(some) == 1 else MessageState.MIXED
    four = (counts[0], counts[1], counts[2], counts[3])
    return StripRange(int(sequences[0]), int(sequences[-1]), state, four)
