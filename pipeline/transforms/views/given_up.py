"""Dead letters: where each comes from, why it was given up, and after how many attempts."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual alias in Spark code

from distributary.pipeline.amqp import dead_letter_keys
from distributary.pipeline.model.address import PREFIXES, Kind
from distributary.pipeline.transforms.schema.home_tables import Tables


def dead_letters(tables: Tables) -> DataFrame:
    """One row per copy of a message that was given up: its own `sequence`, `topic` (a queue),
    `published_at` and `message_id`; the `subscription` that gave it up, the `origin_topic` and
    `origin_sequence` of the message itself, the `reason`, the `attempts`, and `given_up_at`.

    They are the annotations that the gateway gave the copy, which stay when it is consumed. Copies
    that were materialized before `messages` had annotations aren't here.

    Cost: of `messages` the files of queues, and of those the annotations.
    """
    copies = tables.messages.where(F.col("topic").startswith(PREFIXES[Kind.QUEUE])).where(
        _said(dead_letter_keys.SEQUENCE, "long").isNotNull()
    )
    return copies.select(
        *("sequence", "topic", "published_at", "message_id"),
        _said(dead_letter_keys.SUBSCRIPTION, "text").alias("subscription"),
        _said(dead_letter_keys.TOPIC, "text").alias("origin_topic"),
        _said(dead_letter_keys.SEQUENCE, "long").alias("origin_sequence"),
        _said(dead_letter_keys.REASON, "text").alias("reason"),
        _said(dead_letter_keys.ATTEMPTS, "long").cast("int").alias("attempts"),
        F.timestamp_millis(_said(dead_letter_keys.AT, "long")).alias("given_up_at"),
    )


def _said(annotation: str, kind: str) -> Column:
    return F.try_element_at("message_annotations", F.lit(str(annotation))).getField(kind)
