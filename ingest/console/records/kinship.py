"""The origin and the copies of a message: dead letters, redriven messages, routes.

Each of these is one group: a dead letter's copy lies in the group of its settlement, so does what
is redriven, and a routed copy in the group of its message, with the same bytes. So a relation is
known by the log's rows, not by today's policies.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import pyarrow.compute as pc

from distributary.ingest.console.log_rows.log_files import LogFiles
from distributary.ingest.console.log_rows.message_rows import (
    StoredMessage,
    message_of,
    messages_of_group,
)
from distributary.ingest.console.log_rows.settlement_rows import (
    SettlementOfOne,
    files_since,
)
from distributary.ingest.console.log_rows.sight import Sight
from distributary.pipeline.amqp.dead_letter import Origin, origin, restored
from distributary.pipeline.model.outcome import Outcome
from distributary.pipeline.tables.delta.commits import AddedFile

#: Dead letters of one group that are compared with a message that was redriven in it.
CANDIDATES_MAX = 200


class Relation(StrEnum):
    """Relation of another message to this one."""

    DEAD_LETTER_OF = "dead letter of"  #: this one is the copy of that
    DEAD_LETTER = "dead letter"  #: that one is the copy of this
    REDRIVEN_FROM = "redriven from"  #: this one was that dead letter
    REDRIVEN_TO = "redriven to"
    ROUTED_FROM = "routed from"  #: the same bytes in the same group, before this one
    ROUTED_TO = "routed to"


@dataclass(frozen=True, slots=True)
class Kin:
    """Another message. `subscription` is the one that gave it up, or gets it again; empty for
    routes."""

    relation: Relation
    sequence: int
    topic: str
    subscription: str = ""


def kin_of(
    files: LogFiles, message: StoredMessage, rows: Sequence[SettlementOfOne], sight: Sight
) -> tuple[Kin, ...]:
    """All that is known and may be seen, by sequence. `rows` are the message's settlements."""
    found = set(_origins(message))
    found.update(_of_own_group(files, message))
    for group in sorted({row.group for row in rows if row.outcome in _MOVED}):
        found.update(_moved(files, message, group))
    seen = [
        one
        for one in found
        if sight.topic(one.topic) and (not one.subscription or sight.subscription(one.subscription))
    ]
    return tuple(sorted(seen, key=lambda one: (one.sequence, one.relation)))


#: With these a copy lies in the group of the settlement.
_MOVED = (Outcome.DEAD_LETTERED, Outcome.REDRIVEN)


def _origins(message: StoredMessage) -> Iterator[Kin]:
    if (where := origin(message.data)) is not None:
        yield Kin(Relation.DEAD_LETTER_OF, where.sequence, where.topic, where.subscription)


def _moved(files: LogFiles, message: StoredMessage, group: int) -> Iterator[Kin]:
    """Its copy or original in the group of a settlement."""
    where = origin(message.data)
    for other in messages_of_group(files, group):
        if other.sequence == message.sequence:
            continue
        said = origin(other.data)
        if said is not None and said.sequence == message.sequence:
            yield Kin(Relation.DEAD_LETTER, other.sequence, other.topic, said.subscription)
        elif where is not None and other.topic == where.topic and _went_back(message, other):
            yield Kin(Relation.REDRIVEN_TO, other.sequence, other.topic, where.subscription)


def _of_own_group(files: LogFiles, message: StoredMessage) -> Iterator[Kin]:
    """Copies beside it, and the dead letter that it was."""
    yield from _routed(files, message)
    for sequence in _redriven_in(files, message):
        letter = message_of(files, sequence)
        where = None if letter is None else origin(letter.data)
        if letter is not None and _is_from(where, message) and _went_back(letter, message):
            assert where is not None  # noqa: S101
            yield Kin(Relation.REDRIVEN_FROM, letter.sequence, letter.topic, where.subscription)


def _routed(files: LogFiles, message: StoredMessage) -> Iterator[Kin]:
    """The messages of other topics with the same bytes. Of several alike in one topic the first
    belongs to the first of another, and so on; the topic with the first of all is the source."""
    alike: dict[str, list[int]] = {}
    for other in messages_of_group(files, message.group):
        if other.data == message.data:
            alike.setdefault(other.topic, []).append(other.sequence)
    ranked = {topic: sorted(some) for topic, some in alike.items()}
    source = min(ranked, key=lambda topic: ranked[topic][0], default=message.topic)
    nth = ranked.get(message.topic, [message.sequence]).index(message.sequence)
    for topic, some in ranked.items():
        if topic == message.topic or nth >= len(some):
            continue
        if topic == source:
            yield Kin(Relation.ROUTED_FROM, some[nth], topic)
        elif message.topic == source:
            yield Kin(Relation.ROUTED_TO, some[nth], topic)


def _redriven_in(files: LogFiles, message: StoredMessage) -> Iterable[int]:
    """The dead letters that were settled as redriven in the message's group."""
    found: set[int] = set()
    for file in files_since(files, message.group):
        if files.full or (file.group_low or 0) > message.group:
            break
        found.update(_redriven(files, file, message))
    return sorted(found)[:CANDIDATES_MAX]


def _redriven(files: LogFiles, file: AddedFile, message: StoredMessage) -> Iterator[int]:
    for one in files.row_groups(file):
        if one.group is not None and not one.group[0] <= message.group <= one.group[1]:
            continue
        rows = files.read(one, ("group", "outcome")).to_pylist()
        wanted = [
            nth
            for nth, row in enumerate(rows)
            if row["group"] == message.group and row["outcome"] == Outcome.REDRIVEN.value
        ]
        if wanted:
            lists = files.read(one, ("sequences",))["sequences"].take(wanted)
            for some in pc.list_flatten(lists).to_pylist():
                if isinstance(some, int) and some < message.sequence:
                    yield some
    files.close(file.path)


def _is_from(where: Origin | None, message: StoredMessage) -> bool:
    return where is not None and where.topic == message.topic


def _went_back(letter: StoredMessage, message: StoredMessage) -> bool:
    return restored(letter.data).data == message.data
