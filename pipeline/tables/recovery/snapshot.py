"""Reader of the state of every durable subscription when a gateway starts.

Spark's table `cursors` has the state as of some group; the log's settlements after that group
complete it. Without the table the whole log gives the same result, slower. The rules are the job's
(`pipeline.transforms.materialize.cursors`): an event of BEGINNINGS begins an incarnation, `deleted`
ends it, all others change only its attributes; within one group a beginning wins, then a deletion;
a settlement counts when its group is later than its incarnation's. So the order of rows doesn't
matter.
"""

from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from distributary.pipeline.errors import StoreError
from distributary.pipeline.log.failures import Failures
from distributary.pipeline.log.log_identity import LogIdentity
from distributary.pipeline.model.message import SchemaRecord
from distributary.pipeline.model.subscription import (
    BEGINNINGS,
    NOT_OF_SUBSCRIPTIONS,
    Definition,
    Made,
    Origin,
    SubscriptionEvent,
    SubscriptionKey,
)
from distributary.pipeline.tables.arrow import topic_log_schema
from distributary.pipeline.tables.arrow.arrow_types import Int64s
from distributary.pipeline.tables.arrow.bitmaps import set_of
from distributary.pipeline.tables.arrow.library_errors import library_errors
from distributary.pipeline.tables.arrow.settlement_fold import COLUMNS, Settlements, Standing
from distributary.pipeline.tables.delta.store import delta_table
from distributary.pipeline.tables.recovery.log_batches import tables
from distributary.pipeline.tables.recovery.standpoints import (
    WHOLE_LOG,
    SchemaEvent,
    Snapshot,
    SubscriptionState,
)
from distributary.pipeline.tables.recovery.transaction_events import of_transactions, open_of, read
from distributary.pipeline.tables.topic_log.topic_log import TopicLog

#: The columns that are read from Spark's table, with the types that they must have.
CURSOR_COLUMNS = {
    "subscription": pa.string(),
    "topic": pa.string(),
    "shared": pa.bool_(),
    "selector": pa.string(),
    "floor": pa.int64(),
    "settled": pa.binary(),
    "lost": pa.binary(),
    "failures": pa.list_(
        pa.struct([("sequence", pa.int64()), ("failures", pa.int32()), ("group", pa.int64())])
    ),
    "group": pa.int64(),
    "log_version": pa.int64(),
}
_ORDER_COLUMNS = ["group", "subscription", "event"]
_EVENT_COLUMNS = [
    *_ORDER_COLUMNS,
    "floor",
    "topic",
    "shared",
    "selector",
    "no_local",
    "paused",
    "policy",
    "origin",
    "created_by",
    "by",
    "recorded_at",
]
Flags = npt.NDArray[np.bool_]

_BEGINS = pa.array(sorted(event.value for event in BEGINNINGS), pa.string())
_DELETED = pa.scalar(SubscriptionEvent.DELETED.value, pa.string())
#: The known events of subscriptions. Schemas' events and unknown ones all matter, too.
_KNOWN = pa.array(sorted({*SubscriptionEvent} - NOT_OF_SUBSCRIPTIONS), pa.string())


@dataclass(slots=True)
class _Fold:
    """A subscription during the fold."""

    standing: Standing
    incarnation: "_Incarnation"


@dataclass(frozen=True, slots=True)
class _Event:
    """One event of a subscription, and the subscription's attributes after it."""

    group: int
    what: SubscriptionEvent
    floor: int
    definition: Definition
    paused: bool
    policy: str
    made: Made

    @property
    def order(self) -> tuple[int, int]:
        """Sort key: the group; within one group a beginning comes last, a deletion before it."""
        rank = 2 if self.what in BEGINNINGS else int(self.what == SubscriptionEvent.DELETED)
        return (self.group, rank)


@dataclass(frozen=True, slots=True)
class _Incarnation:
    """A living subscription: the event that began its incarnation, and its last event."""

    began: _Event
    last: _Event


class _Unusable(Exception):
    """The reason why the table `cursors` can't be used."""


class ReadAhead(msgspec.Struct, frozen=True, eq=False):
    """The state of all subscriptions at one version of a table. It has one reader, which continues
    from it and changes it."""

    identity: LogIdentity
    group: int
    standings: dict[str, Standing]


def read_ahead(log: TopicLog, before: ReadAhead | None) -> ReadAhead:
    """Read the state of all subscriptions from a table that another process writes, for a later
    `load`; `before` is the result of an earlier call. Raises StoreError."""
    folds, _, _, _ = _folded(log, before)
    for fold in folds.values():
        fold.standing.group = log.journal_version
    standings = {name: fold.standing for name, fold in folds.items()}
    return ReadAhead(log.identity, log.journal_version, standings)


