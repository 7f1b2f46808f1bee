"""Topics of a log: of its messages, its subscriptions and its schemas. They are read from its table
by the home's owner, so that nothing changes meanwhile."""

from typing import Final

import msgspec

from distributary.pipeline.errors import StoreError
from distributary.pipeline.model.subscription import SubscriptionEvent
from distributary.pipeline.tables.arrow import topic_log_schema
from distributary.pipeline.tables.arrow.library_errors import library_errors
from distributary.pipeline.tables.topic_log.table_view import open_view
from distributary.pipeline.tables.verify.home_info import take_parts
from distributary.pipeline.tables.verify.home_parts import HomeParts

#: Characters of a schema's pattern, which names no single topic.
_WILD: Final = frozenset("*?[")


class LogTopics(msgspec.Struct, frozen=True):
    """`topics` are topics and patterns as the log writes them. Topics of `uncommitted` groups of
    the journal aren't known, nor those to which `prepared` transactions will publish."""

    topics: frozenset[str]
    uncommitted: int
    prepared: int


def topics_of(parts: HomeParts) -> LogTopics:
    """Return the topics in the table of this home. Raises StoreError if it can't be read."""
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
