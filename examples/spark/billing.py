"""Billing as a Spark query: one consumer of the subscription `billing` beside others.

    spark-submit billing.py FOLDER

It takes all orders that are owed now, each once into a Delta table under FOLDER, and ends. A query
accepts its batch as a whole, so orders that it can't bill go to a table of their own, while a
worker would reject them. Killed at any moment, it goes on from its checkpoint.
"""

import os
import sys

from pyspark.sql import DataFrame
from pyspark.sql.functions import col

from distributary import register_source, session
from distributary.jobs.subscription.drain import append_once


def main(folder: str) -> None:
    spark = session()
    register_source(spark)
    orders = (
        spark.readStream.format("subscription")
        .option("gateway", os.environ.get("AMQP_URL", "amqp://127.0.0.1:5672"))
        .option("subscription", "global/billing")
        .load()
        .select(
            "sequence",
            "published_at",
            col("body_text").alias("item"),
            col("properties")["order"]["long"].alias("order"),
            col("properties")["cents"]["long"].alias("cents"),
        )
    )

    def bill(batch: DataFrame, number: int) -> None:
        batch.persist()
        append_once(batch.where("cents >= 0"), number, f"{folder}/bills")
        append_once(batch.where("cents < 0 OR cents IS NULL"), number, f"{folder}/refused")
        batch.unpersist()

    query = (
        orders.writeStream.foreachBatch(bill)
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)  # or processingTime="2 seconds", to run without end
        .start()
    )
    query.awaitTermination()
    for table in ("bills", "refused"):
        rows = spark.read.format("delta").load(f"{folder}/{table}")
        print(table, sorted(row.order for row in rows.select("order").collect()))


if __name__ == "__main__":
    main(sys.argv[1])
