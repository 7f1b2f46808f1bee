"""Messages in the history that a claim (a topic, perhaps with a selector) finds from a place on.

The gateway decides what it delivers by reading its log. What is found here by the tables is told
before something is done, or as a hint where to look.
"""

from dataclasses import dataclass
from datetime import UTC, datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual alias in Spark code

from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.log.log_position import AtEnd, AtSequence, AtTime, Place
from distributary.pipeline.transforms.past.moment import moment
from distributary.pipeline.transforms.schema.claimed_topics import is_of
from distributary.pipeline.transforms.schema.home_tables import Tables
from distributary.pipeline.transforms.selector.selecting import selects


@dataclass(frozen=True, slots=True)
class Stretch:
    """The messages of `start .. stop - 1`, of all topics, as far as the tables have them all.

    `known_from` is the first sequence from which on `messages` has every one, `log_from` the first
    that topic_log still has. `group` is the last group that is looked at.
    """

    start: int
    stop: int
    known_from: int
    log_from: int
    group: int


def stretch(tables: Tables, place: Place) -> Stretch:
    """From a place to the end of the tables. Raises InvalidRequest when there is nothing."""
    group = moment(tables, None).group
    messages = tables.messages.where(F.col("group") <= group)
    [(stop,)] = messages.agg(F.max("sequence") + 1).collect()
    if stop is None:
        raise InvalidRequest("The tables have no messages: run `distributary jobs materialize`.")
    start = _first(messages, place, stop)
    found = messages.where(F.col("sequence") >= start)
    counts = found.agg(F.count("*").alias("count"), F.min("sequence").alias("low"))
    log = tables.topic_log.where(F.col("record") == "message")
    first = log.agg(F.min("sequence").alias("log_from"))
    [row] = counts.crossJoin(first).collect()
    known_from = start if row.low is None else row.low
    if row["count"] != stop - known_from:
        known_from = _dense_from(found.select("sequence"), stop)
    return Stretch(start, stop, known_from, stop if row.log_from is None else row.log_from, group)


def matches(tables: Tables, topic: str, selector: str | None, within: Stretch) -> DataFrame:
    """The rows of `messages` there that the claim selects, and those of which the table can't say
    it.

    Cost: the files of the stretch, of each row group the topic; of the rest what the selector asks
    for.
    """
    mine = (F.col("sequence") >= within.start) & (F.col("group") <= within.group) & is_of(topic)
    return tables.messages.where(mine).where(selects(selector))


def _first(messages: DataFrame, place: Place, stop: int) -> int:
    """The first sequence at a place, as the gateway finds it."""
    match place:
        case AtSequence(sequence):
            return sequence
        case AtEnd():
            return stop
        case AtTime(time):
            at = _moment_of(time)
            later = messages.where(
                (F.col("day") >= F.lit(at.date())) & (F.col("published_at") >= F.lit(at))
            )
            [(found,)] = later.agg(F.min("sequence")).collect()
            return stop if found is None else int(found)


def _moment_of(time: int) -> datetime:
    try:
        seconds, rest = divmod(time, 10**6)
        return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest)
    except (ValueError, OverflowError, OSError):
        raise InvalidRequest(f"{time} microseconds since 1970 lie beyond the calendar") from None


def _dense_from(sequences: DataFrame, stop: int) -> int:
    """The sequence behind the last one that is missing below `stop`."""
    chunks = sequences.groupBy(F.shiftright("sequence", 12).alias("chunk")).agg(
        F.count("*").alias("count")
    )
    full = {row.chunk: row["count"] for row in chunks.collect()}
    chunk, left = (stop - 1) >> 12, ((stop - 1) & 4095) + 1
    while full.get(chunk, 0) == left:
        chunk, left = chunk - 1, 4096
    here = sequences.where(F.shiftright("sequence", 12) == chunk).orderBy("sequence").collect()
    wanted = (chunk << 12) + left - 1
    for row in reversed(here):
        if row.sequence != wanted:
            break
        wanted -= 1
    return wanted + 1
