"""Whether Spark's tables lie beside the log of the gateway that is asked: what is found out in one
home must not be told to the gateway of another, nor shown together with what that one says."""

import re

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from distributary.pipeline.log.log_identity import LogIdentity

#: What a path has another meaning by where Spark reads files.
_GLOB = re.compile(r"([\\{}\[\]*?])")


def require_own(spark: SparkSession, folder: str, identity: LogIdentity, *, beside: bool) -> None:
    """Raise StoreError when the `topic_log` in a folder of tables isn't the one a gateway said.

    `beside`: there must be one; else tables that lie by themselves are taken as they are.
    """
    log = f"{folder}/topic_log"
    entry = _content(spark, f"{log}/_delta_log/{identity.version:020d}.json")
    if entry is None and not beside and not _is_there(spark, f"{log}/_delta_log"):
        return
    identity.require(log, entry)


def _content(spark: SparkSession, path: str) -> bytes | None:
    """What is in a file, None if there is none. Spark reads it, so a client of Spark Connect
    needn't see the file itself."""
    if not _is_there(spark, path):
        return None
    row = spark.read.format("binaryFile").load(_GLOB.sub(r"\\\1", path)).select("content").first()
    return None if row is None else bytes(row.content)


def _is_there(spark: SparkSession, path: str) -> bool:
    try:
        spark.read.format("binaryFile").load(_GLOB.sub(r"\\\1", path)).schema  # noqa: B018
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        return False
    return True
