"""The tables and views of a home by name, for plain SQL: `SELECT * FROM stuck`."""

from pyspark.sql import SparkSession

from distributary.pipeline.management.live_state import Live
from distributary.pipeline.transforms.schema.deliveries import deliveries
from distributary.pipeline.transforms.schema.home_tables import SCHEMAS, Tables, find_tables
from distributary.pipeline.transforms.views.backlog import backlog
from distributary.pipeline.transforms.views.consumers import consumers
from distributary.pipeline.transforms.views.pending import pending_of_all
from distributary.pipeline.transforms.views.stuck import stuck, stuck_summary

#: The views, beside the tables of SCHEMAS.
VIEWS = ("pending", "backlog", "deliveries", "consumers", "stuck", "stuck_summary")


def register(spark: SparkSession, place: str, live: Live | None = None) -> Tables:
    """Make a temporary view of every table and every view in `place`, which is the folder of
    Spark's tables or the home above it; returns the tables.

    The views read the tables as they are when they are asked. What `live` says stays as it was
    when a gateway was asked, and selectors are those of now: a new selector ends a query with an
    error that says to register again. Raises InvalidRequest when there are no tables.
    """
    tables = find_tables(spark, place)
    for name in SCHEMAS:
        tables.table(name).createOrReplaceTempView(name)
    views = {
        "pending": pending_of_all(tables),
        "backlog": backlog(tables),
        "deliveries": deliveries(tables),
        "consumers": consumers(tables),
        "stuck": stuck(tables, live),
        "stuck_summary": stuck_summary(tables, live),
    }
    for name in VIEWS:
        views[name].createOrReplaceTempView(name)
    return tables
