"""The checks, one SQL file each, and their findings.

Rule 1: a check is a query over the views of `audit_views`; its rows are violations, and the first
        column, `problem`, names the kind of violation.
Rule 2: neither the checks nor the views call the code that they check: cursors are matched from
        rows, and a selector is evaluated by Spark, not by the gateway.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from time import monotonic
from typing import TypeAlias

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual alias in Spark code

from distributary.pipeline.errors import InvalidRequest

#: All checks, in the order in which they are made.
NAMES = (
    "torn",
    "gaps",
    "floor_falls",
    "lost",
    "settled_twice",
    "counted_once",
    "delivered_after_settlement",
    "held_twice",
    "not_owed",
    "wrong_selector",
    "out_of_order",
    "unfair_share",
    "untimely",
    "failures_forgotten",
    "dead_letters",
    "cursors_differ",
    "typed",
)

#: A row of a check, by column.
Row: TypeAlias = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Check:
    """One check. `says` is the guarantee that holds if the check has no rows; `judged` names the
    things that it looks at, and `judged_sql` counts them."""

    name: str
    says: str
    sql: str
    judged: str
    judged_sql: str


@dataclass(frozen=True, slots=True)
class Finding:
    """All violations of one kind, and the first of them."""

    problem: str
    violations: int
    example: Row


@dataclass(frozen=True, slots=True)
class Result:
    """Findings of one check; empty if it holds."""

    check: Check
    judged: int
    seconds: float
    findings: tuple[Finding, ...]

    @property
    def violations(self) -> int:
        return sum(one.violations for one in self.findings)


def read(kind: str, name: str) -> str:
    """The text of `sql/<kind>/<name>.sql`."""
    return resources.files(__package__).joinpath("sql", kind, f"{name}.sql").read_text()


def check(name: str) -> Check:
    """The check with this name. Raises InvalidRequest, which lists them, if there is none."""
    if name not in NAMES:
        raise InvalidRequest(f"There is no check {name!r}; there are: {', '.join(NAMES)}.")
    sql = read("checks", name)
    lines = [line.removeprefix("--").strip() for line in sql.splitlines() if line.startswith("--")]
    judged, _, judged_sql = next(
        line.removeprefix("judged: ") for line in lines if line.startswith("judged: ")
    ).partition(" | ")
    return Check(name, lines[0].removeprefix(f"{name}: "), sql, judged, judged_sql)


def violations(spark: SparkSession, one: Check) -> DataFrame:
    """The check's rows, in a session that has the views."""
    return spark.sql(one.sql)


def make(spark: SparkSession, one: Check, counts: dict[str, int]) -> Result:
    """Make the check in a session that has the views, with one finding for each problem. `counts`
    keeps counts of the checks before, by their SQL."""
    started = monotonic()
    rows = violations(spark, one)
    found = (
        rows.groupBy("problem")
        .agg(F.count("*").alias("violations"), F.min(F.struct(*rows.columns[1:])).alias("example"))
        .orderBy("problem")
        .collect()
    )
    if one.judged_sql not in counts:
        counted = spark.sql(one.judged_sql).first()
        counts[one.judged_sql] = 0 if counted is None else counted[0]
    return Result(
        one,
        counts[one.judged_sql],
        monotonic() - started,
        tuple(Finding(row.problem, row.violations, row.example.asDict()) for row in found),
    )
