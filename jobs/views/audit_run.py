"""An audit of a home's tables in an existing session: for programs and notebooks, also for clients
of Spark Connect, where there is no JVM. `audit_job` is the command."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import SparkSession

from distributary.pipeline.transforms.audit import audit_checks, audit_views
from distributary.pipeline.transforms.audit.audit_checks import Check, Result
from distributary.pipeline.transforms.audit.audit_views import Bounds
from distributary.pipeline.transforms.schema.home_tables import find_tables


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of the audit. `log`: topic_log's address if it isn't in the folder of tables."""

    tables: str
    log: str = ""
    names: Sequence[str] = audit_checks.NAMES
    since: datetime | None = None
    write: str | None = None  #: a folder in which all violations are kept, a table for each check
    queue_turns: bool = False  #: whether no queue's consumer has a selector of its own


def prepared(spark: SparkSession, settings: Settings) -> tuple[SparkSession, Bounds]:
    """Return a session with all the views, and the bounds within which they are complete: the
    checks' SQL can be run there by hand, too. Raises InvalidRequest when there is no table."""
    pinned = audit_views.pin(find_tables(spark, settings.tables), settings.log)
    return audit_views.register(pinned, since=settings.since, queue_turns=settings.queue_turns)


def build(spark: SparkSession, settings: Settings) -> Iterator[Result]:
    """Make the checks, one after the other. Raises InvalidRequest when there is no such check, or
    no table."""
    wanted = [audit_checks.check(name) for name in settings.names]
    counts: dict[str, int] = {}
    mine, _ = prepared(spark, settings)
    for one in wanted:
        yield made(mine, one, settings, counts)


def made(spark: SparkSession, one: Check, settings: Settings, counts: dict[str, int]) -> Result:
    """Make one check in a session that is `prepared`; `counts` is for the checks of one audit."""
    result = audit_checks.make(spark, one, counts)
    if settings.write is not None and result.violations:
        rows = audit_checks.violations(spark, one)
        rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(
            f"{settings.write.rstrip('/')}/{one.name}"
        )
    return result


def summary(results: Sequence[Result]) -> str:
    """Return all results in one line."""
    bad = [one for one in results if one.violations]
    number = f"{len(results)} check{'' if len(results) == 1 else 's'}"
    if not bad:
        return f"audit: {number}, nothing found"
    found = sum(one.violations for one in bad)
    names = ", ".join(one.check.name for one in bad)
    return f"audit: {number}, {found:,} violation{'' if found == 1 else 's'} ({names})"
