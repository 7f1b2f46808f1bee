"""`distributary schema`: schemas of the messages of topics."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from distributary.ingest.cli.answer_tables import (
    SCHEMA_EVENTS,
    SCHEMAS,
    print_listed,
    print_rows,
    show_row,
)
from distributary.ingest.cli.options.command_options import (
    connected,
    json_option,
    print_json,
    sure,
    yes_option,
)
from distributary.ingest.cli.schemas.schema_export import export
from distributary.ingest.cli.schemas.schema_sampling import infer, sample_report
from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.management.management_messages import Entity, Verb
from distributary.pipeline.schemas.schema_version import (
    Compatibility,
    Format,
    Framing,
    SchemaVersion,
    Validation,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from distributary.jobs.client.management_client import Client

#: Exit code of a check that refuses a version.
NOT_ALLOWED = 1

_topic = click.argument("topic")


def _definition_options(command: "Callable[..., None]") -> "Callable[..., None]":
    """Add the options for a definition and its use."""
    file = click.Path(path_type=Path, exists=True, dir_okay=False)
    for option in reversed(
        (
            click.option("--json-schema", type=file, help="A JSON Schema."),
            click.option("--avro", type=file, help="An Avro schema (.avsc)."),
            click.option("--protobuf", type=file, help="A descriptor set, of protoc."),
            click.option("--message", default="", help="Of --protobuf: package.Message."),
            click.option(
                "--compatibility",
                type=click.Choice([one.value for one in Compatibility]),
                help="What this version may change.  [first: backward]",
            ),
            click.option(
                "--framing",
                type=click.Choice([one.value for one in Framing]),
                help="What stands before a body.  [first: plain]",
            ),
            click.option("--registry-id", default="", help="How bodies name this version."),
            click.option(
                "--cloud-events/--no-cloud-events",
                default=None,
                help="Whether messages are CloudEvents.  [first: no]",
            ),
        )
    ):
        command = option(command)
    return command


@click.group()
def schema() -> None:
    """Set, show and check the schemas of topics.

    \b
    Examples:
      distributary schema set orders --json-schema order.json
      distributary schema set 'sensors.*' --avro reading.avsc --validate refuse
      distributary schema show orders
      distributary schema infer orders --home ~/orders --sample 100000
      distributary schema export > asyncapi.json

    A schema is for a topic, a queue (queue://work), or a pattern as in policies: * and ?.
    Exit codes: 0 done, 1 not allowed or failed, 2 not understood, 3 there is none, 4 refused.
    """


@schema.command(name="set")
@_topic
@_definition_options
@click.option(
    "--validate",
    type=click.Choice([one.value for one in Validation]),
    help="Treatment of a message that doesn't fit.  [first: off]",
)
@json_option
@connected
def set_(
    client: "Client",
    topic: str,
    json_schema: Path | None,
    avro: Path | None,
    protobuf: Path | None,
    message: str,
    compatibility: str | None,
    framing: str | None,
    registry_id: str,
    cloud_events: bool | None,
    validate: str | None,
    as_json: bool,
) -> None:
    """Set the next version. Its definition is given each time; other options that aren't given stay
    as in the version before.

    \b
    Examples:
      distributary schema set orders --json-schema order.json
      distributary schema set orders --protobuf orders.desc --message shop.Order
      distributary schema set orders --avro order.avsc --framing confluent --validate refuse
    """
    files = {Format.JSON: json_schema, Format.AVRO: avro, Format.PROTOBUF: protobuf}
    use = _use(compatibility, framing, registry_id, cloud_events=cloud_events)
    wanted = _definition_of(files, message) | use | {"validate": validate}
    row = client.ask(Verb.UPDATE, Entity.SCHEMA, topic, _said(wanted))
    if as_json:
        print_json(row)
    else:
        click.echo(row["said"])


def _definition_of(files: "Mapping[Format, Path | None]", message: str) -> dict[str, Any]:
    """Return a request's attributes for a definition. Raises InvalidRequest."""
    given = [(of, file) for of, file in files.items() if file is not None]
    if len(given) != 1:
        raise InvalidRequest("say one of --json-schema FILE, --avro FILE, --protobuf FILE")
    [(of, file)] = given
    if (of is Format.PROTOBUF) != bool(message):
        raise InvalidRequest("--protobuf FILE and --message package.Message go together")
    return {"format": of.value, "definition": _definition(of, file), "message": message}


def _use(
    compatibility: str | None, framing: str | None, registry_id: str, *, cloud_events: bool | None
) -> dict[str, Any]:
    """Return a request's attributes for the use of a definition."""
    return {
        "compatibility": compatibility,
        "framing": framing,
        "registry_id": registry_id,
        "cloud_events": cloud_events,
    }


def _said(wanted: "Mapping[str, Any]") -> dict[str, Any]:
    """Return the attributes that were given: the others stay."""
    return {key: value for key, value in wanted.items() if value is not None}


def _definition(of: Format, file: Path) -> str:
    data = file.read_bytes()
    if of is Format.PROTOBUF:
        from base64 import b64encode  # noqa: PLC0415

        return b64encode(data).decode()
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise InvalidRequest(f"{file} is no text in UTF-8") from None


@schema.command()
@_topic
@click.option("--version", type=click.IntRange(1), help="That one; else the one that holds.")
@json_option
@connected
def show(client: "Client", topic: str, version: int | None, as_json: bool) -> None:
    """Show a version: its definition and its columns.

    \b
    Examples:
      distributary schema show orders
      distributary schema show orders --version 1 --json
    """
    row = client.ask(Verb.READ, Entity.SCHEMA, topic, {"version": version})
    row = {key: value for key, value in row.items() if key not in ("said", "history")}
    if as_json:
        print_json(row)
        return
    fields = json.loads(row.pop("columns", "{}")).get("fields", [])
    row["columns"] = [f"{one['name']}: {_kind(one['type'])}" for one in fields]
    show_row(row)


def _kind(kind: object) -> str:
    """Return the name of a type of Spark's."""
    return (
        kind if isinstance(kind, str) else str(kind.get("type") if isinstance(kind, dict) else kind)
    )


@schema.command(name="list")
@json_option
@connected
def list_schemas(client: "Client", as_json: bool) -> None:
    """List the topics and patterns that have a schema.

    \b
    Example:
      distributary schema list
    """
    print_listed(SCHEMAS, client.listed(Entity.SCHEMA), "schemas", as_json=as_json)


@schema.command()
@_topic
@json_option
@connected
def history(client: "Client", topic: str, as_json: bool) -> None:
    """Show all versions and drops: user, time, and the first message for which each counts.

    \b
    Example:
      distributary schema history orders
    """
    rows = client.ask(Verb.READ, Entity.SCHEMA, topic)["history"]
    print_rows(SCHEMA_EVENTS, rows, "versions", as_json=as_json)


@schema.command()
@_topic
@_definition_options
@click.option("--home", type=click.Path(path_type=Path), help="Read its newest messages, too.")
@click.option("--config", type=click.Path(path_type=Path), help="The home's settings.")
@click.option("--sample", type=click.IntRange(1), default=100_000, show_default=True)
@json_option
@connected
def check(
    client: "Client",
    topic: str,
    json_schema: Path | None,
    avro: Path | None,
    protobuf: Path | None,
    message: str,
    compatibility: str | None,
    framing: str | None,
    registry_id: str,
    cloud_events: bool | None,
    home: Path | None,
    config: Path | None,
    sample: int,
    as_json: bool,
) -> None:
    """Check that a version may follow the one in force, and how many of the newest messages fit it.

    \b
    Examples:
      distributary schema check orders --json-schema order.json
      distributary schema check orders --avro order.avsc --home ~/orders

    Exit code 0: it may. 1: it may not. What doesn't fit among the messages changes no exit code.
    """
    files = {Format.JSON: json_schema, Format.AVRO: avro, Format.PROTOBUF: protobuf}
    use = _use(compatibility, framing, registry_id, cloud_events=cloud_events)
    wanted = _definition_of(files, message) | use
    answer = client.ask(Verb.UPDATE, Entity.SCHEMA, topic, _said(wanted | {"check": True}))
    row = {"allowed": answer["allowed"], "reasons": answer["reasons"]}
    if home is not None:
        version = SchemaVersion(
            topic=topic,
            version=1,
            format=Format(wanted["format"]),
            definition=wanted["definition"],
            message=wanted["message"],
            framing=Framing(answer["framing"]),
            registry_id=registry_id,
            cloud_events=answer["cloud_events"],
        )
        row |= sample_report(version, home, config, sample)
    if as_json:
        print_json(row)
    else:
        show_row(row)
    if not row["allowed"]:
        raise click.exceptions.Exit(NOT_ALLOWED)


@schema.command()
@_topic
@yes_option
@connected
def drop(client: "Client", topic: str, yes: bool) -> None:
    """Drop a schema: messages aren't checked any more. Its versions stay in the log.

    \b
    Example:
      distributary schema drop orders --yes
    """
    sure(f"Drop the schema of {topic}?", yes=yes)
    click.echo(client.ask(Verb.DELETE, Entity.SCHEMA, topic)["said"])


schema.add_command(infer)
schema.add_command(export)
