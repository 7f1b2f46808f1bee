"""`distributary schema export`: topics and their schemas as an AsyncAPI document."""

import json
from typing import TYPE_CHECKING

import click

from distributary.ingest.cli.options.command_options import connected, print_json
from distributary.pipeline.management.management_messages import Entity, Verb
from distributary.pipeline.schemas.documents.async_api import About, ProtoSource, document
from distributary.pipeline.schemas.schema_choice import chosen
from distributary.pipeline.schemas.schema_text import version_of
from distributary.pipeline.schemas.schema_version import Format, SchemaVersion

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from distributary.jobs.client.management_client import Client


@click.command()
@click.option("--all", "with_all", is_flag=True, help="Topics and queues without a schema, too.")
@click.option("--server", help="The address of clients, if it is another than this one.")
@click.option("--title", default="Topics", show_default=True, help="What the document is called.")
@click.option("--document-version", default="1.0.0", show_default=True, help="Its version.")
@connected
def export(
    client: "Client", with_all: bool, server: str | None, title: str, document_version: str
) -> None:
    """Write topics and their schemas as an AsyncAPI 3.0 document, in JSON.

    \b
    Examples:
      distributary schema export > asyncapi.json
      distributary schema export --all --title Shop --server amqps://broker.example:5671

    It has the versions that hold now, and the topics and queues that this user may see.
    """
    read = (_read(client, row) for row in client.query(Entity.SCHEMA))
    schemas = [one for one in read if one is not None]
    topics = [row["name"] for row in client.query(Entity.TOPIC)]
    topics += [f"queue://{row['name']}" for row in client.query(Entity.QUEUE)]
    if not with_all:
        patterns = [one.topic for one in schemas]
        topics = [topic for topic in topics if chosen(patterns, topic) is not None]
    about = About(_url(server) if server else client.url, title, document_version)
    print_json(document(about, topics, schemas, _sources(schemas)))


def _url(server: str) -> str:
    from distributary.jobs.client.management_client import Gateway  # noqa: PLC0415 (Proton takes a while)

    return Gateway.at(server).url


def _read(client: "Client", listed: "Mapping[str, Any]") -> SchemaVersion | None:
    """Return the version in force; None for a schema that was dropped meanwhile."""
    topic = listed["name"]
    row = client.ask(Verb.READ, Entity.SCHEMA, topic, log=listed["log"])
    return version_of(topic, json.dumps(row, default=str)) if row.get("version") else None


def _sources(schemas: "Iterable[SchemaVersion]") -> dict[str, ProtoSource]:
    """Return the `.proto` files of Protobuf schemas; its library is loaded for them alone."""
    some = [one for one in schemas if one.format is Format.PROTOBUF]
    if not some:
        return {}
    from distributary.pipeline.schemas.formats.proto_source import proto_file  # noqa: PLC0415

    found = ((one.topic, proto_file(one.definition, one.message)) for one in some)
    return {topic: ProtoSource(*file) for topic, file in found if file is not None}
