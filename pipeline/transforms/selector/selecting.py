"""Selectors as conditions on the rows of `messages`, including rows that lack some columns."""

from collections.abc import Iterable

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the usual alias in Spark code

from distributary.pipeline.selector.parser import parse
from distributary.pipeline.transforms.selector.selector_column import condition
from distributary.pipeline.transforms.selector.term_renderings import (
    as_column,
    as_sql,
)
from distributary.pipeline.transforms.selector.terms import Term, col, lit

#: Header fields whose columns came later than the table; in a row that has them, `delivery_count`
#: isn't null.
LATER = frozenset({"JMSXUserID", "JMSXGroupSeq", "JMSXDeliveryCount"})

_UNKNOWN = (
    "A subscription has a selector that it didn't have when this view was made: "
    "make the views again (`register`)."
)


def selects(selector: str | None) -> Column:
    """Whether a row of `messages` is claimed by a selector; never null.

    A row that can't answer the selector counts as claimed: a row with an `error`, or one made
    before `messages` had the columns in LATER that the selector names.
    """
    return F.lit(True) if selector is None else as_column(_selects(selector))


def selected_sql(selector: str, texts: Iterable[str]) -> str:
    """`selected` as a text of SQL, for a view that a catalog keeps; `selector` is a column."""
    known = sorted(set(texts))
    cases = [f"WHEN {selector} = {as_sql(lit(one))} THEN {as_sql(_selects(one))}" for one in known]
    unknown = f"CAST(raise_error({as_sql(lit(_UNKNOWN))}) AS boolean)"
    return f"CASE WHEN {selector} IS NULL THEN true {' '.join(cases)} ELSE {unknown} END"


def _selects(selector: str) -> Term:
    parsed = parse(selector)
    known = col("error").isNull()
    if parsed.identifiers & LATER:
        known &= col("delivery_count").isNotNull()
    return ~known | condition(parsed)


def selected(selector: Column, texts: Iterable[str | None]) -> Column:
    """Whether a row is claimed by the selector in its column `selector`, which is one of `texts`.

    The column has one condition for each distinct text. A selector that isn't among them ends the
    query with an error.
    """
    condition = F.when(selector.isNull(), F.lit(True))
    for text in sorted({text for text in texts if text is not None}):
        condition = condition.when(selector == F.lit(text), selects(text))
    return condition.otherwise(F.raise_error(F.lit(_UNKNOWN)).cast("boolean"))
