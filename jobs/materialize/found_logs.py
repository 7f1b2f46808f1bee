"""The logs that the job brings into tables, and the check that each is one."""

from delta.tables import DeltaTable
from pyspark.sql import SparkSession

from distributary.jobs.materialize.side_by_side import Logs
from distributary.jobs.session.job_options import locations as locations_of
from distributary.jobs.tables.delta_files import require_jvm
from distributary.jobs.tables.folders import local
from distributary.jobs.tables.lake_homes import whole_lake
from distributary.pipeline.errors import InvalidRequest

#: Columns by which a topic_log is recognised.
LOG_COLUMNS = {"record", "day", "group", "topic", "sequence", "message", "sequences", "floor"}


def of_logs(
    home: str | None, log: str | None, tables: str | None, checkpoint: str | None, *, query: str
) -> Logs:
    """Return the job's places: of a lake that is given by its home alone those of each log with a
    topic_log, by the logs' names; else one, whose log has no name. Raises InvalidRequest, before a
    JVM starts, where there is no topic_log."""
    found = {
        name: locations_of(one.root, one.topic_log, None, None, query=query)
        for name, one in whole_lake(home, log, tables, checkpoint).items()
    }
    if found:
        return found
    one = locations_of(home, log, tables, checkpoint, query=query)
    path = local(one.log)
    if path is not None and not (path / "_delta_log").is_dir():
        raise InvalidRequest(_no_log(one.log))
    return {"": one}


def require_log(spark: SparkSession, log: str) -> None:
    """Raise InvalidRequest unless there is a topic_log at this place, and a JVM to read it by."""
    require_jvm()
    if not DeltaTable.isDeltaTable(spark, log):
        raise InvalidRequest(_no_log(log))
    lacking = LOG_COLUMNS - set(spark.read.format("delta").load(log).columns)
    if lacking:
        raise InvalidRequest(
            f"{log} isn't a topic_log: it has no column {min(lacking)!r}. Name the table that "
            "`distributary serve` writes."
        )


def _no_log(log: str) -> str:
    return f"There is no topic_log at {log}: start `distributary serve` with this home first."
