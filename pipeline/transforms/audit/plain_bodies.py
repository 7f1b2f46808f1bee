"""Bodies of messages, read by a version's row in the table `schemas`, in all formats: by Python's
own parser of JSON, and by readers of Avro and Protobuf that share no code with those of the
rows."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from functools import cache
from typing import Any, Final, TypeAlias

from distributary.pipeline.transforms.audit.plain_avro import AvroBodies
from distributary.pipeline.transforms.audit.plain_protobuf import ProtobufBodies

#: Confluent's frame: a zero byte and an id of four bytes.
_FRAME_BYTES: Final = 5
#: Azure's content type ends with the id.
_AZURE: Final = "avro/binary+"

Read: TypeAlias = Callable[[bytes, str], object]


class Form(Enum):
    """Form of a body's values: JSON with its forms of dates and bytes; an AMQP value as JSON,
    whose times and bytes have other forms; or Python's own types."""

    JSON = "json"
    VALUE = "value"
    NATIVE = "native"


@dataclass(frozen=True, slots=True)
class BodyFormat:
    """The format of one version's bodies; `writers` are its topic's registry ids and
    definitions."""

    format: str
    definition: str = ""
    message: str = ""
    confluent: bool = False
    writers: tuple[tuple[str, str], ...] = ()

    def read(self, body: bytes | str, content_type: str) -> tuple[object, Form]:
        """The value of a body. Raises ValueError for a body that isn't of this format."""
        if isinstance(body, str):
            return _json(body), Form.VALUE
        data, registry_id = body, ""
        if self.confluent:
            if len(body) < _FRAME_BYTES or body[0]:
                raise ValueError("the body doesn't begin with Confluent's frame")
            data, registry_id = (
                body[_FRAME_BYTES:],
                str(int.from_bytes(body[1:_FRAME_BYTES], "big")),
            )
            if self.format == "protobuf":
                data = _after_indexes(data)
        elif content_type.startswith(_AZURE):
            registry_id = content_type.removeprefix(_AZURE)
        if self.format == "json":
            return _json(data), Form.JSON
        return _reader(self)(data, registry_id), Form.NATIVE


def _json(text: bytes | str) -> Any:
    return json.loads(text, parse_float=_number)


def _number(text: str) -> Decimal:
    """A number with all its digits; of one beyond Python's decimals the nearest double."""
    try:
        return Decimal(text)
    except ArithmeticError:
        return Decimal(float(text))


@cache
def _reader(of: BodyFormat) -> Read:
    """The reader of a version, made once in a process."""
    if of.format == "avro":
        return AvroBodies(of.definition, dict(of.writers)).read
    protobuf = ProtobufBodies(of.definition, of.message)
    return lambda data, _registry_id: protobuf.read(data)


def _after_indexes(data: bytes) -> bytes:
    """The data behind Confluent's indexes: a doubled count and so many indexes, as varints."""
    left, at = 1, 0
    first = True
    while left:
        value = shift = 0
        while True:
            value |= (data[at] & 127) << shift
            shift, at = shift + 7, at + 1
            if data[at - 1] < 128:
                break
        left = value >> 1 if first else left - 1
        first = False
    return data[at:]
