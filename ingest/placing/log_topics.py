"""Which topics a log has: those of its messages, its subscriptions and its schemas. Read from its
table by who owns the home, so that nothing changes meanwhile."""

from typing import Final

import msgspec

from distributary.pipeline.errors import StoreError
from distributary.pipeline.model.subscription import SubscriptionEvent
from distributary.pipeline.tables.arrow import topic_log_schema
from distributary.pipeline.tables.arrow.library_errors import library_errors
from distributary.pipeline.tables.topic_log.table_view import open_view
from distributary.pipeline.tables.verify.home_info import take_parts
from distributary.pipeline.tables.verify.home_parts import HomeParts

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
    if found.table is not None:
        topics |= _with_schema(parts)
    return LogTopics(frozenset(topics), found.journal.uncommitted, len(found.prepared))


def _with_schema(parts: HomeParts) -> set[str]:
    view = open_view(parts.store)
    topics: set[str] = set()
    for file in view.of(topic_log_schema.SUBSCRIPTION):
        topics |= _in_file(parts, file.path)
    return {topic for topic in topics if not _WILD & set(topic)}


def _in_file(parts: HomeParts, path: str) -> set[str]:
    try:
        with parts.store.parquet(path) as parquet:
            rows = parquet.read(columns=["event", "topic"], use_threads=False).to_pylist()
    except library_errors(OSError) as error:
        raise StoreError(f"{path} can't be read: {error}") from error
    return {row["topic"] for row in rows if row["event"] == SubscriptionEvent.SCHEMA}
