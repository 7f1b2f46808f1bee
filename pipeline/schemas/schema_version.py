"""A version of a schema, which the messages of a topic, or of a pattern's topics, must fit.

Rule 1: a version never changes. Another definition, mode or way of checking is the next version.
Rule 2: versions of one pattern are counted from 1 and never reused, not even after a drop.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Format(StrEnum):
    """The language of a definition."""

    JSON = "json"  #: JSON Schema, drafts 4 to 2020-12
    AVRO = "avro"  #: Avro 1.12, as JSON
    PROTOBUF = "protobuf"  #: a FileDescriptorSet, base64


class Compatibility(StrEnum):
    """Changes allowed in the next version (Confluent Schema Registry: "Compatibility types")."""

    NONE = "none"  #: everything
    BACKWARD = "backward"  #: it reads bodies of the version before it
    FORWARD = "forward"  #: the version before it reads its bodies
    FULL = "full"  #: both


class Validation(StrEnum):
    """Handling of a message that doesn't fit when it is published."""

    OFF = "off"  #: messages aren't checked
    REFUSE = "refuse"  #: its publisher gets `rejected`
    DEAD_LETTER = "dead-letter"  #: its publisher gets `accepted`; it goes to the dead letters


class Way(StrEnum):
    """How a message comes to a topic. Copies for dead letters aren't among these ways and aren't
    checked: they have no publisher to reject them to, and would become dead letters again."""

    PUBLISHED = "published"  #: by a publisher, in a transaction or not
    ROUTED = "routed"  #: as a copy, by the policy of another topic
    REDRIVEN = "redriven"  #: out of the dead letters, by an operator


class Consequence(StrEnum):
    """Consequence for a message that doesn't fit, or couldn't be checked."""

    REJECT = "reject"  #: its publisher gets `rejected` with the reason
    DEAD_LETTER = "dead-letter"  #: it goes to the topic's dead letters
    STAY = "stay"  #: it stays where it is


#: (way, validation of the schema) -> consequence. A message without a row here isn't checked.
CONSEQUENCES: dict[tuple[Way, Validation], Consequence] = {
    (Way.PUBLISHED, Validation.REFUSE): Consequence.REJECT,
    (Way.PUBLISHED, Validation.DEAD_LETTER): Consequence.DEAD_LETTER,
    # The publisher sent it to another topic, which accepts it: it can't be rejected.
    (Way.ROUTED, Validation.REFUSE): Consequence.DEAD_LETTER,
    (Way.ROUTED, Validation.DEAD_LETTER): Consequence.DEAD_LETTER,
    (Way.REDRIVEN, Validation.REFUSE): Consequence.STAY,
    (Way.REDRIVEN, Validation.DEAD_LETTER): Consequence.STAY,
}


class Framing(StrEnum):
    """The bytes before a body."""

    PLAIN = "plain"  #: nothing
    CONFLUENT = (
        "confluent"  #: a zero byte and four bytes of id; Protobuf: the message's indexes, too
    )


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """One version of a schema.

    `topic` is a topic's name, or a pattern as policies have it (`*` and `?`). `definition` is the
    text in the format's language, `message` the full name of a Protobuf message. `registry_id` is
    the id by which bodies of producers name this version; empty if they don't.
    `cloud_events`: messages are CloudEvents, and their attributes columns.
    """

    topic: str
    version: int
    format: Format
    definition: str
    message: str = ""
    compatibility: Compatibility = Compatibility.BACKWARD
    validation: Validation = Validation.OFF
    framing: Framing = Framing.PLAIN
    registry_id: str = ""
    cloud_events: bool = False


@dataclass(frozen=True, slots=True)
class SchemaLimits:
    """Limits of one schema (`schemas` in the settings)."""

    definition_bytes_max: int = 49_152
    columns_max: int = 1_000
    depth_max: int = 16


LIMITS: Final = SchemaLimits()