def load(log: TopicLog, ahead: ReadAhead | None = None) -> Snapshot:
    """Read the state as of the log's last commit. The caller has committed the journal before;
    `ahead` is the result of an earlier `read_ahead`.

    Called on the committer's thread, or before it starts. Raises StoreError.
    """
    folds, schemas, open_, source = _folded(log, ahead)
    states = [
        SubscriptionState(
            SubscriptionKey.parse(name),
            fold.incarnation.last.definition,
            fold.standing.floor,
            set_of(fold.standing.settled),
            fold.standing.failures,
            fold.incarnation.began.group,
            fold.incarnation.last.paused,
            fold.incarnation.last.policy,
            fold.incarnation.last.made,
            set_of(fold.standing.lost),
        )
        for name, fold in sorted(folds.items())
    ]
    head = log.sequence_version
    open_transactions = read(log, open_)
    return Snapshot(
        log.journal_version + 1, head, tuple(states), source, tuple(schemas), open_transactions
    )


def _folded(
    log: TopicLog, ahead: ReadAhead | None
) -> tuple[dict[str, _Fold], list[SchemaEvent], dict[str, int], str]:
    """Return each living subscription, all events of schemas, the groups in which unfinished
    transactions were prepared or decided, and a description of the source."""
    try:
        if ahead is not None and log.goes_on_from(ahead.identity):
            cursors, source = ahead.standings, f"what was read ahead through group {ahead.group}"
        else:
            cursors = _cursors(log)
            since = min(standing.group for standing in cursors.values())
            source = f"cursors and the log after group {since}"
    except _Unusable as why:
        cursors, source = {}, f"{WHOLE_LOG} ({why})"
    except OSError as error:
        raise StoreError(f"{log.path} can't be read: {error}") from error
    try:
        incarnations, schemas, prepared = _incarnations_of(log)
        folds = _begin(cursors, incarnations)
        for fold in folds.values():
            # Retention may remove messages that are owed to no subscription but aren't settled.
            fold.standing.floor = max(fold.standing.floor, log.first_sequence)
        _add_settlements(folds, log)
    except (OSError, pa.ArrowException) as error:
        raise StoreError(f"{log.path} can't be read: {error}") from error
    return folds, schemas, prepared, source


def _cursors(log: TopicLog) -> dict[str, Standing]:
    """Read Spark's rows. Raises _Unusable when there are none, or they don't fit this log."""
    uri, options = log.cursors
    try:
        cursors = delta_table(uri, options)
        if cursors is None:
            raise _Unusable("there is no table cursors")
        table = cursors.to_pyarrow_table(columns=list(CURSOR_COLUMNS))
    except library_errors(OSError, ValueError) as error:
        raise _Unusable(f"the table cursors can't be read: {error}") from error
    for name, kind in CURSOR_COLUMNS.items():
        if table.schema.field(name).type != kind:
            raise _Unusable(f"{name} of cursors is {table.schema.field(name).type}, not {kind}")
    rows = table.to_pylist()
    if not rows:
        raise _Unusable("the table cursors is empty")
    version, group = max(r["log_version"] for r in rows), max(r["group"] for r in rows)
    if version > log.version or group > log.journal_version:
        raise _Unusable(
            f"cursors are of log version {version} and group {group}, "
            f"the log is at {log.version} and {log.journal_version}"
        )
    return {
        r["subscription"]: Standing(
            r["group"],
            r["floor"],
            _bitmap(r["subscription"], r["settled"]),
            _failures(r["subscription"], r["failures"]),
            _bitmap(r["subscription"], r["lost"]),
        )
        for r in rows
    }


def _bitmap(subscription: str, data: bytes | None) -> BitMap64:
    if data is None:
        raise _Unusable(f"cursors doesn't say which messages of {subscription} were lost")
    try:
        return BitMap64.deserialize(data)
    except (ValueError, TypeError) as error:
        raise _Unusable(f"a bitmap of {subscription} is damaged: {error}") from error


def _failures(subscription: str, rows: list[dict[str, int]] | None) -> dict[int, Failures]:
    if rows is None:
        raise _Unusable(f"cursors doesn't say which messages of {subscription} failed before")
    return {row["sequence"]: Failures(row["failures"], row["group"]) for row in rows}


def _begin(
    cursors: dict[str, Standing], incarnations: "dict[str, _Incarnation]"
) -> dict[str, _Fold]:
    """Make a fold for each living subscription, from its cursor or from its first event.

    All events are read, also because a cursor doesn't have the whole definition.
    """
    folds = {}
    for name, incarnation in incarnations.items():
        standing, began = cursors.get(name), incarnation.began
        if standing is None or standing.group < began.group:
            standing = Standing(began.group, began.floor)
        folds[name] = _Fold(standing, incarnation)
    return folds


