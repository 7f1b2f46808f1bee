"""The text of a schema's version in its event in the log.

A drop is a text without a version: the topic has no schema from then on.
"""

import json
from typing import cast

from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.schemas.schema_version import (
    Compatibility,
    Format,
    Framing,
    SchemaVersion,
    Validation,
)

DROPPED = json.dumps({"version": None})


def text_of(schema: SchemaVersion, columns: str) -> str:
    """Return the text of a version; `columns` is the JSON of `column_types.spark_json`."""
    said = {
        "version": schema.version,
        "format": schema.format,
        "definition": schema.definition,
        "message": schema.message,
        "compatibility": schema.compatibility,
        "validate": schema.validation,
        "framing": schema.framing,
        "registry_id": schema.registry_id,
        "cloud_events": schema.cloud_events,
        "columns": json.loads(columns) if columns else {},
    }
    return json.dumps(said, ensure_ascii=False, separators=(",", ":"))


def version_of(topic: str, text: str) -> SchemaVersion | None:
    """Return the version in a text; None for a drop. Raises InvalidRequest for a text that a later
    version of the program wrote."""
    said = json.loads(text)
    if said["version"] is None:
        return None
    try:
        return SchemaVersion(
            topic=topic,
            version=int(said["version"]),
            format=Format(said["format"]),
            definition=str(said["definition"]),
            message=str(said["message"]),
            compatibility=Compatibility(said["compatibility"]),
            validation=Validation(said["validate"]),
            framing=Framing(said["framing"]),
            registry_id=str(said["registry_id"]),
            cloud_events=bool(said["cloud_events"]),
        )
    except (KeyError, ValueError) as error:
        raise InvalidRequest(
            f"the schema of {topic} can't be read ({error}): a later version of the program wrote "
            "it. Start that one"
        ) from None


def columns_of(text: str) -> str:
    """Return the columns in a text, as JSON; empty for a drop."""
    columns = cast("dict[str, object]", json.loads(text)).get("columns")
    return json.dumps(columns, ensure_ascii=False) if columns else ""
