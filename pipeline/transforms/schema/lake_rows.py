"""The tables of a lake's logs, and rows of several logs together, with the log as first column.

Rule: each log is queried by itself, so numbers of one log are never compared with another's.
"""

import warnings
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Final, TypeAlias, TypeVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual alias in Spark code

from distributary.pipeline.errors import InvalidRequest, NotInLog
from distributary.pipeline.log_names import PLACEMENT, SERVED, log_below
from distributary.pipeline.transforms.schema.home_tables import Tables, find_tables
from distributary.pipeline.transforms.schema.session_files import content, hadoop_address, is_there

#: The column with the log of a row.
LOG: Final = "log"
#: The same column of typed rows, in which our columns begin with `_`. A table of one log lacks it:
#: a schema's field `_log` gets another name where rows of several logs are united (`beside`).
TYPED_LOG: Final = "_log"

#: The id or topic that a name means in the tables of one log, and its rows.
Found: TypeAlias = tuple[str, DataFrame]
Answer = TypeVar("Answer")


def lake_tables(spark: SparkSession, place: str) -> dict[str, Tables]:
    """The tables of each log of a lake that has tables, `main` first; empty for a home that is no
    lake. A log that was served and has no tables yet is left out, with a warning that names it.
    Raises InvalidRequest when no log has tables, StoreError for a placement that can't be
    understood.
    """
    root = hadoop_address(place)
    where = f"{root}/{PLACEMENT}"
    said = content(spark, where)
    if said is None:
        return {}
    # Executors have no msgspec, and only the driver comes here.
    from distributary.pipeline.lake.placement_text import read_placement  # noqa: PLC0415

    homes = {log: log_below(root, log) for log in read_placement(said, where).logs}
    served = {log: home for log, home in homes.items() if is_there(spark, f"{home}/{SERVED}")}
    found: dict[str, Tables] = {}
    for log, home in served.items():
        try:
            found[log] = find_tables(spark, home)
        except InvalidRequest as error:
            warnings.warn(f"The log {log} is left out: {error}", stacklevel=2)
    if not found:
        raise InvalidRequest(
            f"No log of {place} has tables: run `distributary jobs materialize` first."
        )
    return found


def with_log(rows: DataFrame, log: str, name: str = LOG) -> DataFrame:
    """Rows of one log, with the log as first column."""
    return rows.select(F.lit(log).alias(name), "*")


def of_logs(logs: Mapping[str, DataFrame]) -> DataFrame:
    """The rows of all logs, which have the same columns."""
    return reduce(DataFrame.unionByName, [with_log(rows, log) for log, rows in logs.items()])


def known_in(logs: Mapping[str, Tables], find: Callable[[Tables], Answer]) -> dict[str, Answer]:
    """Return the result of `find` for each log that has the named thing. Raises InvalidRequest if
    no log has it, with the message of each."""
    found: dict[str, Answer] = {}
    absent: list[str] = []
    for log, tables in logs.items():
        try:
            found[log] = find(tables)
        except NotInLog as error:
            absent.append(f"Log {log}: {error}")
    if not found:
        raise InvalidRequest(" ".join(absent))
    return found


def found_in(
    spark: SparkSession,
    place: str,
    find: Callable[[Tables], Found],
    *,
    by_version: bool = False,
    unite: Callable[[Mapping[str, DataFrame]], DataFrame] = of_logs,
) -> DataFrame:
    """Return the rows found in the tables of a home; in a lake those of all logs that have the
    named thing. Raises InvalidRequest if no log has it, with the message of each; if a bare name
    means different ids in the logs; or if rows of several logs are asked for `by_version` of
    topic_log, as each log has versions of its own.
    """
    logs = lake_tables(spark, place)
    if not logs:
        return find(find_tables(spark, place))[1]
    if by_version:
        homes = ", ".join(tables.folder.removesuffix("/tables") for tables in logs.values())
        raise InvalidRequest(
            f"A version of topic_log is one log's, and {place} has several: give a time, or the "
            f"home of one log: {homes}."
        )
    found = known_in(logs, find)
    if len({meant for meant, _ in found.values()}) > 1:
        several = ", ".join(f"{meant} in the log {log}" for log, (meant, _) in found.items())
        raise InvalidRequest(f"That name means several, give an id: {several}.")
    return unite({log: rows for log, (_, rows) in found.items()})
