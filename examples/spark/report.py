"""Report of each consumer's bills, from the tables of a gateway's home.

distributary jobs materialize --home HOME
spark-submit report.py HOME
"""

import sys

from pyspark.sql import functions
from pyspark.sql.functions import col

from distributary import session, tables


def main(home: str) -> None:
    lake = tables(session(), home)
    orders = lake.messages.select("sequence", col("properties")["cents"]["long"].alias("cents"))
    settled = lake.acks.where("subscription = 'global/billing' AND final")
    (
        orders.join(settled, "sequence")
        .groupBy("consumer", "outcome")
        .agg(
            functions.count("sequence").alias("orders"),
            functions.sum("cents").alias("cents"),
        )
        .orderBy("consumer", "outcome")
        .show(truncate=False)
    )


if __name__ == "__main__":
    main(sys.argv[1])
