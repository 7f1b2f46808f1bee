"""Points in the history of a log: a time or a version of `topic_log` as a group.

All that the tables say is said of groups, and a group is whole or isn't there. So a state as of a
group is one that there was; how old it may be, rows alone decide, and no version of any table.
"""

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from typing import TypeAlias

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual alias in Spark code

from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.transforms.schema.home_tables import Tables

#: A time (UTC if it doesn't say otherwise), a version of `topic_log`, or None: as of now.
AsOf: TypeAlias = datetime | int | None

#: Above every group.
_NO_GROUP = 2**62


@dataclass(frozen=True, slots=True)
class Moment:
    """As of the end of `group`. `said` is how it was asked for; `time` the time that it stands for,
    None if that is now; `newest`: the tables have nothing later."""

    group: int
    said: str
    time: datetime | None
    newest: bool

    @property
    def now(self) -> Column:
        """Its time, as a column."""
        return F.current_timestamp() if self.time is None else F.lit(self.time)


@dataclass(frozen=True, slots=True)
class _Versions:
    """Versions of the log that all tables have: whole ones from the first to the last, and the last
    group of the last one. All 0 if there are none yet."""

    first: int
    last: int
    group: int


def moment(tables: Tables, as_of: AsOf) -> Moment:
    """The moment that is meant. Raises InvalidRequest when the tables don't have it."""
    there = _versions(tables)
    if as_of is None:
        return Moment(there.group, "now", None, newest=True)
    if isinstance(as_of, datetime):
        time = as_of if as_of.tzinfo is not None else as_of.replace(tzinfo=UTC)
        group = min(_last_group(tables, time), there.group)
        return Moment(group, time.isoformat(), time, newest=group == there.group)
    return _of_version(tables, as_of, there)


def _versions(tables: Tables) -> _Versions:
    """`cursors` are written last, so what they say is in all tables is."""
    [(last,)] = tables.cursors.agg(F.max("log_version")).collect()
    versions = tables.log_versions
    if last is not None:
        versions = versions.where(F.col("log_version") <= last)
    newest = F.max(F.struct("log_version", "group")).alias("newest")
    [row] = versions.agg(F.min("log_version").alias("first"), newest).collect()
    if row.newest is None:
        return _Versions(0, 0, 0)
    return _Versions(row.first, last or row.newest.log_version, row.newest.group)


def _of_version(tables: Tables, version: int, there: _Versions) -> Moment:
    if version > there.last:
        raise InvalidRequest(
            f"Version {version} of topic_log isn't in the tables yet, which have {there.last}: "
            "run `distributary jobs materialize` first."
        )
    rows = (
        tables.log_versions.where(F.col("log_version") <= version)
        .orderBy(F.col("log_version").desc())
        .limit(1)
        .collect()
    )
    if not rows:
        raise InvalidRequest(
            f"What version {version} of topic_log ended with isn't known: "
            f"the tables begin with version {there.first}."
        )
    [row] = rows
    at = row.committed_at.astimezone(UTC)
    return Moment(row.group, f"version {version}", at, newest=row.group == there.group)


def _last_group(tables: Tables, time: datetime) -> int:
    """The last of the groups before the first one that says anything later than that time."""
    day = F.lit(time.astimezone(UTC).date())
    says: list[tuple[DataFrame, str]] = [
        (tables.messages.where(F.col("day") >= day), "published_at"),
        (tables.acks.where(F.col("day") >= day), "settled_at"),
        (tables.subscriptions, "recorded_at"),
    ]
    with suppress(InvalidRequest):  # an older release wrote these tables
        says.append((tables.schemas, "recorded_at"))
    firsts = [
        rows.where(F.col(said) > F.lit(time)).agg(F.min("group").alias("group"))
        for rows, said in says
    ]
    [(first,)] = reduce(DataFrame.unionByName, firsts).agg(F.min("group")).collect()
    return _NO_GROUP if first is None else int(first) - 1
