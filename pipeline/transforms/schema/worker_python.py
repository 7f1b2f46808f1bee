"""Choice of the Python that runs the workers of a session that a user has made."""

import os
import sys

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession


def use_own_python(spark: SparkSession) -> None:
    """In local mode workers are run by the Python that runs here, unless PYSPARK_PYTHON or
    `spark.pyspark.python` says another. Spark's own choice is the `python3` of PATH, which needn't
    have any of our packages. On a cluster nothing is changed: this Python needn't be there."""
    try:
        context = spark.sparkContext
    except PySparkException:  # Spark Connect has no context
        return
    said = os.environ.get("PYSPARK_PYTHON") or spark.conf.get("spark.pyspark.python", None)
    if str(context.master).startswith("local") and not said:
        context.pythonExec = sys.executable
