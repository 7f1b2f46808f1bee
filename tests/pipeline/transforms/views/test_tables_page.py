"""docs/tables.md and docs/views.md are the contract: every column of every table and view is there,
and their examples run."""

import re
from pathlib import Path

import pytest
from pyspark.sql.types import ArrayType, DataType, MapType

from distributary.pipeline.tables.arrow.topic_log_schema import SCHEMA
from distributary.pipeline.transforms.schema.home_tables import SCHEMAS
from distributary.pipeline.transforms.views.view_registry import VIEWS

DOCS = Path(__file__).parents[4] / "docs"
PAGE = "".join((DOCS / name).read_text() for name in ("tables.md", "views.md"))
WORDS = {"bigint": "long", "tinyint": "byte"}


def columns(section: str) -> list[list[str]]:
    """The rows of the first table of a section that lists columns, cell by cell."""
    text = re.search(rf"^## {section}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert text, f"there is no section {section}"
    _, _, rows = text[1].partition("| column |")
    found = []
    for line in rows.splitlines()[2:]:
        if not line.startswith("| `"):
            break
        found.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
    return found


def word_of(kind: DataType) -> str:
    match kind:
        case ArrayType():
            return "array of struct"
        case MapType():
            return "map of string to struct"
    return WORDS.get(kind.simpleString(), kind.simpleString())


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_column_is_there(name: str) -> None:
    """In the table's order, with its type, when it is null, what it means, and an example."""
    listed = [(row[0].strip("`"), row[1]) for row in columns(name)]
    assert listed == [(field.name, word_of(field.dataType)) for field in SCHEMAS[name].fields]
    assert all(len(row) == 5 and all(row) for row in columns(name))


@pytest.mark.parametrize("name", VIEWS)
def test_every_column_of_a_view_has_all_of_its_cells(name: str) -> None:
    """The tests of the views compare the names of the columns."""
    assert columns(name)
    assert all(len(row) == 5 and all(row) for row in columns(name))


def test_every_column_of_the_log_is_there() -> None:
    """The gateway's own table has names for its types that are the same as Spark's."""
    assert sorted(row[0].strip("`") for row in columns("topic_log")) == sorted(SCHEMA.names)
