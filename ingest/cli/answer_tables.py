"""Answers as tables for people."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from rich.box import SIMPLE
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from distributary.ingest.cli.options.command_options import print_json, say_missing
from distributary.ingest.cli.options.wide_tables import print_table
from distributary.pipeline.log_names import MAIN

if TYPE_CHECKING:
    from distributary.jobs.client.management_client import Listed

#: Columns that are never wrapped, as numbers and times aren't: names and ids.
NAMES = frozenset({"name", "log", "topic", "example"})
#: Columns of a list: the key, its heading.
SUBSCRIPTIONS = (
    ("name", "Subscription"),
    ("topic", "Topic"),
    ("consumers", "Consumers"),
    ("in_flight", "In flight"),
    ("backlog", "Backlog"),
    ("floor", "Floor"),
    ("paused", "Paused"),
)
QUEUES = (
    ("name", "Queue"),
    ("producers", "Producers"),
    ("consumers", "Consumers"),
    ("in_flight", "In flight"),
    ("backlog", "Backlog"),
    ("floor", "Floor"),
    ("paused", "Paused"),
)
STUCK = (
    ("reason", "Reason"),
    ("messages", "Messages"),
    ("oldest_at", "Oldest"),
    ("example", "For example"),
    ("detail", "That one"),
)
TOPICS = (
    ("name", "Topic"),
    ("producers", "Producers"),
    ("consumers", "Consumers"),
    ("subscriptions", "Subscriptions"),
)

TRANSACTIONS = (
    ("name", "Transaction"),
    ("state", "State"),
    ("user", "User"),
    ("recorded_at", "Since"),
    ("waits_for", "Waits for"),
    ("messages", "Messages"),
    ("deliveries", "Deliveries"),
    ("topics", "Topics"),
)
SCHEMAS = (
    ("name", "Topic"),
    ("version", "Version"),
    ("format", "Format"),
    ("compatibility", "Compatibility"),
    ("validate", "Validate"),
    ("by", "By"),
)
SCHEMA_EVENTS = (
    ("event", "Event"),
    ("version", "Version"),
    ("format", "Format"),
    ("compatibility", "Compatibility"),
    ("validate", "Validate"),
    ("floor", "From"),
    ("by", "By"),
    ("recorded_at", "At"),
)
SEEN_PLACES = (
    ("place", "Place"),
    ("types", "Types"),
    ("missing", "Missing"),
    ("nulls", "Nulls"),
    ("values", "Values"),
    ("odd", "Odd"),
)


def show_rows(
    columns: Sequence[tuple[str, str]], rows: list[dict[str, Any]], what: str, *, err: bool = False
) -> None:
    """Print several entities, one a line; `err`: on standard error."""
    if not rows:
        Console(stderr=err).print(f"There are no {what}.")
        return
    table = Table(box=SIMPLE)
    for key, heading in columns:
        number = isinstance(rows[0].get(key), int) and not isinstance(rows[0][key], bool)
        justify: Literal["right", "left"] = "right" if number else "left"
        whole = key in NAMES or number or key.endswith("_at")
        table.add_column(heading, justify=justify, overflow="fold", no_wrap=whole)
    for row in rows:
        table.add_row(*(escape(_said(key, row.get(key))) for key, _ in columns))
    print_table(table, err=err)


def print_rows(
    columns: Sequence[tuple[str, str]], rows: list[dict[str, Any]], what: str, *, as_json: bool
) -> None:
    """Print a list, for programs or for people; with the log of each where there are others than
    `main`."""
    if as_json:
        print_json(rows)
    elif all(row.get("log", MAIN) == MAIN for row in rows):
        show_rows(columns, rows, what)
    else:
        # A floor is a place in its own log: floors of several logs can't be compared.
        shown = [one for one in columns if one[0] != "floor"]
        show_rows([("log", "Log"), *shown], rows, what)


def print_listed(
    columns: Sequence[tuple[str, str]], listed: "Listed", what: str, *, as_json: bool
) -> None:
    """Print a gateway's list, and name the logs that are missing from it."""
    print_rows(columns, listed.rows, what, as_json=as_json)
    say_missing(listed.missing)


def show_row(row: dict[str, Any]) -> None:
    """Print one entity, one attribute a line."""
    table = Table(show_header=False, box=SIMPLE)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for key, value in row.items():
        if key != "said":
            table.add_row(key, escape(_text(value)))
    print_table(table)


def _in_a_list(value: object) -> str:
    """Return a value as text; a map in one line."""
    if isinstance(value, dict):
        said = {key: _said(key, one) for key, one in value.items() if one is not None}
        return ", ".join(f"{key} {text}" for key, text in said.items())
    return str(value)


def _said(key: str, value: object) -> str:
    """Return a value as text; a key that ends with `_at` has a timestamp in milliseconds."""
    if key.endswith("_at") and isinstance(value, int):
        return datetime.fromtimestamp(value / 1_000, UTC).isoformat(timespec="milliseconds")
    return _text(value)


def _text(value: object) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case list():
            return "\n".join(_in_a_list(one) for one in value) or "-"
        case dict():
            return "\n".join(f"{key} = {_text(one)}" for key, one in value.items()) or "-"
    return str(value) or "-"
