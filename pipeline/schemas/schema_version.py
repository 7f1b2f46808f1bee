"""A schema: one version of what the messages of a topic, or of the topics of a pattern, must be.

Rule 1: a version never changes. Another definition, another mode or another way of checking is the
        next version.
Rule 2: versions of one pattern are counted from 1 and are never reused, also not after a drop.
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
    """What the next version may change (Confluent Schema Registry: "Compatibility types")."""

    NONE = "none"  #: everything
    BACKWARD = "backward"  #: it reads what the version before it has written
    FORWARD = "forward"  #: the version before it reads what it writes
    FULL = "full"  #: both


class Validation(StrEnum):
    """What becomes of a message that doesn't fit."""

    OFF = "off"  #: nobody looks when it is published
    REFUSE = "refuse"  #: its publisher gets `rejected`
    DEAD_LETTER = "dead-letter"  #: its publisher gets `accepted`; it goes to the dead letters


class Way(StrEnum):
    """How a message comes to a topic. Copies that are dead letters come in a way of their own, and
    aren't checked: nobody could be told, and they would go round for ever."""

    PUBLISHED = "published"  #: by a publisher, in a transaction or not
    ROUTED = "routed"  #: as a copy, by the policy of another topic
    REDRIVEN = "redriven"  #: out of the dead letters, by an operator


class Consequence(StrEnum):
    """What becomes of a message that doesn't fit, or couldn't be checked."""

    REJECT = "reject"  #: its publisher hears why
    DEAD_LETTER = "dead-letter"  #: it goes to the topic's dead letters
    STAY = "stay"  #: it stays where it is


#: A way and what the schema says -> what follows. A row that isn't there isn't checked.
CONSEQUENCES: dict[tuple[Way, Validation], Consequence] = {
    (Way.PUBLISHED, Validation.REFUSE): Consequence.REJECT,
    (Way.PUBLISHED, Validation.DEAD_LETTER): Consequence.DEAD_LETTER,
    # Its publisher has sent it to another topic, which takes it, and can't be told.
    (Way.ROUTED, Validation.REFUSE): Consequence.DEAD_LETTER,
    (Way.ROUTED, Validation.DEAD_LETTER): Consequence.DEAD_LETTER,
    (Way.REDRIVEN, Validation.REFUSE): Consequence.STAY,
    (Way.REDRIVEN, Validation.DEAD_LETTER): Consequence.STAY,
}


class Framing(StrEnum):
    """What stands before a body."""

    PLAIN = "plain"  #: nothing
    CONFLUENT = (
        "confluent"  #: a zero byte and four bytes of id; Protobuf: the message's indexes, too
    )


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """One version of a schema.

    `topic` is a topic's name, or a pattern as policies have it (`*` and `?`). `definition` is the
    text in the format's language, `message` the full name of a Protobuf message. `registry_id` is
    the id under which producers name this version in their bodies; empty if they don't.
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
    """What one schema may become (`schemas` in the settings)."""

    definition_bytes_max: int = 49_152
    columns_max: int = 1_000
    depth_max: int = 16


LIMITS: Final = SchemaLimits()
