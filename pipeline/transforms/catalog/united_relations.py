"""Views of a catalog over the tables and views of several logs: each has the rows of all logs, and
a column with the log of each row.

Rule: the relations in a log's own schema stay unchanged; a view here is a UNION ALL of them. Typed
      tables are united by their folder, because the name of a table may be another topic's, too.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from distributary.pipeline.distinct_names import beside, distinct
from distributary.pipeline.transforms.catalog.relations import (
    NOT_IN_NAMES,
    Relation,
    typed_names,
)
from distributary.pipeline.transforms.schema.lake_rows import LOG, TYPED_LOG
from distributary.pipeline.transforms.selector.term_renderings import quoted_name, text_literal

_SAYS: Final = "the log of the lake that the row is in"


@dataclass(frozen=True, slots=True)
class United:
    """A view, and its `parts`: the name of a table or view in each log's schema. The view's first
    column is the log; `columns` are the names of the others in the parts."""

    view: Relation
    parts: Mapping[str, str]
    columns: Sequence[str]


def log_schemas(schema: str, logs: Iterable[str]) -> dict[str, str]:
    """The schema of each log, beside that of the lake. `logs` are all logs in the order in which
    they were made, so that a log's schema never changes."""
    return distinct((log, f"{schema}_{NOT_IN_NAMES.sub('_', log)}") for log in logs)


def united(logs: Mapping[str, Sequence[Relation]]) -> list[United]:
    """The views over the relations of each log in the catalog, in the order of those."""
    typed = typed_names({one.topic for some in logs.values() for one in some if one.topic})
    found: dict[str, dict[str, Relation]] = {}
    for log, some in logs.items():
        for one in some:
            found.setdefault(typed[one.topic] if one.topic else one.name, {})[log] = one
    return [_united(name, parts) for name, parts in found.items()]


def _united(name: str, parts: Mapping[str, Relation]) -> United:
    first = next(iter(parts.values()))
    log_column = TYPED_LOG if first.topic else LOG
    said: dict[str, str] = {}
    for one in parts.values():
        said |= one.columns
    names = beside(said, [log_column])
    columns = {log_column: _SAYS} | {names[name]: says for name, says in said.items()}
    view = Relation(name, first.says, columns, first.folder)
    return United(view, {log: one.name for log, one in parts.items()}, list(said))


def why_not(kinds: Mapping[str, StructType]) -> str:
    """The reason why rows of logs with these columns can't stand in one view; empty if they can.
    To SQL names that differ in upper and lower case alone are the same."""
    spelled: dict[str, str] = {}
    for name, types in _types(kinds).items():
        other = spelled.setdefault(name.lower(), name)
        if other != name:
            return f"its column {other} is called {name} in the log {next(iter(types))}"
        if len(set(types.values())) > 1:
            said = " and ".join(f"{kind} in the log {log}" for log, kind in types.items())
            return f"its column {name} is {said}"
    return ""


def together(one: United, places: Mapping[str, str], kinds: Mapping[str, StructType]) -> str:
    """The SQL of such a view: `places` has by log the names of its parts in the catalog, `kinds`
    has their columns."""
    types = _types(kinds)
    first = next(iter(one.view.columns))
    selects = []
    for log, place in places.items():
        columns = [f"{text_literal(log)} AS {quoted_name(first)}"]
        for name in one.columns:
            column, kind = quoted_name(name), next(iter(types[name].values()))
            lacks = log not in types[name]
            columns.append(f"CAST(NULL AS {kind}) AS {column}" if lacks else column)
        selects.append(f"SELECT {', '.join(columns)} FROM {place}")  # noqa: S608
    return "\nUNION ALL\n".join(selects)


def _types(kinds: Mapping[str, StructType]) -> dict[str, dict[str, str]]:
    """Column -> log -> its type there."""
    types: dict[str, dict[str, str]] = {}
    for log, kind in kinds.items():
        for field in kind:
            types.setdefault(field.name, {})[log] = _type(field.dataType)
    return types


def _type(kind: DataType) -> str:
    """A type in SQL, with the names of fields quoted: they may have any characters."""
    match kind:
        case StructType():
            fields = (f"{quoted_name(one.name)}: {_type(one.dataType)}" for one in kind)
            return f"struct<{', '.join(fields)}>"
        case ArrayType():
            return f"array<{_type(kind.elementType)}>"
        case MapType():
            return f"map<{_type(kind.keyType)}, {_type(kind.valueType)}>"
        case _:
            return kind.simpleString()
