"""The names of topics and queues with a schema, and what becomes of misfits there."""

from collections.abc import Mapping
from pathlib import Path

from gateway_management import Manager
from gateway_peer import Peer
from gateway_process import Gateway
from gateway_schemas import schema

#: Which names have the schema -> what becomes of what doesn't fit.
SCHEMAS = {
    "refused*": "refuse",
    "queue://refused*": "refuse",
    "kept*": "dead-letter",
}


def checked(folder: Path) -> Mapping[str, Mapping[str, object]]:
    """The settings of a gateway; it needs no files."""
    folder.mkdir()
    return {}


def set_schemas(gateway: Gateway) -> None:
    """A message is JSON with a whole number `id`."""
    with Peer(gateway.port) as peer:
        for pattern, validate in SCHEMAS.items():
            Manager(peer).done("UPDATE", "schema", pattern, **schema(validate=validate))
