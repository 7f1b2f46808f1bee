"""Places in the log and how much lies behind them, read from the gateway's table: what an
operation will do is said in numbers before it is done.

It is as of the table's last commit, about a second behind the gateway.
"""

import time
from dataclasses import dataclass

from distributary.pipeline.log.log_position import AtEnd, AtSequence, AtTime, place
from distributary.pipeline.model.topic_pattern import matches
from distributary.pipeline.tables.delta.store import Store
from distributary.pipeline.tables.reading import table_statistics
from distributary.pipeline.tables.topic_log.table_view import again_if_replaced, open_view
from distributary.pipeline.tables.topic_log.topic_log import TIME_MAX
from distributary.pipeline.tables.upkeep.table_upkeep import day_of


@dataclass(frozen=True, slots=True)
class LogPlace:
    """A place: its sequence, how many messages of the topic lie from there on in the table, and the
    sequence after the last one in the table."""

    sequence: int
    messages: int
    table_end: int


def find(store: Store, topic: str, said: str) -> LogPlace:
    """The place that is meant, and what of a topic lies behind it. Raises InvalidRequest for what
    is no place, StoreError when the table can't be read."""
    meant = place(said.strip(), time.time_ns() // 1_000)

    def look() -> LogPlace:
        state = open_view(store).state
        files = table_statistics.messages_of(state.files)
        match meant:
            case AtEnd():
                return LogPlace(state.sequence, 0, state.sequence)
            case AtSequence(sequence):
                at = sequence
            case AtTime(moment):
                found = table_statistics.first_at(
                    store, files, moment, day=day_of(min(moment, TIME_MAX))
                )
                at = state.sequence if found is None else found
        volumes = table_statistics.volumes(store, files, at)
        count = sum(part.messages for part in volumes if matches(topic, part.topic))
        return LogPlace(at, count, state.sequence)

    return again_if_replaced(store, look)
