"""Answers of another gateway's `$management`, read: that gateway may be of another version, or
broken.

Rule: bytes that are no answer give a sentence that says why, and no exception.
"""

import struct
from typing import Final

import msgspec

from distributary.pipeline.codec import amqp_codes as codes
from distributary.pipeline.codec.amqp_types import DecodeError
from distributary.pipeline.codec.amqp_writer import Written, section
from distributary.pipeline.codec.raw_values import fields_of, pairs_of, value_of
from distributary.pipeline.codec.sections import (
    PROPERTIES_FIELDS,
    Identifier,
    Kind,
    application_properties,
    walk,
)
from distributary.pipeline.management.log_list import ListPart
from distributary.pipeline.management.management_messages import answering

#: Exceptions of reading bytes that are no answer.
_BROKEN: Final = (DecodeError, IndexError, ValueError, struct.error)
#: Valid statuses (RFC 9110, section 15).
_STATUSES: Final = range(100, 600)
_CORRELATION: Final = [name for name, _ in PROPERTIES_FIELDS].index("correlation_id")


class NodeAnswer(msgspec.Struct, frozen=True):
    """An answer as received: `said` are its application properties, `body` its map."""

    status: int
    description: str
    said: bytes
    body: bytes

    def readdressed(self, to: str, correlation: Identifier | None) -> bytes:
        """Return the answer as a message's bytes, for this gateway's client."""
        said = section(Kind.APPLICATION_PROPERTIES, self.said)
        return answering(to, correlation) + said + section(Kind.VALUE, self.body)

    def number(self, name: str) -> int | None:
        """Return a number of the map; None where there is none."""
        value = self._value(name)
        return value if type(value) is int else None

    def text(self, name: str) -> str | None:
        """Return a text of the map; None where there is none."""
        value = self._value(name)
        return value if isinstance(value, str) else None

    def _value(self, name: str) -> object:
        try:
            return value_of(dict(pairs_of(self.body)).get(name, b""))
        except _BROKEN:
            return None

    def list_part(self) -> ListPart | str:
        """Return the list in the answer to a query, or why there is none."""
        try:
            return _listed(self.body)
        except _BROKEN as error:
            return f"its answer is no list: {error}"


def asked_by(data: bytes) -> int | None:
    """Return the number of the request that this message answers, if it has one."""
    try:
        found = (data[one.start : one.stop] for one in walk(data) if one.kind is Kind.PROPERTIES)
        number = value_of(fields_of(next(found, b""))[_CORRELATION])
    except _BROKEN:
        return None
    return number if type(number) is int else None


def answer_of(data: bytes) -> NodeAnswer | str:
    """Parse an answer; return a sentence for bytes that are none."""
    try:
        found = {one.kind: data[one.start : one.stop] for one in walk(data)}
        said = application_properties(data)
    except _BROKEN as error:
        return f"its answer can't be read: {error}"
    status, text = said.get("statusCode"), said.get("statusDescription")
    number = None if status is None else status.value
    if not isinstance(number, int) or isinstance(number, bool) or number not in _STATUSES:
        return "its answer has no status code"
    body = found.get(Kind.VALUE, b"")
    if not body or body[0] not in codes.MAPS:
        return "its answer has no map for a body"
    described = text.value if text is not None and isinstance(text.value, str) else ""
    return NodeAnswer(number, described, found[Kind.APPLICATION_PROPERTIES], body)


def _listed(body: bytes) -> ListPart:
    """Parse a list. Raises one of _BROKEN."""
    said = dict(pairs_of(body))
    names = tuple(value_of(one) for one in fields_of(said.get("attributeNames", b"")))
    rows = fields_of(said.get("results", b""))
    total = value_of(said.get("total", b""))
    texts = tuple(one for one in names if isinstance(one, str))
    if len(texts) != len(names):
        raise DecodeError("the name of an attribute is no text")
    if type(total) is not int or total < 0:
        raise DecodeError("'total' is no number")
    if any(len(fields_of(row)) != len(texts) for row in rows):
        raise DecodeError("an entity has other attributes than the list says")
    return ListPart(texts, tuple(Written(row) for row in rows), total)
