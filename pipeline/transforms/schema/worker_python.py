"""Choice of the Python that runs the workers of a session that a user has made."""

import os
import sys

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession


def use_own_python(spark: SparkSession) -> None:
    """In local mode run workers by this process's Python, unless PYSPARK_PYTHON or
    `spark.pyspark.python` names another. Spark's own choice is the `python3` of PATH, which may
    lack our packages. On a cluster nothing is changed, as this Python may not exist there."""
    try:
        context = spark.sparkContext
    except PySparkException:  # Spark Connect has no context
        return
    said = os.environ.get("PYSPARK_PYTHON") or spark.conf.get("spark.pyspark.python", None)
    if str(context.master).startswith("local") and not said:
        context.pythonExec = sys.executable