def _incarnations_of(
    log: TopicLog,
) -> tuple[dict[str, _Incarnation], list[SchemaEvent], dict[str, int]]:
    """Return two events of each living subscription: the one that began its incarnation, and the
    last one. Other events are skipped as columns, however many there are. Also return all events of
    schemas, and the groups of open transactions."""
    schemas: list[SchemaEvent] = []
    began: dict[str, _Event] = {}
    last: dict[str, _Event] = {}
    events = tables(log.parquets(topic_log_schema.SUBSCRIPTION, 0), _EVENT_COLUMNS)
    wanted_rows, prepared = _wanted(log)
    for table, wanted in zip(events, wanted_rows, strict=True):
        for row in table.filter(pa.array(wanted)).to_pylist():
            if row["event"] == SubscriptionEvent.SCHEMA:
                schemas.append(_schema_event(row))
                continue
            event = _Event(
                row["group"],
                _known(row["event"], row["subscription"], log),
                row["floor"],
                Definition(row["topic"], row["shared"], row["selector"], row["no_local"]),
                bool(row.get("paused")),
                row.get("policy") or "",
                _made(row.get("origin"), row.get("created_by"), log),
            )
            for latest in (last, began) if event.what in BEGINNINGS else (last,):
                known = latest.get(row["subscription"])
                if known is None or event.order >= known.order:
                    latest[row["subscription"]] = event
    lives = {
        name: _Incarnation(began[name], event)
        for name, event in last.items()
        if event.what != SubscriptionEvent.DELETED
    }
    return lives, sorted(schemas, key=lambda one: one.group), prepared


def _schema_event(row: dict[str, Any]) -> SchemaEvent:
    at = int(row["recorded_at"].timestamp() * 1_000_000)
    record = SchemaRecord(row["topic"], row["policy"], row["floor"], row["by"] or "")
    return SchemaEvent(record, row["group"], at)


def _wanted(log: TopicLog) -> tuple[list[Flags], dict[str, int]]:
    """Return which events matter, for each table of them, and which transactions are open."""
    events = list(tables(log.parquets(topic_log_schema.SUBSCRIPTION, 0), _ORDER_COLUMNS))
    if not events:
        return [], {}
    cuts = np.cumsum([table.num_rows for table in events])[:-1]
    all_ = pa.concat_tables(events)
    return np.split(latest_events(all_), cuts), open_of(all_)


def latest_events(table: pa.Table) -> Flags:
    """Return which of all events (columns `group`, `subscription`, `event`) may be the last of a
    living subscription, or the last that began its incarnation: all events of that one's group, and
    unknown events."""
    events = table["event"]
    begins = pc.is_in(events, value_set=_BEGINS).to_numpy()
    known = pc.is_in(events, value_set=_KNOWN).to_numpy()
    transactions = of_transactions(events)
    names = table["subscription"].combine_chunks().dictionary_encode()
    of = names.indices.to_numpy()
    group = table["group"].to_numpy()
    found = np.zeros(table.num_rows, np.bool_)
    for which in (known, begins):
        last = _last(of[which], group[which], len(names.dictionary))
        found |= which & (group == last[of])
    # Within one group a beginning comes last, a deletion before it, as in `_Event.order`.
    deletes = pc.equal(events, _DELETED).to_numpy()
    order = 4 * group + np.where(begins, 2, deletes)
    gone = _last(of[known], order[known], len(names.dictionary)) % 4 == 1
    return np.asarray((found & ~gone[of]) | ~(known | transactions), np.bool_)


def _last(of: Int64s, when: Int64s, count: int) -> Int64s:
    """Return the greatest value of `when` for each of `count` indices in `of`."""
    last = np.full(count, -1, np.int64)
    np.maximum.at(last, of, when)
    return last


def _made(origin: str | None, user: str | None, log: TopicLog) -> Made:
    """Return how a subscription was made; rows of earlier versions don't tell the user."""
    try:
        return Made(Origin.CLIENT if origin is None else Origin(origin), user or "")
    except ValueError:
        raise StoreError(
            f"{log.path} has a subscription of the unknown origin {origin!r}: "
            "a later version of the program wrote it. Start that one"
        ) from None


def _known(word: str, subscription: str, log: TopicLog) -> SubscriptionEvent:
    """Return the event. Raises StoreError for an unknown one: after it, no code here can tell what
    the subscription is owed."""
    try:
        return SubscriptionEvent(word)
    except ValueError:
        raise StoreError(
            f"{log.path} says {word!r} of {subscription}, which is no event that we know: a later "
            "version of the program wrote it. Start that one"
        ) from None


def _add_settlements(folds: dict[str, _Fold], log: TopicLog) -> None:
    if not folds:
        return
    standings = {name: fold.standing for name, fold in folds.items()}
    settlements = Settlements({name: (one.group, one.floor) for name, one in standings.items()})
    since = min(one.group for one in standings.values())
    for table in tables(log.parquets(topic_log_schema.SETTLEMENT, since), COLUMNS):
        settlements.add(table)
    for name, one in settlements.sums().items():
        standings[name].add(one)
    for one in standings.values():
        one.trim()
