"""Check that Spark's tables lie beside the log of the gateway that is asked: results of one home
must not be sent to another home's gateway, nor be shown together with its answers."""

from pyspark.sql import SparkSession

from distributary.pipeline.log.log_identity import LogIdentity
from distributary.pipeline.transforms.schema.session_files import content, is_there


def require_own(spark: SparkSession, folder: str, identity: LogIdentity, *, beside: bool) -> None:
    """Raise StoreError when the `topic_log` in a folder of tables isn't the gateway's.

    `beside`: there must be one; else tables that lie by themselves are taken as they are.
    """
    log = f"{folder}/topic_log"
    entry = content(spark, f"{log}/_delta_log/{identity.version:020d}.json")
    if entry is None and not beside and not is_there(spark, f"{log}/_delta_log"):
        return
    identity.require(log, entry)
