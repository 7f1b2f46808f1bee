"""Rows that retention took from the log before the tables had them: reported, never skipped."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name

from distributary.jobs.materialize.slices import Log
from distributary.jobs.tables.delta_files import transaction
from distributary.jobs.tables.spark_tables import SparkTable
from distributary.pipeline.errors import StoreError

#: The application of topic_log's transactions that have the next sequence.
SEQUENCE = "sequence"


def require_no_gap(
    log: Log, rows: DataFrame, tables: dict[str, SparkTable], *, known: bool
) -> int | None:
    """Look for a gap between the tables and the log. Sequences are dense, so missing messages are
    certain; of settlements only the groups that may be incomplete are known.

    `rows` are the log as of now. Return the first sequence of the log when messages before it are
    gone, None when none are. Raises StoreError when tables that have rows lack some that are gone,
    unless that is `known`.
    """
    messages = tables["messages"]
    new = (F.col("record") == "message") & (F.col("group") > messages.reached)
    sequence = rows.where(new).agg(F.min("sequence")).collect()[0][0]
    if sequence is None:  # no message is left
        _, said = transaction(log.spark, log.path, SEQUENCE)
        sequence = said or 0
    last = messages.rows().agg(F.max("sequence")).collect()[0][0]
    expected = 0 if last is None else last + 1
    if sequence <= expected:
        return None
    if messages.reached and not known:
        raise StoreError(
            f"The log goes on with message {sequence:,}, but the tables end before message "
            f"{expected:,}: messages {expected:,} to {sequence - 1:,} were removed by the log's "
            f"retention before the job had seen them, and so may be settlements of groups from "
            f"{tables['acks'].reached + 1:,} on. Nothing of them was owed to a durable "
            "subscription. To go on without them: --restart-from-snapshot."
        )
    return int(sequence)
