"""Bodies of JSON as rows: validated by jsonschema-rs, then read column by column.

Rule 1: no document is fetched: a reference to another one is an error when the schema is set.
Rule 2: numbers are parsed as doubles, which is quick, unless a column needs their digits: then all
        of the body is parsed again.
Rule 3: patterns are matched in linear time. One that needs more (look-around, back-references) is
        an error when the schema is set.
"""

from collections.abc import Callable
from typing import Any

import jsonschema_rs

from distributary.pipeline.codec.quoting import quoted
from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.schemas.body_content import BodyContent, json_body
from distributary.pipeline.schemas.column_types import RowLayout
from distributary.pipeline.schemas.json_columns import json_columns, parsed
from distributary.pipeline.schemas.json_values import (
    DOUBLES,
    Instance,
    Rounded,
    has_decimals,
    row_reading,
)
from distributary.pipeline.schemas.schema_version import LIMITS, SchemaLimits, SchemaVersion
from distributary.pipeline.schemas.typed_row import (
    REASON_CHARACTERS_MAX,
    NotFitting,
    TypedRow,
    pointer,
)

#: The library's error also for a pattern that can't be matched in linear time.
_NO_PATTERN = 'is not a "regex"'


class JsonRows:
    """Reads bodies that a JSON Schema describes. Raises InvalidRequest if the definition is no JSON
    Schema."""

    def __init__(self, schema: SchemaVersion, limits: SchemaLimits = LIMITS) -> None:
        self.layout: RowLayout = json_columns(schema.definition, limits)
        self._framing = schema.framing
        self._exact = has_decimals(self.layout)
        self._row: Callable[[object], TypedRow] = row_reading(self.layout)
        self._row_of_doubles: Callable[[object], TypedRow] = row_reading(self.layout, DOUBLES)
        self._validator = _validator(schema.definition)

    def read(self, content: BodyContent) -> TypedRow:
        """Return the row of a body. Raises NotFitting."""
        instance = json_body(content, self._framing, exact=self._exact)
        self._validate(instance)
        try:
            return self._row_of_doubles(instance)
        except Rounded:
            return self._row(json_body(content, self._framing, exact=True))

    def _validate(self, instance: Instance) -> None:
        try:
            wrong = next(iter(self._validator.iter_errors(instance)), None)
        except (ValueError, RecursionError) as error:
            raise NotFitting(f"the body can't be validated: {error}") from None
        if wrong is not None:
            raise _told(wrong)


def _validator(definition: str) -> jsonschema_rs.Validator:
    try:
        return jsonschema_rs.validator_for(
            _a_schema(parsed(definition)),
            validate_formats=True,
            pattern_options=jsonschema_rs.RegexOptions(),
            offline=True,
        )
    except jsonschema_rs.ValidationError as error:
        said = error.message
        if isinstance(error.kind, jsonschema_rs.ValidationErrorKind.Referencing):
            raise InvalidRequest(
                f"a $ref leads nowhere: {said}. References lead to a place in the same document"
            ) from None
        if said.endswith(_NO_PATTERN):
            said += ", or one with look-around or back-references, or too large"
        where = pointer(list(error.instance_path)) or "its top"
        raise InvalidRequest(f"the definition is no JSON Schema: {where}: {said}") from None
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        raise InvalidRequest(f"the definition is no JSON Schema: {error}") from None


def _a_schema(said: object) -> dict[str, Any] | bool:
    if not isinstance(said, dict | bool):
        raise InvalidRequest("the definition is no JSON Schema: one is an object, or true or false")
    return said


def _told(wrong: jsonschema_rs.ValidationError) -> NotFitting:
    reason = wrong.message
    if len(reason) > REASON_CHARACTERS_MAX:  # it includes the value, of any length
        reason = f"{quoted(wrong.instance)} isn't what '{wrong.schema_path[-1]}' asks for"
    error = NotFitting(reason)
    for part in reversed(wrong.instance_path):
        error = error.within(part)
    return error
