"""Which topics a log has: those of its messages, its subscriptions and its schemas. Read from its
table by who owns the home, so that nothing changes meanwhile."""

from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from distributary.pipeline.errors import StoreError
from distributary.pipeline.model.subscription import SubscriptionEvent
from distributary.pipeline.tables.arrow import topic_log_schema
from distributary.pipeline.tables.arrow.library_errors import library_errors
from distributary.pipeline.tables.recovery.prepared_events import open_of
from distributary.pipeline.tables.topic_log.table_view import open_view
from distributary.pipeline.tables.verify.home_info import take_parts
from distributary.pipeline.tables.verify.home_parts import HomeParts

_COLUMNS: Final = ["group", "subscription", "event", "topic"]
#: Of a pattern of schemas: it says nothing of one topic.
_WILD: Final = frozenset("*?[")


class LogTopics(msgspec.Struct, frozen=True):
    """`topics` are words of the log, patterns of subscriptions among them. Of `uncommitted` groups
    of the journal nothing is known, nor where `prepared` transactions will publish."""

    topics: frozenset[str]
    uncommitted: int
    prepared: int


def topics_of(parts: HomeParts) -> LogTopics:
    """What the table of this home has. Raises StoreError for what can't be read."""
    found = take_parts(parts)
    topics = {line.topic for line in found.topics} | {line.topic for line in found.subscriptions}
    events = [] if found.table is None else _events(parts)
    topics |= {topic for one in events for topic in _with_schema(one)}
    prepared = len(open_of(pa.concat_tables(events))) if events else 0
    return LogTopics(frozenset(topics), found.journal.uncommitted, prepared)


def _with_schema(events: pa.Table) -> set[str]:
    of_schemas = pc.equal(events["event"], pa.scalar(SubscriptionEvent.SCHEMA.value))
    topics = pc.unique(events.filter(of_schemas)["topic"]).to_pylist()
    return {topic for topic in topics if not _WILD & set(topic)}


def _events(parts: HomeParts) -> list[pa.Table]:
    files = open_view(parts.store).of(topic_log_schema.SUBSCRIPTION)
    return [_in_file(parts, file.path) for file in files]


def _in_file(parts: HomeParts, path: str) -> pa.Table:
    try:
        with parts.store.parquet(path) as parquet:
            return parquet.read(columns=_COLUMNS, use_threads=False)
    except library_errors(OSError) as error:
        raise StoreError(f"{path} can't be read: {error}") from error
