"""Who billed what: a report from the tables of a gateway's home.

distributary jobs materialize --home HOME
spark-submit report.py HOME
"""

import sys

from distributary import register, session


def main(home: str) -> None:
    spark = session()
    register(spark, home)
    spark.sql("""
        SELECT consumer, outcome, count(*) AS orders, sum(properties['cents'].long) AS cents
        FROM messages JOIN acks USING (sequence)
        WHERE subscription = 'global/billing' AND final
        GROUP BY consumer, outcome
        ORDER BY consumer, outcome
    """).show(truncate=False)
    spark.sql("SELECT subscription, count(*) AS owed FROM pending GROUP BY subscription").show(
        truncate=False
    )


if __name__ == "__main__":
    main(sys.argv[1])
