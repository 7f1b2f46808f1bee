"""Files as a session of Spark sees them: a client of Spark Connect needn't see them itself."""

import re

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

#: Characters of a path that are a pattern to Spark's reader of files.
_GLOB = re.compile(r"([\\{}\[\]*?])")


def hadoop_address(place: str) -> str:
    """The address of a home or a folder in Hadoop: `s3://` is `s3a://` there, `gs://` and
    `abfss://` are the same. Other addresses of Azure are known to jobs alone."""
    at = place.rstrip("/")
    return f"s3a://{at.removeprefix('s3://')}" if at.startswith("s3://") else at


def content(spark: SparkSession, path: str) -> bytes | None:
    """Return a file's bytes; None if there is no file."""
    if not is_there(spark, path):
        return None
    row = spark.read.format("binaryFile").load(_GLOB.sub(r"\\\1", path)).select("content").first()
    return None if row is None else bytes(row.content)


def is_there(spark: SparkSession, path: str) -> bool:
    """Whether there is a file or a folder."""
    try:
        spark.read.format("binaryFile").load(_GLOB.sub(r"\\\1", path)).schema  # noqa: B018
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        return False
    return True
